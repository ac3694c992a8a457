//! Builds Pydantic AI's Python objects from the Rust model: calls their classes with keyword arguments.

use std::borrow::Cow;

use crate::prelude::*;
use pyo3::exceptions::PyException;
use pyo3::intern;
use pyo3::types::{PyBytes, PyDict, PyFloat, PyInt, PyList};

use super::classes::{Installation, Member, MemberType, REQUEST, RESPONSE, RETRY, USAGE, bit, is_part_of};
use super::plain::{StringCache, json_to_plain};
use super::{Unknown, caused_by};
use crate::error::class;
use turntree_core::message::media::Binary;
use turntree_thread_protocol::convert::pydantic_ai::{
    Kind, ModelMessage, Object, Value, isoformat_of, write_history,
};

/// Builds Python messages.
///
/// # Errors
/// `ImportError` without pydantic-ai; `turntree.ValidationError` for a message that the installed version refuses.
pub(crate) fn build<'py>(py: Python<'py>, messages: &[ModelMessage<'_>]) -> PyResult<Bound<'py, PyList>> {
    let classes = Installation::get(py)?;
    let _paused = CollectorPause::begin(py)?;
    let mut builder = Builder { py, classes, strings: StringCache::new(py), time: None, used: 0 };
    let list = PyList::empty(py);
    for (index, message) in messages.iter().enumerate() {
        builder.used = 0;
        let built = match builder.message(message) {
            Ok(built) if classes.trusted_to_build.contain(builder.used) => built,
            Ok(built) => {
                let validated = validated(py, classes, message, index)?;
                if built.eq(&validated)? && same_classes(&built, &validated)? {
                    classes.trusted_to_build.add(builder.used);
                }
                validated
            }
            Err(Unknown) => validated(py, classes, message, index)?,
        };
        list.append(built)?;
    }
    Ok(list)
}

/// Disables the garbage collector while many long-lived objects are created: repeated collections would take a third of
/// the time.
struct CollectorPause<'py> {
    collector: Option<Bound<'py, PyModule>>,
}

impl<'py> CollectorPause<'py> {
    fn begin(py: Python<'py>) -> PyResult<Self> {
        let collector = py.import(intern!(py, "gc"))?;
        if !collector.call_method0(intern!(py, "isenabled"))?.is_truthy()? {
            return Ok(Self { collector: None });
        }
        collector.call_method0(intern!(py, "disable"))?;
        Ok(Self { collector: Some(collector) })
    }
}

impl Drop for CollectorPause<'_> {
    fn drop(&mut self) {
        if let Some(collector) = &self.collector {
            // Enabling it cannot fail.
            drop(collector.call_method0(intern!(collector.py(), "enable")));
        }
    }
}

/// True if the parts of two messages have the same classes.
fn same_classes(one: &Bound<'_, PyAny>, other: &Bound<'_, PyAny>) -> PyResult<bool> {
    let parts = intern!(one.py(), "parts");
    for pair in one.getattr(parts)?.try_iter()?.zip(other.getattr(parts)?.try_iter()?) {
        let (one, other) = (pair.0?, pair.1?);
        if !one.get_type().is(other.get_type()) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Lets Pydantic parse a message from JSON.
fn validated<'py>(
    py: Python<'py>,
    classes: &Installation,
    message: &ModelMessage<'_>,
    index: usize,
) -> PyResult<Bound<'py, PyAny>> {
    let mut json = Vec::new();
    write_history(&mut json, std::slice::from_ref(message));
    classes.validate_json(py, &json).map_err(|error| {
        if !error.is_instance_of::<PyException>(py) {
            return error;
        }
        match rejection(py, index, &json, &error) {
            Ok(rejection) => caused_by(py, rejection, error),
            Err(failure) => failure,
        }
    })
}

/// Maximum length of Pydantic's message in an error; its cause has the whole message.
const LONGEST_REASON: usize = 400;

/// `turntree.ValidationError` for a message that Pydantic rejected.
fn rejection(py: Python<'_>, index: usize, json: &[u8], error: &PyErr) -> PyResult<PyErr> {
    let reason: String = error.value(py).to_string().chars().take(LONGEST_REASON).collect();
    let text = format!("message {index}: the installed pydantic-ai refuses it: {reason}");
    let validation_errors =
        py.import(intern!(py, "turntree._pydantic_ai"))?.getattr(intern!(py, "validation_errors"))?;
    let details = validation_errors.call1((error.value(py), PyBytes::new(py, json), index, &text))?;
    Ok(PyErr::from_value(class(py, "ValidationError")?.call1((text, details))?))
}

struct Builder<'py> {
    py: Python<'py>,
    classes: &'static Installation,
    strings: StringCache<'py>,
    /// The last time, as it is written and as Python has it.
    time: Option<(String, Bound<'py, PyAny>)>,
    /// Classes of the current message, as bits.
    used: u64,
}

type Built<'py> = Result<Bound<'py, PyAny>, Unknown>;

impl<'py> Builder<'py> {
    fn message(&mut self, message: &ModelMessage<'_>) -> Built<'py> {
        let index = match message.kind {
            Kind::Request => REQUEST,
            Kind::Response => RESPONSE,
            Kind::Other(_) => return Err(Unknown),
        };
        self.object(index, &message.members, |builder, member, value| match (member.value_type, value) {
            (MemberType::Parts, Value::Field) => builder.parts(message).map(Some),
            (MemberType::Usage, Value::Field) => {
                let usage = message.usage.as_ref().ok_or(Unknown)?;
                builder.object(USAGE, usage, Self::value).map(Some)
            }
            _ => builder.value(member, value),
        })
    }

    fn parts(&mut self, message: &ModelMessage<'_>) -> Built<'py> {
        let list = PyList::empty(self.py);
        for part in &message.parts {
            let kind =
                part.text("part_kind").filter(|kind| is_part_of(kind, &message.kind)).ok_or(Unknown)?;
            list.append(self.part_or_item(&kind, part)?)?;
        }
        Ok(list.into_any())
    }

    fn part_or_item(&mut self, kind: &str, object: &Object<'_>) -> Built<'py> {
        let (index, class) = self.classes.named(kind).ok_or(Unknown)?;
        // A kind of tool may have a class of its own.
        if object.get("tool_kind").is_some_and(|kind| !kind.is_null()) {
            return Err(Unknown);
        }
        let built = self.object(index, object, Self::value)?;
        if kind == "binary" {
            // Images and audio have their own classes, but not in all versions, so they are trusted separately.
            let class = class.python_type.bind(self.py);
            let narrowed = class.call_method1(intern!(self.py, "narrow_type"), (built,))?;
            self.used |= match self.classes.of(&narrowed) {
                Some((narrow, _)) => bit(narrow, false),
                None => bit(index, true),
            };
            return Ok(narrowed);
        }
        Ok(built)
    }

    /// Calls a class with the members that differ from their defaults.
    fn object(
        &mut self,
        index: usize,
        object: &Object<'_>,
        mut member_value: impl FnMut(&mut Self, &Member, &Value<'_>) -> Result<Option<Bound<'py, PyAny>>, Unknown>,
    ) -> Built<'py> {
        let class = self.classes.at(index).ok_or(Unknown)?;
        self.used |= bit(index, false);
        let arguments = PyDict::new(self.py);
        let mut expected = class.members.iter().enumerate();
        let mut seen = 0_u64;
        for (key, value) in object.iter() {
            let next = expected.next().filter(|(_, member)| member.key == key);
            let search = || class.members.iter().enumerate().find(|(_, member)| member.key == key);
            let (index, member) = next.or_else(search).ok_or(Unknown)?;
            if seen & (1 << index) != 0 {
                // Written twice.
                return Err(Unknown);
            }
            seen |= 1 << index;
            if member.none_by_default && value.is_null() {
                continue;
            }
            if let Some(value) = member_value(self, member, value)? {
                arguments.set_item(&member.name, value)?;
            }
        }
        Ok(class.python_type.bind(self.py).call((), Some(&arguments))?)
    }

    /// The value of a member; `None` if the class sets it.
    fn value(&mut self, member: &Member, value: &Value<'_>) -> Result<Option<Bound<'py, PyAny>>, Unknown> {
        let text = || value.as_text().ok_or(Unknown);
        Ok(Some(match member.value_type {
            MemberType::ClassName | MemberType::Text | MemberType::OneOf(_) => {
                let text = text()?;
                if member.text_by_default.as_deref() == Some(&*text) {
                    return Ok(None);
                }
                match member.value_type {
                    MemberType::ClassName => return Err(Unknown),
                    MemberType::OneOf(names) if !names.contains(&&*text) => return Err(Unknown),
                    _ => self.strings.get(&text).into_any(),
                }
            }
            MemberType::Time => self.time(&text()?)?,
            MemberType::Plain => self.plain(value, false)?,
            MemberType::Object if value.is_object() => self.plain(value, false)?,
            MemberType::Arguments => match value.as_text() {
                Some(text) => self.strings.get(&text).into_any(),
                None if value.is_object() => self.plain(value, false)?,
                None => return Err(Unknown),
            },
            MemberType::Prompt => self.prompt(value)?,
            MemberType::ToolResult => self.plain(value, true)?,
            MemberType::FileDigests if value.as_json() == Some("[]") => return Ok(None),
            MemberType::Retry => self.retry(value)?,
            MemberType::Bytes => {
                let binary = Binary::from_base64(&text()?).map_err(|_| Unknown)?;
                PyBytes::new(self.py, binary.as_slice()).into_any()
            }
            MemberType::Count | MemberType::RareCount => match value.as_json().ok_or(Unknown)? {
                "0" => return Ok(None),
                digits => {
                    let count: i64 = digits.parse().map_err(|_| Unknown)?;
                    PyInt::new(self.py, count).into_any()
                }
            },
            MemberType::Number => match value.as_json().ok_or(Unknown)? {
                "0" | "0.0" => return Ok(None),
                digits if digits.starts_with(|digit: char| digit == '-' || digit.is_ascii_digit()) => {
                    let number: f64 = digits.parse().map_err(|_| Unknown)?;
                    PyFloat::new(self.py, number).into_any()
                }
                _ => return Err(Unknown),
            },
            MemberType::Counts if value.is_object() => self.counts(value)?,
            MemberType::Cost => self.classes.decimal.bind(self.py).call1((&*text()?,))?,
            MemberType::Object
            | MemberType::AlwaysNone
            | MemberType::FileDigests
            | MemberType::Parts
            | MemberType::Usage
            | MemberType::Counts => return Err(Unknown),
        }))
    }

    /// An object whose values are all integers.
    fn counts(&mut self, value: &Value<'_>) -> Built<'py> {
        let counts = self.plain(value, false)?;
        let mut values = counts.cast::<PyDict>()?.values().iter();
        if values.all(|count| count.is_exact_instance_of::<PyInt>()) { Ok(counts) } else { Err(Unknown) }
    }

    /// A value of plain types. With `files`, an object that Pydantic would make a file is refused.
    fn plain(&mut self, value: &Value<'_>, files: bool) -> Built<'py> {
        match value {
            Value::Text(text) => Ok(self.strings.get(text).into_any()),
            Value::Field => Err(Unknown),
            json => json_to_plain(&mut self.strings, &json.to_json(), files),
        }
    }

    fn retry(&mut self, value: &Value<'_>) -> Built<'py> {
        let class = self.classes.at(RETRY).ok_or(Unknown)?;
        let retry = self.plain(value, false)?;
        let retry = retry.cast::<PyDict>()?;
        for (key, value) in retry.iter() {
            let key: Cow<'_, str> = key.extract()?;
            let member = class.members.iter().find(|member| member.key == key).ok_or(Unknown)?;
            let fits = match member.value_type {
                MemberType::OneOf(causes) => {
                    value.extract::<Cow<'_, str>>().is_ok_and(|cause| causes.contains(&&*cause))
                }
                _ => value.is_none() || value.is_exact_instance_of::<PyInt>(),
            };
            if !fits {
                return Err(Unknown);
            }
        }
        self.used |= bit(RETRY, false);
        Ok(class.python_type.bind(self.py).call((), Some(retry))?)
    }

    fn prompt(&mut self, value: &Value<'_>) -> Built<'py> {
        if let Some(text) = value.as_text() {
            return Ok(self.strings.get(&text).into_any());
        }
        let Value::List(items) = value else { return Err(Unknown) };
        let list = PyList::empty(self.py);
        for item in items {
            match (item.as_text(), item) {
                (Some(text), _) => list.append(self.strings.get(&text))?,
                (None, Value::Object(object)) => {
                    let kind = object.text("kind").ok_or(Unknown)?;
                    list.append(self.part_or_item(&kind, object)?)?;
                }
                _ => return Err(Unknown),
            }
        }
        Ok(list.into_any())
    }

    /// A point in time as Pydantic writes it; Pydantic reads other forms.
    fn time(&mut self, text: &str) -> Built<'py> {
        if let Some((last, time)) = &self.time
            && last == text
        {
            return Ok(time.clone());
        }
        let isoformat = isoformat_of(text).ok_or(Unknown)?;
        let time = self.classes.from_isoformat.bind(self.py).call1((&*isoformat,))?;
        self.time = Some((text.to_owned(), time.clone()));
        Ok(time)
    }
}
