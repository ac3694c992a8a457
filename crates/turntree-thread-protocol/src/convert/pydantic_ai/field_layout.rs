//! Field layouts: the members of each class of objects, their order, and their defaults.
//!
//! Keys and their order depend on the version that wrote a history. A thread stores one [`FieldLayout`] per class,
//! taken from the first object of the class; each object stores only its differences from the layout and from its
//! action. Histories of version [`BASE`] need no stored layouts.

use std::borrow::Cow;
use std::collections::HashMap;

use serde_json::value::RawValue;

use super::arguments::ArgumentsForm;
use super::model::{Object, Value};
use turntree_core::json::is_compact;

/// The version of Pydantic AI whose layouts are built in. It is part of the storage format: never change it, add
/// another.
pub(super) const BASE: &str = "2.68";

/// Objects with more members are stored verbatim. This bounds the work for malicious input.
pub(super) const MOST_MEMBERS: usize = 64;

/// A class with its members and their defaults, in order.
type Shape = (&'static str, &'static [(&'static str, &'static str)]);

const NULL: &str = "null";

const FILE: &[(&str, &str)] = &[
    ("url", NULL),
    ("force_download", "false"),
    ("vendor_metadata", NULL),
    ("kind", NULL),
    ("media_type", NULL),
    ("identifier", NULL),
];

const TOOL_CALL: &[(&str, &str)] = &[
    ("tool_name", NULL),
    ("args", NULL),
    ("tool_call_id", NULL),
    ("tool_kind", NULL),
    ("id", NULL),
    ("provider_name", NULL),
    ("provider_details", NULL),
    ("part_kind", NULL),
];

const SHAPES: &[Shape] = &[
    (
        "request",
        &[
            ("parts", NULL),
            ("timestamp", NULL),
            ("instructions", NULL),
            ("kind", NULL),
            ("run_id", NULL),
            ("conversation_id", NULL),
            ("metadata", NULL),
            ("state", "\"complete\""),
        ],
    ),
    (
        "response",
        &[
            ("parts", NULL),
            ("usage", NULL),
            ("model_name", NULL),
            ("model_id", NULL),
            ("timestamp", NULL),
            ("kind", NULL),
            ("provider_name", NULL),
            ("provider_url", NULL),
            ("canonical_system", NULL),
            ("provider_details", NULL),
            ("provider_response_id", NULL),
            ("finish_reason", NULL),
            ("run_id", NULL),
            ("conversation_id", NULL),
            ("metadata", NULL),
            ("workspace_ref", NULL),
            ("history_digest", NULL),
            ("failed_attempts", NULL),
            ("state", "\"complete\""),
        ],
    ),
    (
        "usage",
        &[
            ("input_tokens", "0"),
            ("cache_write_tokens", "0"),
            ("cache_write_1h_tokens", "0"),
            ("cache_read_tokens", "0"),
            ("output_tokens", "0"),
            ("output_reasoning_tokens", "0"),
            ("input_audio_tokens", "0"),
            ("cache_audio_read_tokens", "0"),
            ("output_audio_tokens", "0"),
            ("audio_seconds", "0.0"),
            ("details", "{}"),
            ("cost", NULL),
        ],
    ),
    (
        "system-prompt",
        &[
            ("content", NULL),
            ("timestamp", NULL),
            ("dynamic_ref", NULL),
            ("context_id", NULL),
            ("scope", "\"conversation\""),
            ("metadata", NULL),
            ("part_kind", NULL),
        ],
    ),
    ("user-prompt", &[("content", NULL), ("timestamp", NULL), ("part_kind", NULL)]),
    (
        "tool-return",
        &[
            ("tool_name", NULL),
            ("content", NULL),
            ("tool_call_id", NULL),
            ("tool_kind", NULL),
            ("metadata", NULL),
            ("timestamp", NULL),
            ("outcome", NULL),
            ("retry", NULL),
            ("part_kind", NULL),
        ],
    ),
    (
        "retry-prompt",
        &[
            ("content", NULL),
            ("tool_name", NULL),
            ("tool_call_id", NULL),
            ("timestamp", NULL),
            ("part_kind", NULL),
        ],
    ),
    ("retry-feedback", &[("content", NULL), ("retry", NULL), ("timestamp", NULL), ("part_kind", NULL)]),
    (
        "text",
        &[
            ("content", NULL),
            ("id", NULL),
            ("provider_name", NULL),
            ("provider_details", NULL),
            ("citations", NULL),
            ("part_kind", NULL),
        ],
    ),
    (
        "thinking",
        &[
            ("content", NULL),
            ("id", NULL),
            ("signature", NULL),
            ("provider_name", NULL),
            ("provider_details", NULL),
            ("part_kind", NULL),
        ],
    ),
    ("tool-call", TOOL_CALL),
    ("builtin-tool-call", TOOL_CALL),
    (
        "builtin-tool-return",
        &[
            ("tool_name", NULL),
            ("content", NULL),
            ("tool_call_id", NULL),
            ("tool_kind", NULL),
            ("metadata", NULL),
            ("timestamp", NULL),
            ("outcome", NULL),
            ("provider_name", NULL),
            ("provider_details", NULL),
            ("part_kind", NULL),
        ],
    ),
    (
        "file",
        &[
            ("content", NULL),
            ("id", NULL),
            ("provider_name", NULL),
            ("provider_details", NULL),
            ("part_kind", NULL),
        ],
    ),
    (
        "speech",
        &[
            ("speaker", NULL),
            ("transcript", NULL),
            ("audio", NULL),
            ("interrupted_at_ms", NULL),
            ("timestamps", NULL),
            ("id", NULL),
            ("provider_name", NULL),
            ("provider_details", NULL),
            ("part_kind", NULL),
        ],
    ),
    (
        "compaction",
        &[
            ("content", NULL),
            ("id", NULL),
            ("provider_name", NULL),
            ("provider_details", NULL),
            ("metadata", NULL),
            ("part_kind", NULL),
        ],
    ),
    ("tool-availability-delta", &[("tools_added", NULL), ("tool_call_id", NULL), ("part_kind", NULL)]),
    ("capability-load-delta", &[("loaded", NULL), ("tool_call_id", NULL), ("part_kind", NULL)]),
    ("model-settings-delta", &[("settings", NULL), ("top_level", "false"), ("part_kind", NULL)]),
    ("image-url", FILE),
    ("audio-url", FILE),
    ("video-url", FILE),
    ("document-url", FILE),
    (
        "binary",
        &[
            ("data", NULL),
            ("media_type", NULL),
            ("vendor_metadata", NULL),
            ("kind", NULL),
            ("identifier", NULL),
        ],
    ),
    (
        "uploaded-file",
        &[
            ("file_id", NULL),
            ("provider_name", NULL),
            ("vendor_metadata", NULL),
            ("kind", NULL),
            ("media_type", NULL),
            ("identifier", NULL),
        ],
    ),
    ("text-content", &[("content", NULL), ("metadata", NULL), ("kind", NULL)]),
    (
        "structured-content",
        &[
            ("content", NULL),
            ("metadata", NULL),
            ("kind", NULL),
            ("value", NULL),
            ("tag", NULL),
            ("description", NULL),
        ],
    ),
];

/// Members of [`BASE`] that are only written if they have a value, so that no layout has them: the class, the member
/// before it, and its name.
const OPTIONAL: &[(&str, &str, &str)] = &[
    ("usage", "output_tokens", "unmeasured_requests"),
    ("tool-return", "part_kind", "content_file_digests"),
    ("builtin-tool-return", "part_kind", "content_file_digests"),
];

/// Classes of [`BASE`] without a layout: threads store their objects whole.
const WITHOUT_LAYOUT: &[(&str, &[&str])] =
    &[("retry", &["cause", "attempt", "max_retries"]), ("cache-point", &["kind", "ttl"])];

/// The members of a class of objects in version 2.68, in the order of `dump_json`; empty for an unknown class.
///
/// The class is a `part_kind`, the `kind` of a message or of an item of a prompt, `usage` or `retry`.
pub fn class_members(class: &str) -> Vec<&'static str> {
    if let Some((_, members)) = WITHOUT_LAYOUT.iter().find(|(name, _)| *name == class) {
        return members.to_vec();
    }
    let shape = SHAPES.iter().find(|(name, _)| *name == class);
    let mut members: Vec<_> =
        shape.iter().flat_map(|(_, members)| members.iter().map(|(key, _)| *key)).collect();
    for (_, before, key) in OPTIONAL.iter().filter(|(name, ..)| *name == class) {
        let index =
            members.iter().position(|member| member == before).map_or(members.len(), |index| index + 1);
        members.insert(index, key);
    }
    members
}

/// The name of a class; borrowed for known classes.
pub(super) fn class_name(class: &str) -> Cow<'static, str> {
    match SHAPES.iter().find(|(name, _)| *name == class) {
        Some((name, _)) => Cow::Borrowed(name),
        None => Cow::Owned(class.to_owned()),
    }
}

/// Members that usually have the same value in a whole history: the first value becomes the default.
const STICKY: &[&str] = &[
    "run_id",
    "conversation_id",
    "model_name",
    "model_id",
    "provider_name",
    "provider_url",
    "canonical_system",
    "state",
];

/// The members of one class of objects, in order, with their defaults.
#[derive(Debug, Clone)]
pub(super) struct FieldLayout<'a> {
    class: Cow<'a, str>,
    /// Members and defaults.
    pub members: Object<'a>,
    /// True if an object of this class was seen.
    seen: bool,
    /// True if it differs from the built-in layout and must be stored.
    retained: bool,
}

/// The differences of an object from its layout and its action.
#[derive(Debug)]
pub(super) struct ObjectDiff<'o, 'a> {
    /// All keys in order, if they differ from the layout.
    pub keys: Option<Vec<&'o str>>,
    /// Fields whose values differ.
    pub members: Vec<(&'o str, &'o Value<'a>)>,
    /// True if all other values were compared and are equal byte for byte.
    pub exact: bool,
}

impl ObjectDiff<'_, '_> {
    /// Compares two values and records whether they are equal byte for byte.
    fn compare(&mut self, expected: &Value<'_>, value: &Value<'_>) -> bool {
        let exact = expected.is_written_as(value);
        if exact || expected != value {
            return exact;
        }
        self.exact = false;
        true
    }
}

/// The expected value of a field.
#[derive(Debug)]
pub(super) enum Expected<'a> {
    /// This value.
    Value(Value<'a>),
    /// The default of the layout.
    Default,
    /// The value is stored elsewhere; do not compare.
    Covered,
    /// The value is stored elsewhere and was compared byte for byte.
    Proven,
}

impl<'a> Expected<'a> {
    /// Expects a string.
    pub(super) const fn text(text: &'a str) -> Self {
        Self::Value(Value::text(text))
    }
}

impl<'a> FieldLayout<'a> {
    /// The differences of an object from the layout and from `expected`. `None` if it has too many or repeated members,
    /// which only its text can preserve.
    pub(super) fn diff<'o, 'v>(
        &self,
        object: &'o Object<'a>,
        expected: impl Fn(&str) -> Expected<'v>,
    ) -> Option<ObjectDiff<'o, 'a>> {
        if object.len() > MOST_MEMBERS {
            return None;
        }
        let fits = object.len() >= self.members.len()
            && self.members.iter().zip(object.iter()).all(|((one, _), (other, _))| one == other);
        let known = if fits { self.members.len() } else { object.len() };
        if (!fits || object.len() > known) && has_twins(object) {
            return None;
        }
        let mut diff = ObjectDiff { keys: None, members: Vec::new(), exact: true };
        for (index, (key, value)) in object.iter().enumerate() {
            let same = index < known
                && match expected(key) {
                    Expected::Value(expected) => diff.compare(&expected, value),
                    Expected::Covered => {
                        diff.exact = false;
                        true
                    }
                    Expected::Proven => true,
                    Expected::Default if fits => diff.compare(self.members.at(index), value),
                    Expected::Default => diff.compare(self.members.get(key).unwrap_or(&Value::NULL), value),
                };
            if !same {
                // A placeholder is written as `null` and does not come back: only the text preserves its place.
                diff.exact &= !matches!(value, Value::Field);
                // Metadata is compact.
                diff.exact &= value.as_json().is_none_or(is_compact);
                diff.members.push((key, value));
            }
        }
        diff.keys = (!fits).then(|| object.iter().map(|(key, _)| key).collect());
        Some(diff)
    }

    /// The inverse of [`Self::diff`].
    pub(super) fn rebuild<'t>(
        &self,
        keys: Option<&[Cow<'t, str>]>,
        members: &[(Cow<'t, str>, &'t RawValue)],
        mut derive: impl FnMut(&str) -> Expected<'t>,
    ) -> Object<'t>
    where
        'a: 't,
    {
        let mut object = Object::with_capacity(self.members.len() + 1);
        let mut value = |key: &str, default: Option<&Value<'a>>| {
            if let Some((_, raw)) = members.iter().find(|(name, _)| name == key) {
                return Value::Raw(raw);
            }
            match derive(key) {
                Expected::Value(value) => value,
                Expected::Default | Expected::Covered | Expected::Proven => {
                    default.cloned().unwrap_or(Value::NULL)
                }
            }
        };
        if let Some(keys) = keys {
            for key in keys {
                object.push(key.clone(), value(key, self.members.get(key)));
            }
            return object;
        }
        for (key, default) in self.members.entries() {
            object.push(key.clone(), value(key, Some(default)));
        }
        for (key, raw) in members {
            if self.members.get(key).is_none() {
                object.push(key.clone(), Value::Raw(raw));
            }
        }
        object
    }
}

fn has_twins(object: &Object<'_>) -> bool {
    object
        .iter()
        .enumerate()
        .any(|(index, (key, _))| object.iter().take(index).any(|(other, _)| other == key))
}

/// The layouts of a history and its shared values.
#[derive(Debug, Clone)]
pub(super) struct FieldLayouts<'a> {
    templates: Vec<FieldLayout<'a>>,
    /// Long texts by content address.
    pub texts: HashMap<Cow<'a, str>, Value<'a>>,
    /// The address of the default instructions of requests.
    pub instructions: Option<Cow<'a, str>>,
    /// The form of the arguments of tool calls by default: that of the first call.
    pub arguments: Option<ArgumentsForm>,
}

impl Default for FieldLayouts<'_> {
    fn default() -> Self {
        let templates = SHAPES.iter().map(|(class, members)| {
            let mut object = Object::with_capacity(members.len());
            for (key, default) in *members {
                object.push(*key, Value::json(default));
            }
            FieldLayout { class: Cow::Borrowed(class), members: object, seen: false, retained: false }
        });
        Self { templates: templates.collect(), texts: HashMap::new(), instructions: None, arguments: None }
    }
}

impl<'a> FieldLayouts<'a> {
    /// The layout of a class.
    pub(super) fn get(&self, class: &str) -> Option<&FieldLayout<'a>> {
        self.templates.iter().find(|layout| layout.class == class)
    }

    /// Takes the layout of a class from its first object.
    pub(super) fn observe(&mut self, class: &str, object: &Object<'a>) {
        let Some(layout) = self.templates.iter_mut().find(|layout| layout.class == class) else {
            return;
        };
        if layout.seen || object.len() > MOST_MEMBERS {
            return;
        }
        // Unknown trailing keys belong to this object only.
        let known =
            object.iter().rposition(|(key, _)| layout.members.get(key).is_some()).map_or(0, |last| last + 1);
        let mut members = Object::with_capacity(known);
        for (key, value) in object.entries().take(known) {
            let default = match layout.members.get(key) {
                _ if STICKY.contains(&&**key) => value.clone(),
                Some(default) => default.clone(),
                None => Value::NULL,
            };
            members.push(key.clone(), default);
        }
        if has_twins(&members) {
            return;
        }
        layout.seen = true;
        layout.retained = members.len() != layout.members.len()
            || members.iter().zip(layout.members.iter()).any(|(new, old)| new.0 != old.0 || *new.1 != *old.1);
        layout.members = members;
    }

    /// The layouts that must be stored.
    pub(super) fn retained(&self) -> impl Iterator<Item = (&str, &Object<'a>)> {
        self.templates.iter().filter(|layout| layout.retained).map(|layout| (&*layout.class, &layout.members))
    }

    /// Replaces the built-in layout of a class.
    pub(super) fn replace(&mut self, class: Cow<'a, str>, members: Object<'a>) {
        match self.templates.iter_mut().find(|layout| layout.class == class) {
            Some(layout) => layout.members = members,
            None => self.templates.push(FieldLayout { class, members, seen: true, retained: true }),
        }
    }
}
