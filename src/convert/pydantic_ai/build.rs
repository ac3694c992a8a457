//! Builds Pydantic AI's Python objects from the Rust model: calls their classes with keyword arguments.

use std::borrow::Cow;

use pyo3::exceptions::PyException;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyInt, PyList};

use super::Unknown;
use super::payload::{Plain, Strings};
use super::shapes::{
    Holds, Member, REQUEST, RESPONSE, RETRY, Shape, Shapes, USAGE, bit, class_of, stands_in, trust, trusts,
};
use turntree_core::message::media::Binary;
use turntree_thread_protocol::convert::pydantic_ai::{Kind, ModelMessage, Object, Value, write_history};

/// Builds Python messages.
///
/// # Errors
/// `ImportError` without pydantic-ai; `turntree.ValidationError` for a message that the installed version refuses.
pub(crate) fn build<'py>(py: Python<'py>, messages: &[ModelMessage<'_>]) -> PyResult<Bound<'py, PyList>> {
    let shapes = Shapes::get(py)?;
    let _paused = CollectorPause::begin(py)?;
    let mut builder = Builder { py, shapes, strings: Strings::new(py), time: None, used: 0 };
    let list = PyList::empty(py);
    for (place, message) in messages.iter().enumerate() {
        builder.used = 0;
        let built = match builder.message(message) {
            Ok(built) if trusts(&shapes.build_trusted, builder.used) => built,
            Ok(built) => {
                let validated = validated(py, shapes, message, place)?;
                if built.eq(&validated)? && same_classes(&built, &validated)? {
                    trust(&shapes.build_trusted, builder.used);
                }
                validated
            }
            Err(Unknown) => validated(py, shapes, message, place)?,
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

/// Whether two messages have parts of the same classes.
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
    shapes: &Shapes,
    message: &ModelMessage<'_>,
    place: usize,
) -> PyResult<Bound<'py, PyAny>> {
    let mut json = Vec::new();
    write_history(&mut json, std::slice::from_ref(message));
    shapes.validate_json(py, &json).map_err(|error| {
        if !error.is_instance_of::<PyException>(py) {
            return error;
        }
        let refused = refused(py, place, &json, &error);
        match refused {
            Ok(refused) => {
                refused.set_cause(py, Some(error));
                refused
            }
            Err(failed) => failed,
        }
    })
}

/// Maximum length of Pydantic's message in an error; its cause has the whole message.
const LONGEST_REASON: usize = 400;

fn refused(py: Python<'_>, place: usize, json: &[u8], error: &PyErr) -> PyResult<PyErr> {
    let why: String = error.value(py).to_string().chars().take(LONGEST_REASON).collect();
    let said = format!("message {place}: the installed pydantic-ai refuses it: {why}");
    let places = py.import(intern!(py, "turntree._pydantic_ai"))?.getattr(intern!(py, "refusals"))?;
    let details = places.call1((error.value(py), PyBytes::new(py, json), place, &said))?;
    let class = py.import(intern!(py, "turntree.exceptions"))?.getattr(intern!(py, "ValidationError"))?;
    Ok(PyErr::from_value(class.call1((said, details))?))
}

struct Builder<'py> {
    py: Python<'py>,
    shapes: &'static Shapes,
    strings: Strings<'py>,
    /// The last time, as it is written and as Python has it.
    time: Option<(String, Bound<'py, PyAny>)>,
    /// Shapes of the message at hand, as bits.
    used: u64,
}

type Built<'py> = Result<Bound<'py, PyAny>, Unknown>;

impl<'py> Builder<'py> {
    fn message(&mut self, message: &ModelMessage<'_>) -> Built<'py> {
        let place = match message.kind {
            Kind::Request => REQUEST,
            Kind::Response => RESPONSE,
            Kind::Other(_) => return Err(Unknown),
        };
        let shape = self.shapes.at(place).ok_or(Unknown)?;
        self.used |= bit(place, false);
        self.fill(shape, &message.members, |builder, member, value| match (member.holds, value) {
            (Holds::Parts, Value::Field) => builder.parts(message).map(Some),
            (Holds::Usage, Value::Field) => builder.usage(message.usage.as_ref().ok_or(Unknown)?).map(Some),
            _ => builder.value(member, value),
        })
    }

    fn parts(&mut self, message: &ModelMessage<'_>) -> Built<'py> {
        let list = PyList::empty(self.py);
        for part in &message.parts {
            let kind = part.text("part_kind").filter(|kind| stands_in(kind, &message.kind)).ok_or(Unknown)?;
            list.append(self.known(&kind, part)?)?;
        }
        Ok(list.into_any())
    }

    /// A part, or an item of a prompt.
    fn known(&mut self, kind: &str, object: &Object<'_>) -> Built<'py> {
        let (place, shape) = class_of(kind).and_then(|name| self.shapes.named(name)).ok_or(Unknown)?;
        // A kind of tool may have a class of its own.
        if object.get("tool_kind").is_some_and(|kind| !kind.is_null()) {
            return Err(Unknown);
        }
        self.used |= bit(place, false);
        let built = self.fill(shape, object, Self::value)?;
        if kind == "binary" {
            // Images and audio have their own classes, but not in all versions, so they are trusted separately.
            let class = shape.class.bind(self.py);
            let narrowed = class.call_method1(intern!(self.py, "narrow_type"), (built,))?;
            self.used |= match self.shapes.of(narrowed.get_type().as_type_ptr() as usize) {
                Some((narrow, _)) => bit(narrow, false),
                None => bit(place, true),
            };
            return Ok(narrowed);
        }
        Ok(built)
    }

    /// Calls a class with the members that differ from their defaults.
    fn fill(
        &mut self,
        shape: &'static Shape,
        object: &Object<'_>,
        mut make: impl FnMut(&mut Self, &Member, &Value<'_>) -> Result<Option<Bound<'py, PyAny>>, Unknown>,
    ) -> Built<'py> {
        let arguments = PyDict::new(self.py);
        let mut expected = shape.members.iter().enumerate();
        let mut seen = 0_u64;
        for (key, value) in object.iter() {
            let next = expected.next().filter(|(_, member)| member.key == key);
            let found = || shape.members.iter().enumerate().find(|(_, member)| member.key == key);
            let (place, member) = next.or_else(found).ok_or(Unknown)?;
            if seen & (1 << place) != 0 {
                // Written twice.
                return Err(Unknown);
            }
            seen |= 1 << place;
            if member.none_by_default && value.is_null() {
                continue;
            }
            if let Some(made) = make(self, member, value)? {
                arguments.set_item(&member.name, made)?;
            }
        }
        Ok(shape.class.bind(self.py).call((), Some(&arguments))?)
    }

    /// The value of a member; `None` if the class sets it.
    fn value(&mut self, member: &Member, value: &Value<'_>) -> Result<Option<Bound<'py, PyAny>>, Unknown> {
        Ok(Some(match member.holds {
            Holds::Name(name) => {
                return if value.as_text().as_deref() == Some(name) { Ok(None) } else { Err(Unknown) };
            }
            Holds::OneOf(names) => {
                let text = value.as_text().ok_or(Unknown)?;
                if member.text_by_default.as_deref() == Some(&*text) {
                    return Ok(None);
                }
                let name = names.iter().find(|name| **name == text).ok_or(Unknown)?;
                self.strings.name(name).into_any()
            }
            Holds::Text | Holds::MaybeText => {
                let text = value.as_text().ok_or(Unknown)?;
                if member.text_by_default.as_deref() == Some(&*text) {
                    return Ok(None);
                }
                self.strings.name(&text).into_any()
            }
            Holds::Time | Holds::MaybeTime => self.time(&value.as_text().ok_or(Unknown)?)?,
            Holds::Plain => self.plain(value, false)?,
            Holds::MaybeObject if value.is_object() => self.plain(value, false)?,
            Holds::Arguments => match value.as_text() {
                Some(text) => self.strings.name(&text).into_any(),
                None if value.is_object() => self.plain(value, false)?,
                None => return Err(Unknown),
            },
            Holds::Prompt => self.prompt(value)?,
            Holds::Returned => self.plain(value, true)?,
            Holds::Digests if value.as_json() == Some("[]") => return Ok(None),
            Holds::Retry => self.retry(value)?,
            Holds::Bytes => {
                let text = value.as_text().ok_or(Unknown)?;
                let binary = Binary::from_base64(&text).map_err(|_| Unknown)?;
                PyBytes::new(self.py, binary.as_slice()).into_any()
            }
            Holds::Count | Holds::RareCount => match value.as_json().ok_or(Unknown)? {
                "0" => return Ok(None),
                digits => self.integer(digits)?,
            },
            Holds::Number => match value.as_json().ok_or(Unknown)? {
                "0" | "0.0" => return Ok(None),
                digits if digits.starts_with(|digit: char| digit == '-' || digit.is_ascii_digit()) => {
                    let number: f64 = digits.parse().map_err(|_| Unknown)?;
                    pyo3::types::PyFloat::new(self.py, number).into_any()
                }
                _ => return Err(Unknown),
            },
            Holds::Counts => self.counts(value)?,
            Holds::Cost => {
                let text = value.as_text().ok_or(Unknown)?;
                self.shapes.decimal.bind(self.py).call1((&*text,))?
            }
            Holds::MaybeObject | Holds::Nothing | Holds::Digests | Holds::Parts | Holds::Usage => {
                return Err(Unknown);
            }
        }))
    }

    fn plain(&mut self, value: &Value<'_>, files: bool) -> Built<'py> {
        let mut plain = Plain { strings: &mut self.strings, files };
        match value {
            Value::Text(text) => Ok(self.strings.name(text).into_any()),
            Value::Raw(_) | Value::Json(_) => plain.read(value.as_json().ok_or(Unknown)?),
            Value::List(_) | Value::Object(_) => plain.read(&value.to_json()),
            Value::Field => Err(Unknown),
        }
    }

    fn integer(&self, digits: &str) -> Built<'py> {
        let number: i64 = digits.parse().map_err(|_| Unknown)?;
        Ok(PyInt::new(self.py, number).into_any())
    }

    fn counts(&mut self, value: &Value<'_>) -> Built<'py> {
        if !value.is_object() {
            return Err(Unknown);
        }
        let counts = self.plain(value, false)?;
        let dict = counts.cast::<PyDict>().map_err(|_| Unknown)?;
        if dict.iter().all(|(_, count)| count.is_exact_instance_of::<PyInt>()) {
            Ok(counts)
        } else {
            Err(Unknown)
        }
    }

    fn usage(&mut self, usage: &Object<'_>) -> Built<'py> {
        let shape = self.shapes.at(USAGE).ok_or(Unknown)?;
        self.used |= bit(USAGE, false);
        self.fill(shape, usage, Self::value)
    }

    fn retry(&mut self, value: &Value<'_>) -> Built<'py> {
        let shape = self.shapes.at(RETRY).ok_or(Unknown)?;
        let retry = self.plain(value, false)?;
        let retry = retry.cast::<PyDict>().map_err(|_| Unknown)?;
        for (key, value) in retry.iter() {
            let key: Cow<'_, str> = key.extract()?;
            let member = shape.members.iter().find(|member| member.key == key).ok_or(Unknown)?;
            let fits = match member.holds {
                Holds::OneOf(causes) => {
                    value.extract::<Cow<'_, str>>().is_ok_and(|cause| causes.contains(&&*cause))
                }
                _ => value.is_none() || value.is_exact_instance_of::<PyInt>(),
            };
            if !fits {
                return Err(Unknown);
            }
        }
        self.used |= bit(RETRY, false);
        Ok(shape.class.bind(self.py).call((), Some(retry))?)
    }

    fn prompt(&mut self, value: &Value<'_>) -> Built<'py> {
        if let Some(text) = value.as_text() {
            return Ok(self.strings.name(&text).into_any());
        }
        let Value::List(items) = value else { return Err(Unknown) };
        let list = PyList::empty(self.py);
        for item in items {
            match (item.as_text(), item) {
                (Some(text), _) => list.append(self.strings.name(&text))?,
                (None, Value::Object(object)) => {
                    let kind = object.text("kind").ok_or(Unknown)?;
                    list.append(self.known(&kind, object)?)?;
                }
                _ => return Err(Unknown),
            }
        }
        Ok(list.into_any())
    }

    /// A point in time in the spelling of Pydantic; others are Pydantic's to read.
    fn time(&mut self, text: &str) -> Built<'py> {
        if let Some((known, time)) = &self.time
            && known == text
        {
            return Ok(time.clone());
        }
        let bytes = text.as_bytes();
        let digits = |range: std::ops::Range<usize>| {
            bytes.get(range).is_some_and(|digits| digits.iter().all(u8::is_ascii_digit))
        };
        let marks = [(4, b'-'), (7, b'-'), (10, b'T'), (13, b':'), (16, b':')];
        let date = [0..4, 5..7, 8..10, 11..13, 14..16, 17..19].into_iter().all(digits)
            && marks.iter().all(|(place, mark)| bytes.get(*place) == Some(mark));
        let fraction = match bytes.get(19) {
            Some(b'.') if digits(20..26) => 26,
            _ => 19,
        };
        let offset = text.get(fraction..).filter(|_| date).ok_or(Unknown)?;
        let named = match offset.as_bytes() {
            [] => Cow::Borrowed(text),
            b"Z" => Cow::Owned(format!("{}+00:00", text.get(..fraction).ok_or(Unknown)?)),
            [b'+' | b'-', _, _, b':', _, _]
                if digits(fraction + 1..fraction + 3) && digits(fraction + 4..fraction + 6) =>
            {
                Cow::Borrowed(text)
            }
            _ => return Err(Unknown),
        };
        let time = self.shapes.from_isoformat.bind(self.py).call1((&*named,))?;
        self.time = Some((text.to_owned(), time.clone()));
        Ok(time)
    }
}
