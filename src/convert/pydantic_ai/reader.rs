//! Reads Pydantic AI's Python objects into the Rust model, without copying their texts.
//!
//! Two passes: the first reads the objects into a flat list of values; the second builds messages that borrow from this
//! list, and does not need the GIL.

use std::ops::Range;

use crate::prelude::*;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE;
use pyo3::exceptions::PyTypeError;
use pyo3::intern;
use pyo3::types::{PyBytes, PyDict, PyDictMethods, PyFloat, PyInt, PyList, PyString, PyTuple};

use super::classes::{Class, Installation, Member, MemberType, REQUEST, RESPONSE, RETRY, USAGE, bit};
use super::plain::{PlainBudget, write, write_float, write_integer};
use super::{Unknown, caused_by};
use crate::convert::error::refused_argument;
use crate::error::named;
use turntree_core::json::{ParseError, PathSegment};
use turntree_core::limits::Limits;
use turntree_thread_protocol::ThreadError;
use turntree_thread_protocol::convert::pydantic_ai::{
    History, Kind, ModelMessage, Object, Value, read_history, write_history, write_time,
};

/// One value of a message, in the order of the JSON.
enum FlatValue {
    /// A member that the JSON does not have.
    Absent,
    /// JSON that never changes.
    Json(&'static str),
    /// The next string of the application.
    Text,
    /// A string in the payload.
    PayloadText(Range<usize>),
    /// JSON in the payload.
    PayloadJson(Range<usize>),
    /// A list; this number of values follows.
    List(usize),
    /// An object; the members of this class follow.
    Object(&'static Class),
    /// The next message that Pydantic serialized.
    Dumped,
}

/// The values that the first pass read.
#[derive(Default)]
pub(crate) struct ReadMessages<'py> {
    values: Vec<FlatValue>,
    texts: Vec<Bound<'py, PyString>>,
    payload: String,
    /// Messages that Pydantic serialized, with their indexes.
    dumped: Vec<(usize, String)>,
}

/// Reads Python messages (the first pass). `what` names the argument in errors.
///
/// # Errors
/// `TypeError` that names an item that is not a message, `ImportError` without pydantic-ai, `turntree.ValidationError`
/// for too much data, and what Pydantic raises for a message that it cannot dump.
pub(crate) fn read<'py>(messages: &[Bound<'py, PyAny>], what: &str) -> PyResult<ReadMessages<'py>> {
    let Some(first) = messages.first() else { return Ok(ReadMessages::default()) };
    let classes = Installation::get(first.py())?;
    let mut reader = ObjectReader {
        classes,
        values: Vec::with_capacity(messages.len().saturating_mul(40)),
        texts: Vec::with_capacity(messages.len().saturating_mul(8)),
        payload: Vec::new(),
        times: [const { None }; TIMES],
        next_time: 0,
        used: 0,
        structured: false,
        budget: PlainBudget::new(),
    };
    let mut dumped = Vec::new();
    for (index, message) in messages.iter().enumerate() {
        let (values, texts, payload) = (reader.values.len(), reader.texts.len(), reader.payload.len());
        reader.used = 0;
        if reader.message(message).is_ok() && reader.is_verified(message, values, texts)? {
            continue;
        }
        if let Some(exceeded) = reader.budget.exceeded() {
            return Err(refused_argument(message.py(), &exceeded.at(&[PathSegment::Index(index)]), what));
        }
        reader.values.truncate(values);
        reader.texts.truncate(texts);
        reader.payload.truncate(payload);
        // The cached ranges may have been truncated.
        reader.times = [const { None }; TIMES];
        reader.values.push(FlatValue::Dumped);
        dumped.push((index, dump(classes, message, &format!("{what}[{index}]"))?));
    }
    let payload = String::from_utf8(reader.payload)?;
    Ok(ReadMessages { values: reader.values, texts: reader.texts, payload, dumped })
}

fn dump(classes: &Installation, message: &Bound<'_, PyAny>, location: &str) -> PyResult<String> {
    let py = message.py();
    let [request, response] = &classes.message_classes;
    if !message.is_instance(request.bind(py))? && !message.is_instance(response.bind(py))? {
        let found = message.get_type().name()?;
        return Err(PyTypeError::new_err(format!(
            "{location} must be a ModelRequest or a ModelResponse, not {found}; pass the messages themselves, or \
             their JSON as text or bytes"
        )));
    }
    let dumped = classes.dump_json(message).map_err(|error| {
        let text = format!("{location}: Pydantic cannot dump this message: {}", error.value(py));
        caused_by(py, named(py, "SerializationError", &text), error)
    })?;
    // JSON is UTF-8.
    Ok(String::from_utf8_lossy(dumped.as_bytes()).into_owned())
}

/// Size of the cache of times: the parts of a message often have the same time.
const TIMES: usize = 4;

struct ObjectReader<'py> {
    classes: &'static Installation,
    values: Vec<FlatValue>,
    texts: Vec<Bound<'py, PyString>>,
    payload: Vec<u8>,
    times: [Option<(Bound<'py, PyAny>, Range<usize>)>; TIMES],
    next_time: usize,
    /// Classes of the current message, as bits.
    used: u64,
    /// True if the result of the current tool return is an object or a list.
    structured: bool,
    budget: PlainBudget,
}

impl<'py> ObjectReader<'py> {
    /// True if the classes of the message are trusted, or if its values equal the output of Pydantic. `values` and
    /// `texts` are where the message begins.
    fn is_verified(&self, message: &Bound<'py, PyAny>, values: usize, texts: usize) -> PyResult<bool> {
        let trusted = &self.classes.trusted_to_read;
        if trusted.contain(self.used) {
            return Ok(true);
        }
        let Ok(dumped) = self.classes.dump_json(message) else { return Ok(false) };
        let Ok(payload) = std::str::from_utf8(&self.payload) else { return Ok(false) };
        let texts = self.texts.get(texts..).unwrap_or_default();
        let messages = BorrowedMessages {
            values: self.values.get(values..).unwrap_or_default().iter(),
            texts: texts.iter().map(Bound::to_str).collect::<PyResult<Vec<_>>>()?.into_iter(),
            payload,
            dumped: Vec::new().into_iter(),
        };
        let mut written = Vec::new();
        write_history(&mut written, &messages.collect::<History<'_>>());
        let equal = dumped.as_bytes() == written;
        if equal {
            trusted.add(self.used);
        }
        Ok(equal)
    }

    fn message(&mut self, message: &Bound<'py, PyAny>) -> Result<(), Unknown> {
        match self.classes.of(message) {
            Some((index @ (REQUEST | RESPONSE), class)) => self.object(index, class, message),
            _ => Err(Unknown),
        }
    }

    fn part_or_item(&mut self, value: &Bound<'py, PyAny>) -> Result<(), Unknown> {
        match self.classes.of(value) {
            Some((index, class)) if index > RETRY => self.object(index, class, value),
            _ => Err(Unknown),
        }
    }

    fn object(
        &mut self,
        index: usize,
        class: &'static Class,
        value: &Bound<'py, PyAny>,
    ) -> Result<(), Unknown> {
        self.values.push(FlatValue::Object(class));
        let outer = std::mem::take(&mut self.structured);
        for member in &class.members {
            match member.value_type {
                // The second pass takes it from the class; an application may have set another one.
                MemberType::ClassName => {
                    if value.getattr(&member.name)?.cast_exact::<PyString>()?.to_str()? != class.name {
                        return Err(Unknown);
                    }
                }
                MemberType::FileDigests if self.structured => self.values.push(FlatValue::Json("[]")),
                MemberType::FileDigests => self.values.push(FlatValue::Absent),
                value_type => self.member(value_type, &value.getattr(&member.name)?)?,
            }
        }
        self.used |= bit(index, std::mem::replace(&mut self.structured, outer));
        Ok(())
    }

    fn member(&mut self, value_type: MemberType, value: &Bound<'py, PyAny>) -> Result<(), Unknown> {
        match value_type {
            MemberType::Time => self.time(value),
            MemberType::Parts => self.list(value, Self::part_or_item),
            MemberType::Prompt if !value.is_exact_instance_of::<PyString>() => {
                self.list(value, |reader, item| {
                    if item.is_exact_instance_of::<PyString>() {
                        reader.plain(item)
                    } else {
                        reader.part_or_item(item)
                    }
                })
            }
            MemberType::Usage => self.usage(value),
            MemberType::AlwaysNone if !value.is_none() => Err(Unknown),
            MemberType::Retry if !value.is_none() => match self.classes.of(value) {
                Some((RETRY, class)) => self.object(RETRY, class, value),
                _ => Err(Unknown),
            },
            MemberType::Bytes => {
                let bytes = value.cast_exact::<PyBytes>()?;
                let start = self.payload.len();
                let encoded = URL_SAFE.encode(bytes.as_bytes());
                self.payload.extend_from_slice(encoded.as_bytes());
                self.values.push(FlatValue::PayloadText(start..self.payload.len()));
                Ok(())
            }
            MemberType::ToolResult => {
                self.plain(value)?;
                self.structured = matches!(self.values.last(), Some(FlatValue::PayloadJson(range))
                    if self.payload.get(range.start).is_some_and(|byte| matches!(byte, b'{' | b'[')));
                Ok(())
            }
            _ => self.plain(value),
        }
    }

    /// A value of a plain type.
    fn plain(&mut self, value: &Bound<'py, PyAny>) -> Result<(), Unknown> {
        if value.is_none() {
            self.values.push(FlatValue::Json("null"));
            return Ok(());
        }
        if let Ok(text) = value.cast_exact::<PyString>() {
            // Half surrogates have no UTF-8.
            text.to_str()?;
            self.values.push(FlatValue::Text);
            self.texts.push(text.clone());
            return Ok(());
        }
        let start = self.payload.len();
        write(&mut self.payload, value, self.classes, &mut self.budget)?;
        self.values.push(FlatValue::PayloadJson(start..self.payload.len()));
        Ok(())
    }

    fn list(
        &mut self,
        value: &Bound<'py, PyAny>,
        mut each: impl FnMut(&mut Self, &Bound<'py, PyAny>) -> Result<(), Unknown>,
    ) -> Result<(), Unknown> {
        if let Ok(list) = value.cast_exact::<PyList>() {
            self.values.push(FlatValue::List(list.len()));
            return list.iter().try_for_each(|item| each(self, &item));
        }
        let tuple = value.cast_exact::<PyTuple>()?;
        self.values.push(FlatValue::List(tuple.len()));
        tuple.iter().try_for_each(|item| each(self, &item))
    }

    /// A point in time, as Pydantic writes it.
    fn time(&mut self, value: &Bound<'py, PyAny>) -> Result<(), Unknown> {
        let py = value.py();
        if !value.get_type().is(self.classes.datetime.bind(py)) {
            return self.plain(value);
        }
        let cached = self.times.iter().flatten().find(|(time, _)| time.is(value));
        if let Some((_, range)) = cached {
            self.values.push(FlatValue::PayloadText(range.clone()));
            return Ok(());
        }
        let text = value.call_method0(intern!(py, "isoformat"))?;
        let text = text.cast::<PyString>()?.to_str()?;
        let start = self.payload.len();
        write_time(&mut self.payload, text).ok_or(Unknown)?;
        let range = start..self.payload.len();
        if let Some(slot) = self.times.get_mut(self.next_time % TIMES) {
            *slot = Some((value.clone(), range.clone()));
        }
        self.next_time += 1;
        self.values.push(FlatValue::PayloadText(range));
        Ok(())
    }

    /// Usage of a response: fields that were set are in the object's dict, which may have more than fields.
    fn usage(&mut self, value: &Bound<'py, PyAny>) -> Result<(), Unknown> {
        let py = value.py();
        let Some((USAGE, class)) = self.classes.of(value) else { return Err(Unknown) };
        let set = value.getattr(intern!(py, "__dict__"))?;
        let set = set.cast_exact::<PyDict>()?;
        self.used |= bit(USAGE, false);
        self.values.push(FlatValue::Object(class));
        let mut fields = 0;
        for member in &class.members {
            let own = set.get_item(&member.name)?;
            fields += usize::from(own.is_some());
            let value = match (&own, &member.default) {
                (Some(own), _) => own,
                (None, Some(default)) => default.bind(py),
                (None, None) => return Err(Unknown),
            };
            let value = self.usage_member(member, value)?;
            self.values.push(value);
        }
        if fields == set.len() { Ok(()) } else { Err(Unknown) }
    }

    fn usage_member(&mut self, member: &Member, value: &Bound<'py, PyAny>) -> Result<FlatValue, Unknown> {
        let start = self.payload.len();
        match member.value_type {
            MemberType::Count | MemberType::RareCount if value.is_exact_instance_of::<PyInt>() => {
                if value.extract::<i64>().is_ok_and(|count| count == 0) {
                    let rare = member.value_type == MemberType::RareCount;
                    return Ok(if rare { FlatValue::Absent } else { FlatValue::Json("0") });
                }
                write_integer(&mut self.payload, value)?;
            }
            MemberType::Number if value.is_exact_instance_of::<PyFloat>() => {
                write_float(&mut self.payload, value, self.classes)?;
            }
            MemberType::Number if value.extract::<i64>().is_ok_and(|number| number == 0) => {
                return Ok(FlatValue::Json("0.0"));
            }
            MemberType::Counts => {
                let counts = value.cast_exact::<PyDict>()?;
                if counts.is_empty() {
                    return Ok(FlatValue::Json("{}"));
                }
                // Pydantic writes booleans as numbers here.
                if !counts.values().iter().all(|count| count.is_exact_instance_of::<PyInt>()) {
                    return Err(Unknown);
                }
                write(&mut self.payload, value, self.classes, &mut self.budget)?;
            }
            MemberType::Cost if value.is_none() => return Ok(FlatValue::Json("null")),
            MemberType::Cost if value.get_type().is(self.classes.decimal.bind(value.py())) => {
                self.payload.extend_from_slice(value.str()?.to_str()?.as_bytes());
                return Ok(FlatValue::PayloadText(start..self.payload.len()));
            }
            _ => return Err(Unknown),
        }
        Ok(FlatValue::PayloadJson(start..self.payload.len()))
    }
}

impl ReadMessages<'_> {
    /// The messages as Rust values, without Python objects (the second pass).
    ///
    /// # Errors
    /// [`ThreadError::Parse`] for a message that Pydantic serialized and that exceeds a limit.
    pub(crate) fn messages(&self) -> Result<BorrowedMessages<'_>, ThreadError> {
        let dumped = self.dumped.iter().map(|(index, text)| read_dumped(*index, text));
        let dumped: Vec<_> = dumped.collect::<Result<_, _>>()?;
        let texts: Vec<_> = self.texts.iter().map(|text| text.to_str().unwrap_or_default()).collect();
        Ok(BorrowedMessages {
            values: self.values.iter(),
            texts: texts.into_iter(),
            payload: &self.payload,
            dumped: dumped.into_iter().flatten().collect::<Vec<_>>().into_iter(),
        })
    }
}

/// The list of one message that Pydantic dumped; `index` is that of the message in its history.
fn read_dumped(index: usize, text: &str) -> Result<History<'_>, ParseError> {
    read_history(text, &Limits::default()).map_err(|mut error| {
        if let Some(PathSegment::Index(first)) = error.path.first_mut() {
            *first = index;
        }
        error
    })
}

/// Builds messages from the values of the first pass, one after the other.
pub(crate) struct BorrowedMessages<'a> {
    values: std::slice::Iter<'a, FlatValue>,
    texts: std::vec::IntoIter<&'a str>,
    payload: &'a str,
    dumped: std::vec::IntoIter<ModelMessage<'a>>,
}

impl<'a> Iterator for BorrowedMessages<'a> {
    type Item = ModelMessage<'a>;

    fn next(&mut self) -> Option<ModelMessage<'a>> {
        match self.values.next()? {
            FlatValue::Object(class) => Some(self.message(class)),
            _ => self.dumped.next(),
        }
    }
}

impl<'a> BorrowedMessages<'a> {
    fn message(&mut self, class: &'a Class) -> ModelMessage<'a> {
        let (mut parts, mut usage) = (Vec::new(), None);
        let members = self.members(class, |messages, value_type, value| match (value_type, value) {
            (MemberType::Parts, FlatValue::List(count)) => {
                parts.reserve(*count);
                for _ in 0..*count {
                    if let Some(FlatValue::Object(class)) = messages.values.next() {
                        parts.push(messages.object(class));
                    }
                }
                Some(Value::Field)
            }
            (MemberType::Usage, FlatValue::Object(class)) => {
                usage = Some(messages.object(class));
                Some(Value::Field)
            }
            (_, value) => messages.value(value),
        });
        ModelMessage { kind: Kind::from(class.name), members, parts, usage }
    }

    fn object(&mut self, class: &'a Class) -> Object<'a> {
        self.members(class, |messages, _, value| messages.value(value))
    }

    fn members(
        &mut self,
        class: &'a Class,
        mut member_value: impl FnMut(&mut Self, MemberType, &'a FlatValue) -> Option<Value<'a>>,
    ) -> Object<'a> {
        let mut object = Object::with_capacity(class.members.len());
        for member in &class.members {
            if member.value_type == MemberType::ClassName {
                object.push(member.key, Value::text(class.name));
            } else if let Some(flat) = self.values.next()
                && let Some(value) = member_value(self, member.value_type, flat)
            {
                object.push(member.key, value);
            }
        }
        object
    }

    fn value(&mut self, flat: &'a FlatValue) -> Option<Value<'a>> {
        Some(match flat {
            FlatValue::Absent | FlatValue::Dumped => return None,
            FlatValue::Json(json) => Value::json(json),
            FlatValue::Text => Value::text(self.texts.next().unwrap_or_default()),
            FlatValue::PayloadText(range) => Value::text(self.payload.get(range.clone()).unwrap_or_default()),
            FlatValue::PayloadJson(range) => Value::json(self.payload.get(range.clone()).unwrap_or("null")),
            FlatValue::List(count) => {
                let values = (0..*count).filter_map(|_| {
                    let flat = self.values.next()?;
                    self.value(flat)
                });
                Value::List(values.collect())
            }
            FlatValue::Object(class) => Value::Object(self.object(class)),
        })
    }
}
