//! Converts plain Python data to JSON text and back, without an intermediate tree.
//!
//! Integers of any size and all digits of floats are preserved. Errors name the path of a value that JSON cannot
//! represent.

use std::borrow::Cow;

use crate::prelude::*;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::types::iter::{BoundDictIterator, BoundListIterator, BoundTupleIterator};
use pyo3::types::{
    PyBool, PyByteArray, PyBytes, PyDate, PyDateTime, PyDict, PyFloat, PyFrozenSet, PyInt, PyList, PySet,
    PyString, PyTuple,
};
use serde::de::DeserializeOwned;

use crate::bridge::gil;
use crate::convert::budget::{Budget, Exceeded};
use crate::convert::error::{argument, refused_argument};
use crate::convert::text::{document_str, lossy_text, refused_text};
use crate::data::Data;
use crate::error::{OrRaise as _, value_error, wrong_type};
use turntree_core::json::{
    ParseError, ParseErrorKind, PathSegment, RawJson, RawObject, Reader, Token, check_utf8, pointer,
};
use turntree_core::limits::{LimitError, Limits};
use turntree_core::message::media::Binary;

/// Converts a value inside documents (arguments, results, metadata) to JSON. `what` names it in errors.
///
/// # Errors
/// `TypeError` naming the location of a value that JSON cannot represent; `ValueError` for NaN, infinities and nesting
/// deeper than [`Limits::PAYLOAD`] allows, and `turntree.ValidationError` for more data.
pub(crate) fn to_raw(value: &Bound<'_, PyAny>, what: &str) -> PyResult<RawJson> {
    write(value, what, Limits::PAYLOAD, Source::Argument)
}

/// As [`to_raw`], for an argument that is a document or a part of one, which may be as deep as [`limits`] allows.
pub(crate) fn document_raw(value: &Bound<'_, PyAny>, what: &str) -> PyResult<RawJson> {
    write(value, what, limits(), Source::Argument)
}

/// As [`document_raw`], for data that is read.
///
/// # Errors
/// `turntree.ValidationError` naming the location of a value that JSON cannot represent, or that is nested too deeply.
pub(crate) fn data_raw(value: &Bound<'_, PyAny>, what: &str) -> PyResult<RawJson> {
    write(value, what, limits(), Source::Data)
}

/// As [`data_raw`], for data from a browser: unpaired surrogates become U+FFFD.
pub(crate) fn browser_raw(value: &Bound<'_, PyAny>, what: &str) -> PyResult<RawJson> {
    write(value, what, limits(), Source::Browser)
}

fn write(value: &Bound<'_, PyAny>, what: &str, limits: Limits, source: Source) -> PyResult<RawJson> {
    gil::protect_thread();
    let mut writer = Writer {
        text: String::new(),
        path: Vec::new(),
        what,
        depth: limits.depth,
        source,
        budget: Budget::new(limits),
        copy_level: 0,
    };
    writer.value(value)?;
    RawJson::from_text(writer.text).map_err(|error| PyValueError::new_err(format!("{what}: {error}")))
}

/// As [`to_raw`], for a dict.
///
/// # Errors
/// As [`to_raw`]; `TypeError` when the value is not an object.
pub(crate) fn to_raw_object(value: &Bound<'_, PyAny>, what: &str) -> PyResult<RawObject> {
    let raw = write(value, what, Limits::PAYLOAD, Source::Object)?;
    RawObject::from_raw(&raw).ok_or_else(|| wrong_type(value, what, "a dict"))
}

/// Where a value comes from.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Source {
    /// A call: what it cannot take is a `TypeError` or a `ValueError`, as Python's own functions raise it.
    Argument,
    /// A call that takes a dict.
    Object,
    /// Data that is read: whatever is wrong with it is a `turntree.ValidationError`.
    Data,
    /// Data from a browser.
    Browser,
}

struct Writer<'a> {
    text: String,
    path: Vec<PathSegment>,
    what: &'a str,
    depth: usize,
    source: Source,
    budget: Budget,
    /// The level of the object that was written before, while one is written again.
    copy_level: usize,
}

impl Writer<'_> {
    fn location(&self) -> String {
        format!("{}{}", self.what, pointer(&self.path))
    }

    /// Levels that may still open below the current path.
    fn room(&self) -> usize {
        self.depth.saturating_sub(self.path.len())
    }

    /// Opens an object or an array.
    fn open<'py>(
        &mut self,
        py: Python<'py>,
        bracket: char,
        items: Items<'py>,
        is_copy: bool,
    ) -> PyResult<Option<OpenContainer<'py>>> {
        if self.room() == 0 {
            return Err(self.too_deep(py));
        }
        self.text.push(bracket);
        Ok(Some(OpenContainer { items, written: 0, has_items: false, is_copy }))
    }

    fn too_deep(&self, py: Python<'_>) -> PyErr {
        let rule = format!("nested deeper than {} levels; flatten it", self.depth);
        if matches!(self.source, Source::Argument | Source::Object) {
            return PyValueError::new_err(format!("{} is {rule}", self.what));
        }
        let error = ParseError { kind: ParseErrorKind::Limit, ..ParseError::shape(Vec::new(), rule) };
        refused_argument(py, &error, self.what)
    }

    /// The exception for data that are too large.
    #[cold]
    fn too_large(&self, py: Python<'_>, exceeded: Exceeded) -> PyErr {
        // The place of the copy, or that of all data.
        let levels = if exceeded == Exceeded::Copies { self.copy_level } else { 0 };
        refused_argument(py, &exceeded.at(self.path.get(..levels).unwrap_or_default()), self.what)
    }

    /// The exception for a value of a type that JSON does not have.
    fn wrong_type(&self, py: Python<'_>, rule: &str) -> PyErr {
        if matches!(self.source, Source::Argument | Source::Object) {
            return PyTypeError::new_err(format!("{}: {rule}", self.location()));
        }
        refused_argument(py, &ParseError::shape(self.path.clone(), rule), self.what)
    }

    /// Appends valid JSON text.
    fn written(&mut self, py: Python<'_>, text: &str) -> PyResult<()> {
        let limits = Limits { depth: self.room(), ..limits() };
        let counted = self.budget.text(self.text.len(), text.len());
        counted.map_err(|exceeded| self.too_large(py, exceeded))?;
        match limits.check(text) {
            Ok(()) => self.text.push_str(text),
            Err(LimitError::Depth { .. }) => return Err(self.too_deep(py)),
            Err(error) => return Err(PyValueError::new_err(format!("{}: {error}", self.location()))),
        }
        Ok(())
    }

    /// Writes a value and everything in it. Not recursive: the depth of the data does not depend on the thread's stack.
    fn value(&mut self, value: &Bound<'_, PyAny>) -> PyResult<()> {
        let mut open: Vec<OpenContainer<'_>> = self.begin(value.clone(), false)?.into_iter().collect();
        while let Some(container) = open.last_mut() {
            if std::mem::replace(&mut container.has_items, true) {
                self.path.pop();
            }
            let Some((key, item)) = container.items.next() else {
                self.text.push(container.items.closing());
                open.pop();
                continue;
            };
            let (index, is_copy) = (container.written, container.is_copy);
            container.written += 1;
            let counted = self.budget.item(index, self.text.len());
            counted.map_err(|exceeded| self.too_large(item.py(), exceeded))?;
            self.item(key, index)?;
            open.extend(self.begin(item, is_copy)?);
        }
        Ok(())
    }

    /// Writes what precedes an item: a comma, a key.
    fn item(&mut self, key: Option<Bound<'_, PyAny>>, index: usize) -> PyResult<()> {
        if index > 0 {
            self.text.push(',');
        }
        let Some(key) = key else {
            self.path.push(PathSegment::Index(index));
            return Ok(());
        };
        let key = match key.cast::<PyString>() {
            Ok(key) => key.clone(),
            Err(_) if key.is_exact_instance_of::<PyInt>() => key.str()?,
            Err(_) => {
                let found = key.get_type().name()?;
                let rule = format!("keys of a JSON object are strings, not {found}");
                return Err(self.wrong_type(key.py(), &rule));
            }
        };
        self.string(&key)?;
        self.text.push(':');
        self.path.push(PathSegment::Key(key.to_string_lossy().into_owned()));
        Ok(())
    }

    /// Writes a value without items. Of a container, writes the opening bracket and returns the items. `is_copy` says
    /// whether an object around the value was written before.
    fn begin<'py>(
        &mut self,
        mut value: Bound<'py, PyAny>,
        is_copy: bool,
    ) -> PyResult<Option<OpenContainer<'py>>> {
        let original = value.clone();
        for _ in 0..REPLACEMENTS {
            if value.is_none() {
                self.text.push_str("null");
            } else if let Ok(text) = value.cast::<PyString>() {
                self.string(text)?;
            } else if let Ok(truth) = value.cast::<PyBool>() {
                self.text.push_str(if truth.is_true() { "true" } else { "false" });
            } else if value.is_exact_instance_of::<PyInt>() {
                self.text.push_str(value.str()?.to_str()?);
            } else if value.is_exact_instance_of::<PyFloat>() {
                self.float(value.py(), value.extract()?)?;
            } else if let Ok(dict) = value.cast::<PyDict>() {
                let is_copy = self.count(&original, is_copy)?;
                return self.open(dict.py(), '{', Items::Object(dict.iter()), is_copy);
            } else if let Ok(list) = value.cast::<PyList>() {
                let is_copy = self.count(&original, is_copy)?;
                return self.open(list.py(), '[', Items::List(list.iter()), is_copy);
            } else if let Ok(tuple) = value.cast::<PyTuple>() {
                let is_copy = self.count(&original, is_copy)?;
                return self.open(tuple.py(), '[', Items::Tuple(tuple.iter()), is_copy);
            } else if let Ok(data) = value.cast::<Data>() {
                self.written(data.py(), &data.get().to_json(data.py())?)?;
            } else if let Some(replacement) = self.other(&value)? {
                value = replacement;
                continue;
            }
            return Ok(None);
        }
        Err(self.no_json_form(&value)?)
    }

    /// Counts an object or a list. Returns whether it, or one around it, was written before.
    fn count(&mut self, object: &Bound<'_, PyAny>, is_copied: bool) -> PyResult<bool> {
        let counted = self.budget.open(object, is_copied);
        let is_copy = counted.map_err(|exceeded| self.too_large(object.py(), exceeded))?;
        if is_copy && !is_copied {
            self.copy_level = self.path.len();
        }
        Ok(is_copy)
    }

    fn string(&mut self, text: &Bound<'_, PyString>) -> PyResult<()> {
        let py = text.py();
        let text = match text.to_str() {
            Ok(text) => Cow::Borrowed(text),
            Err(_) if self.source == Source::Browser => lossy_text(text)?,
            Err(error) => return Err(refused_text(py, error, &self.path, self.what)),
        };
        let counted = self.budget.text(self.text.len(), text.len());
        counted.map_err(|exceeded| self.too_large(py, exceeded))?;
        self.text.push_str(&serde_json::to_string(&text).map_err(value_error)?);
        Ok(())
    }

    fn float(&mut self, py: Python<'_>, number: f64) -> PyResult<()> {
        if !number.is_finite() {
            let message = format!("{number} is not JSON; use None");
            let error = ParseError::shape(self.path.clone(), message);
            return Err(refused_argument(py, &error, self.what));
        }
        // serde_json writes the shortest digits that read back as the same number.
        self.text.push_str(&serde_json::to_string(&number).map_err(value_error)?);
        Ok(())
    }

    /// Writes a value with one natural JSON form, or returns a value to write in its place.
    fn other<'py>(&mut self, value: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let py = value.py();
        if let Some(bytes) = text_or_bytes(value)? {
            let base64 = Binary::new(bytes.into_owned()).to_base64();
            return Ok(Some(PyString::new(py, &base64).into_any()));
        }
        if value.is_instance_of::<PyDateTime>() || value.is_instance_of::<PyDate>() {
            return value.call_method0(intern!(py, "isoformat")).map(Some);
        }
        if value.is_instance_of::<PyFloat>() {
            return self.float(py, value.extract()?).map(|()| None);
        }
        if value.is_instance_of::<PyInt>() {
            let number = py.get_type::<PyInt>().call1((value,))?;
            self.text.push_str(number.str()?.to_str()?);
            return Ok(None);
        }
        if value.is_instance_of::<PySet>() || value.is_instance_of::<PyFrozenSet>() {
            return py.get_type::<PyList>().call1((value,)).map(Some);
        }
        // Pydantic models, then dataclasses, enums, UUIDs, decimals, paths and named mappings.
        if let Ok(dump) = value.getattr(intern!(py, "model_dump_json")) {
            let kwargs = PyDict::new(py);
            kwargs.set_item(intern!(py, "by_alias"), true)?;
            return self.written(py, dump.call((), Some(&kwargs))?.extract::<&str>()?).map(|()| None);
        }
        let plain = py
            .import(intern!(py, "turntree._jsonable"))?
            .getattr(intern!(py, "to_jsonable"))?
            .call1((value,))?;
        if plain.is(value) { Err(self.no_json_form(value)?) } else { Ok(Some(plain)) }
    }

    fn no_json_form(&self, value: &Bound<'_, PyAny>) -> PyResult<PyErr> {
        if self.source == Source::Object && self.path.is_empty() {
            return Ok(wrong_type(value, self.what, "a dict"));
        }
        let found = value.get_type().fully_qualified_name()?;
        let rule = format!("values of {found} have no JSON form; give plain data");
        Ok(self.wrong_type(value.py(), &rule))
    }
}

/// Maximum number of values that replace each other, as the value of an enum replaces the enum. No type needs more.
const REPLACEMENTS: usize = 8;

/// A container whose items are being written.
struct OpenContainer<'py> {
    items: Items<'py>,
    /// The number of items that were begun.
    written: usize,
    /// True if the path ends with an item of this container.
    has_items: bool,
    /// True if it was written before.
    is_copy: bool,
}

enum Items<'py> {
    Object(BoundDictIterator<'py>),
    List(BoundListIterator<'py>),
    Tuple(BoundTupleIterator<'py>),
}

impl<'py> Items<'py> {
    /// The next item, of an object with its key.
    fn next(&mut self) -> Option<(Option<Bound<'py, PyAny>>, Bound<'py, PyAny>)> {
        match self {
            Self::Object(members) => members.next().map(|(key, value)| (Some(key), value)),
            Self::List(items) => items.next().map(|item| (None, item)),
            Self::Tuple(items) => items.next().map(|item| (None, item)),
        }
    }

    const fn closing(&self) -> char {
        if matches!(self, Self::Object(_)) { '}' } else { ']' }
    }
}

/// The Python value of a JSON text that is known to be valid.
pub(crate) fn json_to_python(py: Python<'_>, text: &str) -> PyResult<Py<PyAny>> {
    build_value(py, text, AnyValue::<false>).map(Bound::unbind)
}

/// As [`json_to_python`], for data that goes to a browser: a number beyond the range of doubles becomes `None`, as in a
/// browser. Python would write it as `Infinity`, which is not JSON.
pub(crate) fn to_browser(py: Python<'_>, text: &str) -> PyResult<Py<PyAny>> {
    build_value(py, text, AnyValue::<true>).map(Bound::unbind)
}

/// How the Python value of a JSON text is built.
pub(crate) trait BuildRules<'py> {
    /// Maximum depth.
    const DEPTH: usize = usize::MAX;

    /// True if numbers beyond the range of doubles become `None`.
    const FINITE: bool;

    /// A key of an object.
    fn key(&mut self, py: Python<'py>, key: &str) -> Bound<'py, PyString> {
        PyString::new(py, key)
    }

    /// False to refuse an object.
    fn accepts(&self, _dict: &Bound<'py, PyDict>) -> PyResult<bool> {
        Ok(true)
    }
}

struct AnyValue<const FINITE: bool>;

impl<const FINITE: bool> BuildRules<'_> for AnyValue<FINITE> {
    const FINITE: bool = FINITE;
}

/// The Python value of a JSON text that is known to be valid.
///
/// # Errors
/// `ValueError` for a value that the rules refuse.
pub(crate) fn build_value<'py, R: BuildRules<'py>>(
    py: Python<'py>,
    text: &str,
    rules: R,
) -> PyResult<Bound<'py, PyAny>> {
    gil::protect_thread();
    Builder { py, rules }.build(Reader::new(text))
}

struct Builder<'py, R> {
    py: Python<'py>,
    rules: R,
}

/// A container whose items are being read.
enum Unfinished<'py> {
    List(Bound<'py, PyList>),
    /// With the key of the next value.
    Dict(Bound<'py, PyDict>, Option<Bound<'py, PyString>>),
}

impl<'py, R: BuildRules<'py>> Builder<'py, R> {
    /// Not recursive: the depth of the text does not depend on the thread's stack.
    fn build(&mut self, tokens: Reader<'_>) -> PyResult<Bound<'py, PyAny>> {
        let py = self.py;
        let mut open: Vec<Unfinished<'py>> = Vec::new();
        for token in tokens {
            if open.len() > R::DEPTH && !matches!(token, Token::ObjectEnd | Token::ArrayEnd) {
                return Err(PyValueError::new_err("the value is nested too deeply"));
            }
            let value = match token {
                Token::Null => py.None().into_bound(py),
                Token::Bool(truth) => PyBool::new(py, truth).to_owned().into_any(),
                Token::String(text) => PyString::new(py, &text.decode()).into_any(),
                Token::Number(digits) => self.number(digits)?,
                Token::Key(key) => {
                    if let Some(Unfinished::Dict(_, next)) = open.last_mut() {
                        *next = Some(self.rules.key(py, &key.decode()));
                    }
                    continue;
                }
                Token::ArrayStart => {
                    open.push(Unfinished::List(PyList::empty(py)));
                    continue;
                }
                Token::ObjectStart => {
                    open.push(Unfinished::Dict(PyDict::new(py), None));
                    continue;
                }
                Token::ObjectEnd | Token::ArrayEnd => match open.pop() {
                    Some(container) => self.finished(container)?,
                    None => break,
                },
            };
            match open.last_mut() {
                Some(Unfinished::List(list)) => list.append(value)?,
                Some(Unfinished::Dict(dict, key)) => {
                    if let Some(key) = key.take() {
                        dict.set_item(key, value)?;
                    }
                }
                None => return Ok(value),
            }
        }
        Ok(py.None().into_bound(py))
    }

    fn finished(&self, container: Unfinished<'py>) -> PyResult<Bound<'py, PyAny>> {
        match container {
            Unfinished::List(list) => Ok(list.into_any()),
            Unfinished::Dict(dict, _) if self.rules.accepts(&dict)? => Ok(dict.into_any()),
            Unfinished::Dict(..) => Err(PyValueError::new_err("the object is refused")),
        }
    }

    fn number(&self, digits: &str) -> PyResult<Bound<'py, PyAny>> {
        let py = self.py;
        if let Ok(small) = digits.parse::<i64>() {
            return Ok(PyInt::new(py, small).into_any());
        }
        let double = digits.parse::<f64>().unwrap_or(f64::INFINITY);
        if R::FINITE && !double.is_finite() {
            return Ok(py.None().into_bound(py));
        }
        if digits.bytes().all(|byte| byte == b'-' || byte.is_ascii_digit()) {
            return py.get_type::<PyInt>().call1((digits,));
        }
        Ok(PyFloat::new(py, double).into_any())
    }
}

/// The bytes of a `str` in UTF-8, of `bytes` or of a `bytearray`; `None` for a value of another type.
///
/// # Errors
/// As [`document_str`].
pub(crate) fn text_or_bytes<'a>(value: &'a Bound<'_, PyAny>) -> PyResult<Option<Cow<'a, [u8]>>> {
    Ok(if let Ok(text) = value.cast::<PyString>() {
        Some(Cow::Borrowed(document_str(text)?.as_bytes()))
    } else if let Ok(bytes) = value.cast::<PyBytes>() {
        Some(Cow::Borrowed(bytes.as_bytes()))
    } else {
        value.cast::<PyByteArray>().ok().map(|bytes| Cow::Owned(bytes.to_vec()))
    })
}

/// As [`text_or_bytes`], for data from a browser: unpaired surrogates become U+FFFD.
pub(crate) fn browser_text_or_bytes<'a>(value: &'a Bound<'_, PyAny>) -> PyResult<Option<Cow<'a, [u8]>>> {
    match value.cast::<PyString>().map(lossy_text) {
        Ok(Ok(Cow::Owned(text))) => Ok(Some(Cow::Owned(text.into_bytes()))),
        _ => text_or_bytes(value),
    }
}

/// A document given as `str`, `bytes` or plain data (dict, list), as JSON text.
///
/// # Errors
/// `turntree.ValidationError`, whose message names the argument and the place.
pub(crate) fn document_text(value: &Bound<'_, PyAny>, what: &str) -> PyResult<String> {
    if let Ok(text) = value.cast::<PyString>() {
        return Ok(document_str(text)?.to_owned());
    }
    match text_or_bytes(value)? {
        Some(bytes) => check_utf8(&bytes).map(str::to_owned).or_raise(value.py()),
        None => data_raw(value, what).map(|raw| raw.get().to_owned()),
    }
}

/// True for plain data, which is not JSON text.
pub(crate) fn is_plain(value: &Bound<'_, PyAny>) -> bool {
    value.is_instance_of::<PyDict>() || value.is_instance_of::<PyList>()
}

/// A value of a crate from plain data, `outer` levels below the root of a document.
///
/// # Errors
/// As [`to_raw`]; `turntree.ValidationError`, whose message names the argument.
pub(crate) fn read_argument<T: DeserializeOwned>(
    value: &Bound<'_, PyAny>,
    what: &str,
    outer: usize,
) -> PyResult<T> {
    let raw = document_raw(value, what)?;
    turntree_core::json::parse(raw.get(), &Limits::of_part(outer))
        .map_err(|error| argument(value.py(), error, what, raw.get()))
}

/// Limits of documents that Python callers get.
pub(crate) fn limits() -> Limits {
    Limits::default()
}
