//! Compares a request with a recorded one.

use std::fmt;

use serde_json::{Map, Value};

use super::file::{CassetteError, Payload, RecordedRequest};

/// Maximum number of differences that are collected.
const MAX_DIFFERENCES: usize = 64;

/// Maximum number of characters of a value in an error message.
const SHOWN_VALUE: usize = 60;

/// The distance of a request to another URL: larger than that of any body.
const OTHER_ADDRESS: usize = MAX_DIFFERENCES * 4;

/// The length of the path of a tool, such as `/tools/0`.
const TOOL_DEPTH: usize = 2;

/// One difference between two requests.
#[derive(Debug)]
pub(super) struct Difference {
    /// A JSON pointer into the body, or `method`, or `url`.
    place: String,
    recorded: Option<String>,
    requested: Option<String>,
    is_address: bool,
}

impl fmt::Display for Difference {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = if self.place.is_empty() { "the body" } else { &self.place };
        match (&self.recorded, &self.requested) {
            (Some(recorded), Some(requested)) => {
                write!(formatter, "{place} (recorded {recorded}, requested {requested})")
            }
            (Some(recorded), None) => write!(formatter, "{place} (recorded {recorded}, not requested)"),
            (None, Some(requested)) => write!(formatter, "{place} (not recorded, requested {requested})"),
            (None, None) => formatter.write_str(place),
        }
    }
}

/// JSON pointers that are not compared, split into segments.
#[derive(Debug, Default)]
pub(super) struct IgnoredPointers(Vec<Vec<String>>);

impl IgnoredPointers {
    pub(super) fn new(pointers: &[String]) -> Result<Self, CassetteError> {
        let segments = |text: &String| {
            let rest = text.strip_prefix('/').ok_or_else(|| CassetteError::Pointer { text: text.clone() })?;
            Ok(rest.split('/').map(|segment| segment.replace("~1", "/").replace("~0", "~")).collect())
        };
        pointers.iter().map(segments).collect::<Result<_, _>>().map(Self)
    }

    fn has(&self, path: &[String]) -> bool {
        let same = |(pattern, segment): (&String, &String)| pattern == "*" || pattern == segment;
        self.0.iter().any(|pointer| pointer.len() == path.len() && pointer.iter().zip(path).all(same))
    }
}

/// True if a request matches a recorded one.
pub(super) fn matches(
    recorded: &RecordedRequest,
    requested: &RecordedRequest,
    ignored: &IgnoredPointers,
) -> bool {
    compare(recorded, requested, ignored, 1).is_empty()
}

/// The differences, at most 64.
pub(super) fn differences(
    recorded: &RecordedRequest,
    requested: &RecordedRequest,
    ignored: &IgnoredPointers,
) -> Vec<Difference> {
    compare(recorded, requested, ignored, MAX_DIFFERENCES)
}

/// The distance of two requests, to find the nearest.
pub(super) fn distance(differences: &[Difference]) -> usize {
    differences.iter().map(|difference| if difference.is_address { OTHER_ADDRESS } else { 1 }).sum()
}

fn compare(
    recorded: &RecordedRequest,
    requested: &RecordedRequest,
    ignored: &IgnoredPointers,
    limit: usize,
) -> Vec<Difference> {
    let mut differences = Vec::new();
    for (place, one, two) in
        [("method", &recorded.method, &requested.method), ("url", &recorded.url, &requested.url)]
    {
        if one != two {
            let (one, two) = (Some(one.clone()), Some(two.clone()));
            differences.push(Difference {
                place: place.to_owned(),
                recorded: one,
                requested: two,
                is_address: true,
            });
        }
    }
    let mut comparison = Comparison { path: Vec::new(), differences, ignored, limit };
    let (one, two) = (recorded.body.as_ref().map(value), requested.body.as_ref().map(value));
    comparison.values(one.as_ref(), two.as_ref());
    comparison.differences
}

/// A body as a JSON value: documents as they are, other bodies as text.
fn value(body: &Payload) -> Value {
    match body {
        Payload::Json(value) => value.clone(),
        Payload::Text(text) | Payload::Base64(text) => Value::from(text.as_str()),
        Payload::Chunks(_) => {
            let pieces = body.pieces().unwrap_or_default().concat();
            Value::from(String::from_utf8_lossy(&pieces))
        }
    }
}

struct Comparison<'a> {
    path: Vec<String>,
    differences: Vec<Difference>,
    ignored: &'a IgnoredPointers,
    limit: usize,
}

impl Comparison<'_> {
    fn values(&mut self, recorded: Option<&Value>, requested: Option<&Value>) {
        if self.differences.len() >= self.limit || self.ignored.has(&self.path) {
            return;
        }
        match (recorded, requested) {
            (Some(Value::Object(one)), Some(Value::Object(two))) => {
                let added = two.keys().filter(|key| !one.contains_key(*key));
                let later = if self.path.len() == TOOL_DEPTH { later_members(one, two) } else { &[] };
                for key in one.keys().chain(added).filter(|key| !later.contains(&key.as_str())) {
                    self.within(key.clone(), one.get(key), two.get(key));
                }
            }
            (Some(Value::Array(one)), Some(Value::Array(two))) => {
                for index in 0..one.len().max(two.len()) {
                    self.within(index.to_string(), one.get(index), two.get(index));
                }
            }
            (Some(one), Some(two)) if is_equal(one, two) => (),
            (None, None) => (),
            (one, two) => {
                let segments = self.path.iter().map(|segment| segment.replace('~', "~0").replace('/', "~1"));
                let mut place = String::new();
                segments.for_each(|segment| place.extend(["/", &segment]));
                let (recorded, requested) = (one.map(shown), two.map(shown));
                self.differences.push(Difference { place, recorded, requested, is_address: false });
            }
        }
    }

    fn within(&mut self, segment: String, recorded: Option<&Value>, requested: Option<&Value>) {
        self.path.push(segment);
        self.values(recorded, requested);
        self.path.pop();
    }
}

/// The members of a function that are not compared: recordings of earlier versions have functions without `strict`. Now
/// requests say it, and the schema of a strict function is closed.
fn later_members(recorded: &Map<String, Value>, requested: &Map<String, Value>) -> &'static [&'static str] {
    let is_earlier = recorded.get("type").is_some_and(|kind| kind == "function")
        && recorded.contains_key("parameters")
        && !recorded.contains_key("strict");
    match requested.get("strict") {
        Some(Value::Bool(true)) if is_earlier => &["strict", "parameters"],
        Some(_) if is_earlier => &["strict"],
        _ => &[],
    }
}

/// True for the same number: `1` equals `1.0`.
fn is_equal(one: &Value, two: &Value) -> bool {
    match (one.as_f64(), two.as_f64()) {
        (Some(first), Some(second)) if one.is_f64() != two.is_f64() => first.total_cmp(&second).is_eq(),
        _ => one == two,
    }
}

fn shown(value: &Value) -> String {
    let text = value.to_string();
    let short: String = text.chars().take(SHOWN_VALUE).collect();
    if short.len() < text.len() { format!("{short}…") } else { text }
}
