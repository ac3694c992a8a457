//! Converts Pydantic AI's Python objects to the Rust model, without copying their texts.
//!
//! Two passes: the first reads the objects into a flat list of values; the second builds messages that borrow from this
//! list, and does not need the GIL.

use std::ops::Range;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyDictMethods, PyFloat, PyInt, PyList, PyString, PyTuple};

use super::Unknown;
use super::payload::{write, write_float, write_integer};
use super::shapes::{Holds, Member, REQUEST, RESPONSE, RETRY, Shape, Shapes, USAGE, bit, trust, trusts};
use crate::error::wrong_type;
use turntree_core::json::{ParseError, PathSegment};
use turntree_core::limits::Limits;
use turntree_thread_protocol::ThreadError;
use turntree_thread_protocol::convert::pydantic_ai::{
    History, Kind, ModelMessage, Object, Value, read_history, write_history,
};

/// One value of a message, in the order of the JSON.
enum Held {
    /// A member that the JSON does not have.
    Absent,
    /// JSON that never changes.
    Json(&'static str),
    /// The next string of the application.
    Text,
    /// A string that was written into the payload.
    Written(Range<usize>),
    /// JSON that was written into the payload.
    Payload(Range<usize>),
    /// So many values follow.
    List(usize),
    /// The members of this shape follow.
    Object(&'static Shape),
    /// The next message that Pydantic serialized.
    Dumped,
}

/// The values that the first pass read.
pub(crate) struct Walk<'py> {
    held: Vec<Held>,
    texts: Vec<Bound<'py, PyString>>,
    payload: String,
    /// Messages that Pydantic serialized, with their indexes.
    dumped: Vec<(usize, String)>,
}

/// Reads Python messages (the first pass). `what` names the argument in errors.
///
/// # Errors
/// `TypeError` that names an item that is not a message, `ImportError` without pydantic-ai, and what Pydantic raises for
/// a message that it cannot dump.
pub(crate) fn walk<'py>(messages: &[Bound<'py, PyAny>], what: &str) -> PyResult<Walk<'py>> {
    let Some(first) = messages.first() else {
        return Ok(Walk { held: Vec::new(), texts: Vec::new(), payload: String::new(), dumped: Vec::new() });
    };
    let shapes = Shapes::get(first.py())?;
    let mut walker = Walker {
        shapes,
        held: Vec::with_capacity(messages.len().saturating_mul(40)),
        texts: Vec::with_capacity(messages.len().saturating_mul(8)),
        payload: Vec::new(),
        times: [const { None }; TIMES],
        next_time: 0,
        used: 0,
        structured: false,
    };
    let mut dumped = Vec::new();
    for (place, message) in messages.iter().enumerate() {
        let (held, texts, written) = (walker.held.len(), walker.texts.len(), walker.payload.len());
        walker.used = 0;
        if walker.message(message).is_ok() && walker.is_right(message, held, texts)? {
            continue;
        }
        walker.held.truncate(held);
        walker.texts.truncate(texts);
        walker.payload.truncate(written);
        // The cached ranges may have been truncated.
        walker.times = [const { None }; TIMES];
        walker.held.push(Held::Dumped);
        dumped.push((place, dump(shapes, message, &format!("{what}[{place}]"))?));
    }
    let payload = String::from_utf8(walker.payload)?;
    Ok(Walk { held: walker.held, texts: walker.texts, payload, dumped })
}

fn dump(shapes: &Shapes, message: &Bound<'_, PyAny>, place: &str) -> PyResult<String> {
    let py = message.py();
    let [request, response] = &shapes.message_classes;
    if !message.is_instance(request.bind(py))? && !message.is_instance(response.bind(py))? {
        return Err(wrong_type(message, place, "a ModelRequest or a ModelResponse"));
    }
    let dumped = shapes.dump_json(message).map_err(|error| {
        let class = py.import(intern!(py, "turntree.exceptions"));
        let class = class.and_then(|module| module.getattr(intern!(py, "SerializationError")));
        let said = format!("{place}: Pydantic cannot dump this message: {}", error.value(py));
        match class.and_then(|class| class.call1((said,))) {
            Ok(raised) => {
                let raised = PyErr::from_value(raised);
                raised.set_cause(py, Some(error));
                raised
            }
            Err(failed) => failed,
        }
    })?;
    let bytes = dumped.cast::<PyBytes>()?;
    // JSON is UTF-8.
    Ok(String::from_utf8_lossy(bytes.as_bytes()).into_owned())
}

/// Size of the cache of times: the parts of a message often have the same time.
const TIMES: usize = 4;

struct Walker<'py> {
    shapes: &'static Shapes,
    held: Vec<Held>,
    texts: Vec<Bound<'py, PyString>>,
    payload: Vec<u8>,
    times: [Option<(Bound<'py, PyAny>, Range<usize>)>; TIMES],
    next_time: usize,
    /// Shapes of the message at hand, as bits.
    used: u64,
    /// Whether the tool return at hand gave back more than a scalar.
    structured: bool,
}

impl<'py> Walker<'py> {
    /// Whether the values equal the output of Pydantic, for messages with shapes that are not checked yet.
    fn is_right(&self, message: &Bound<'py, PyAny>, held: usize, texts: usize) -> PyResult<bool> {
        let trusted = &self.shapes.walk_trusted;
        if trusts(trusted, self.used) {
            return Ok(true);
        }
        let Ok(dumped) = self.shapes.dump_json(message) else { return Ok(false) };
        let Ok(payload) = std::str::from_utf8(&self.payload) else { return Ok(false) };
        let texts = self.texts.get(texts..).unwrap_or_default();
        let found = Found {
            held: self.held.get(held..).unwrap_or_default(),
            texts: texts.iter().map(Bound::to_str).collect::<PyResult<_>>()?,
            payload,
            dumped: Vec::new(),
        };
        let history: History<'_> = found.into_iter().collect();
        let mut written = Vec::new();
        write_history(&mut written, &history);
        let same = dumped.cast::<PyBytes>()?.as_bytes() == written;
        if same {
            trust(trusted, self.used);
        }
        Ok(same)
    }

    fn message(&mut self, message: &Bound<'py, PyAny>) -> Result<(), Unknown> {
        match self.shapes.of(message.get_type_ptr() as usize) {
            Some((place @ (REQUEST | RESPONSE), shape)) => self.object(place, shape, message),
            _ => Err(Unknown),
        }
    }

    /// A part, or an item of a prompt.
    fn known(&mut self, value: &Bound<'py, PyAny>) -> Result<(), Unknown> {
        match self.shapes.of(value.get_type_ptr() as usize) {
            Some((place, shape)) if place > RETRY => self.object(place, shape, value),
            _ => Err(Unknown),
        }
    }

    fn object(
        &mut self,
        place: usize,
        shape: &'static Shape,
        value: &Bound<'py, PyAny>,
    ) -> Result<(), Unknown> {
        self.held.push(Held::Object(shape));
        let outer = std::mem::take(&mut self.structured);
        for member in &shape.members {
            match member.holds {
                // The second pass knows it; an application may have set another one.
                Holds::Name(name) => {
                    let set = value.getattr(&member.name)?;
                    if set.cast_exact::<PyString>().map_err(|_| Unknown)?.to_str()? != name {
                        return Err(Unknown);
                    }
                }
                Holds::Digests if self.structured => self.held.push(Held::Json("[]")),
                Holds::Digests => self.held.push(Held::Absent),
                _ => self.member(member, &value.getattr(&member.name)?)?,
            }
        }
        self.used |= bit(place, std::mem::replace(&mut self.structured, outer));
        Ok(())
    }

    fn member(&mut self, member: &Member, value: &Bound<'py, PyAny>) -> Result<(), Unknown> {
        match member.holds {
            Holds::Time | Holds::MaybeTime => self.time(value),
            Holds::Parts => self.list(value, Self::known),
            Holds::Prompt if !value.is_exact_instance_of::<PyString>() => self.list(value, |walker, item| {
                if item.is_exact_instance_of::<PyString>() { walker.plain(item) } else { walker.known(item) }
            }),
            Holds::Usage => self.usage(value),
            Holds::Nothing if !value.is_none() => Err(Unknown),
            Holds::Retry if !value.is_none() => match self.shapes.of(value.get_type_ptr() as usize) {
                Some((RETRY, shape)) => self.object(RETRY, shape, value),
                _ => Err(Unknown),
            },
            Holds::Bytes => {
                let bytes = value.cast_exact::<PyBytes>().map_err(|_| Unknown)?;
                let start = self.payload.len();
                let encoded = URL_SAFE.encode(bytes.as_bytes());
                self.payload.extend_from_slice(encoded.as_bytes());
                self.held.push(Held::Written(start..self.payload.len()));
                Ok(())
            }
            Holds::Returned => {
                self.plain(value)?;
                self.structured = matches!(self.held.last(), Some(Held::Payload(range))
                    if self.payload.get(range.start).is_some_and(|byte| matches!(byte, b'{' | b'[')));
                Ok(())
            }
            _ => self.plain(value),
        }
    }

    /// A value of a plain type.
    fn plain(&mut self, value: &Bound<'py, PyAny>) -> Result<(), Unknown> {
        if value.is_none() {
            self.held.push(Held::Json("null"));
            return Ok(());
        }
        if let Ok(text) = value.cast_exact::<PyString>() {
            // Half surrogates have no UTF-8.
            text.to_str()?;
            self.held.push(Held::Text);
            self.texts.push(text.clone());
            return Ok(());
        }
        let start = self.payload.len();
        write(&mut self.payload, value, self.shapes, 0)?;
        self.held.push(Held::Payload(start..self.payload.len()));
        Ok(())
    }

    fn list(
        &mut self,
        value: &Bound<'py, PyAny>,
        mut each: impl FnMut(&mut Self, &Bound<'py, PyAny>) -> Result<(), Unknown>,
    ) -> Result<(), Unknown> {
        if let Ok(list) = value.cast_exact::<PyList>() {
            self.held.push(Held::List(list.len()));
            return list.iter().try_for_each(|item| each(self, &item));
        }
        let tuple = value.cast_exact::<PyTuple>().map_err(|_| Unknown)?;
        self.held.push(Held::List(tuple.len()));
        tuple.iter().try_for_each(|item| each(self, &item))
    }

    /// A point in time, as Pydantic spells it.
    fn time(&mut self, value: &Bound<'py, PyAny>) -> Result<(), Unknown> {
        let py = value.py();
        if !value.get_type().is(self.shapes.datetime.bind(py)) {
            return self.plain(value);
        }
        let known = self.times.iter().flatten().find(|(time, _)| time.is(value));
        if let Some((_, range)) = known {
            self.held.push(Held::Written(range.clone()));
            return Ok(());
        }
        let text = value.call_method0(intern!(py, "isoformat"))?;
        let text = text.cast::<PyString>().map_err(|_| Unknown)?.to_str()?;
        // Date and time to the second, then perhaps six digits of fraction.
        let rest = text.get(19..).ok_or(Unknown)?;
        let (fraction, offset) = match rest.strip_prefix('.') {
            Some(_) => rest.split_at_checked(7).ok_or(Unknown)?,
            None => ("", rest),
        };
        let start = self.payload.len();
        match (offset, offset.len()) {
            (_, 0 | 6) => {
                self.payload.extend_from_slice(text.get(..19).ok_or(Unknown)?.as_bytes());
                self.payload.extend_from_slice(fraction.as_bytes());
                let offset = if offset == "+00:00" { "Z" } else { offset };
                self.payload.extend_from_slice(offset.as_bytes());
            }
            // An offset with seconds.
            _ => return Err(Unknown),
        }
        let range = start..self.payload.len();
        if let Some(slot) = self.times.get_mut(self.next_time % TIMES) {
            *slot = Some((value.clone(), range.clone()));
        }
        self.next_time += 1;
        self.held.push(Held::Written(range));
        Ok(())
    }

    /// Usage of a response: fields that were set are in the object's dict, which may have more than fields.
    fn usage(&mut self, value: &Bound<'py, PyAny>) -> Result<(), Unknown> {
        let py = value.py();
        let Some((USAGE, shape)) = self.shapes.of(value.get_type_ptr() as usize) else {
            return Err(Unknown);
        };
        let set = value.getattr(intern!(py, "__dict__"))?;
        let set = set.cast_exact::<PyDict>().map_err(|_| Unknown)?;
        self.used |= bit(USAGE, false);
        self.held.push(Held::Object(shape));
        let mut known = 0;
        for member in &shape.members {
            let own = set.get_item(&member.name)?;
            known += usize::from(own.is_some());
            let value = match (&own, &member.default) {
                (Some(own), _) => own,
                (None, Some(default)) => default.bind(py),
                (None, None) => return Err(Unknown),
            };
            self.cost(member, value)?;
        }
        if known == set.len() { Ok(()) } else { Err(Unknown) }
    }

    fn cost(&mut self, member: &Member, value: &Bound<'py, PyAny>) -> Result<(), Unknown> {
        let py = value.py();
        let start = self.payload.len();
        match member.holds {
            Holds::Count | Holds::RareCount if value.is_exact_instance_of::<PyInt>() => {
                let zero = value.extract::<i64>().is_ok_and(|count| count == 0);
                if zero {
                    let rare = member.holds == Holds::RareCount;
                    self.held.push(if rare { Held::Absent } else { Held::Json("0") });
                    return Ok(());
                }
                write_integer(&mut self.payload, value)?;
            }
            Holds::Number if value.is_exact_instance_of::<PyFloat>() => {
                write_float(&mut self.payload, value, self.shapes)?;
            }
            Holds::Number if value.extract::<i64>().is_ok_and(|number| number == 0) => {
                self.held.push(Held::Json("0.0"));
                return Ok(());
            }
            Holds::Counts if value.cast_exact::<PyDict>().is_ok_and(PyDictMethods::is_empty) => {
                self.held.push(Held::Json("{}"));
                return Ok(());
            }
            Holds::Counts => {
                let counts = value.cast_exact::<PyDict>().map_err(|_| Unknown)?;
                // Pydantic writes the truth as a number here.
                if !counts.values().iter().all(|count| count.is_exact_instance_of::<PyInt>()) {
                    return Err(Unknown);
                }
                write(&mut self.payload, value, self.shapes, 0)?;
            }
            Holds::Cost if value.is_none() => {
                self.held.push(Held::Json("null"));
                return Ok(());
            }
            Holds::Cost if value.get_type().is(self.shapes.decimal.bind(py)) => {
                let text = value.str()?;
                self.payload.extend_from_slice(text.to_str()?.as_bytes());
                self.held.push(Held::Written(start..self.payload.len()));
                return Ok(());
            }
            _ => return Err(Unknown),
        }
        self.held.push(Held::Payload(start..self.payload.len()));
        Ok(())
    }
}

impl Walk<'_> {
    /// The history as Rust values, without Python objects.
    ///
    /// # Errors
    /// [`ThreadError::Parse`] for a message that Pydantic serialized and that exceeds a limit.
    pub(crate) fn found(&self) -> Result<Found<'_>, ThreadError> {
        let dumped = self.dumped.iter().map(|(place, text)| read_dumped(*place, text));
        Ok(Found {
            held: &self.held,
            texts: self.texts.iter().map(|text| text.to_str().unwrap_or_default()).collect(),
            payload: &self.payload,
            dumped: dumped.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect(),
        })
    }
}

/// The list of one message that Pydantic dumped; `place` is that of the message in its history.
fn read_dumped(place: usize, text: &str) -> Result<History<'_>, ParseError> {
    read_history(text, &Limits::default()).map_err(|mut error| {
        if let Some(PathSegment::Index(index)) = error.path.first_mut() {
            *index = place;
        }
        error
    })
}

/// The borrowed values of the first pass, without Python objects. Iterates over the messages.
pub(crate) struct Found<'a> {
    held: &'a [Held],
    texts: Vec<&'a str>,
    payload: &'a str,
    dumped: History<'a>,
}

impl<'a> IntoIterator for Found<'a> {
    type Item = ModelMessage<'a>;
    type IntoIter = Maker<'a>;

    fn into_iter(self) -> Maker<'a> {
        Maker {
            held: self.held.iter(),
            texts: self.texts.into_iter(),
            payload: self.payload,
            dumped: self.dumped.into_iter(),
        }
    }
}

/// The second pass: builds one message after the other.
pub(crate) struct Maker<'a> {
    held: std::slice::Iter<'a, Held>,
    texts: std::vec::IntoIter<&'a str>,
    payload: &'a str,
    dumped: std::vec::IntoIter<ModelMessage<'a>>,
}

impl<'a> Iterator for Maker<'a> {
    type Item = ModelMessage<'a>;

    fn next(&mut self) -> Option<ModelMessage<'a>> {
        match self.held.next()? {
            Held::Object(shape) => Some(self.message(shape)),
            _ => self.dumped.next(),
        }
    }
}

impl<'a> Maker<'a> {
    fn message(&mut self, shape: &'a Shape) -> ModelMessage<'a> {
        let mut members = Object::with_capacity(shape.members.len());
        let (mut parts, mut usage) = (Vec::new(), None);
        let mut kind = Kind::Request;
        for member in &shape.members {
            if let Holds::Name(name) = member.holds {
                kind = Kind::from(name);
                members.push(member.key, Value::text(name));
                continue;
            }
            match (member.holds, self.held.next()) {
                (Holds::Parts, Some(Held::List(count))) => {
                    parts.reserve(*count);
                    for _ in 0..*count {
                        if let Some(Held::Object(shape)) = self.held.next() {
                            parts.push(self.object(shape));
                        }
                    }
                    members.push(member.key, Value::Field);
                }
                (Holds::Usage, Some(Held::Object(shape))) => {
                    usage = Some(self.object(shape));
                    members.push(member.key, Value::Field);
                }
                (_, held) => {
                    if let Some(value) = held.and_then(|held| self.value(held)) {
                        members.push(member.key, value);
                    }
                }
            }
        }
        ModelMessage { kind, members, parts, usage }
    }

    fn object(&mut self, shape: &'a Shape) -> Object<'a> {
        let mut object = Object::with_capacity(shape.members.len());
        for member in &shape.members {
            if let Holds::Name(name) = member.holds {
                object.push(member.key, Value::text(name));
            } else if let Some(value) = self.held.next().and_then(|held| self.value(held)) {
                object.push(member.key, value);
            }
        }
        object
    }

    fn value(&mut self, held: &'a Held) -> Option<Value<'a>> {
        Some(match held {
            Held::Absent | Held::Dumped => return None,
            Held::Json(json) => Value::json(json),
            Held::Text => Value::text(self.texts.next().unwrap_or_default()),
            Held::Written(range) => Value::text(self.payload.get(range.clone()).unwrap_or_default()),
            Held::Payload(range) => Value::json(self.payload.get(range.clone()).unwrap_or("null")),
            Held::List(count) => {
                let values = (0..*count).filter_map(|_| {
                    let held = self.held.next()?;
                    self.value(held)
                });
                Value::List(values.collect())
            }
            Held::Object(shape) => Value::Object(self.object(shape)),
        })
    }
}
