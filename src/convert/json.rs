//! Converts plain Python data to JSON text and back, without an intermediate tree.
//!
//! Integers of any size and all digits of floats are preserved. Errors name the path of a value that JSON cannot
//! represent.

use std::borrow::Cow;

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{
    PyBool, PyByteArray, PyBytes, PyDate, PyDateTime, PyDict, PyFloat, PyFrozenSet, PyInt, PyList, PySet,
    PyString, PyTuple,
};
use serde::de::DeserializeOwned;

use crate::convert::error::argument;
use crate::data::Data;
use crate::error::{OrRaise as _, value_error, wrong_type};
use turntree_core::json::{PathSegment, RawJson, RawObject, Reader, Token, check_utf8, pointer};
use turntree_core::limits::{LimitError, Limits};
use turntree_core::message::media::Binary;

/// Converts a value inside documents (arguments, results, metadata) to JSON. `what` names it in errors.
///
/// # Errors
/// `TypeError` naming the location of a value that JSON cannot represent; `ValueError` for NaN, infinities and nesting
/// deeper than [`Limits::PAYLOAD`] allows.
pub(crate) fn to_raw(value: &Bound<'_, PyAny>, what: &str) -> PyResult<RawJson> {
    write(value, what, Limits::PAYLOAD.depth, false)
}

/// As [`to_raw`], for a whole document or a part of one, which may be as deep as [`limits`] allows.
pub(crate) fn document_raw(value: &Bound<'_, PyAny>, what: &str) -> PyResult<RawJson> {
    write(value, what, limits().depth, false)
}

/// As [`document_raw`], for data from a browser: unpaired surrogates become U+FFFD.
pub(crate) fn browser_raw(value: &Bound<'_, PyAny>, what: &str) -> PyResult<RawJson> {
    write(value, what, limits().depth, true)
}

fn write(value: &Bound<'_, PyAny>, what: &str, depth: usize, lossy: bool) -> PyResult<RawJson> {
    let mut writer = Writer { text: String::new(), path: Vec::new(), what, depth, lossy };
    writer.value(value)?;
    RawJson::from_text(writer.text).map_err(|error| PyValueError::new_err(format!("{what}: {error}")))
}

/// As [`to_raw`], for a dict.
///
/// # Errors
/// As [`to_raw`]; `TypeError` when the value is not an object.
pub(crate) fn to_raw_object(value: &Bound<'_, PyAny>, what: &str) -> PyResult<RawObject> {
    let raw = to_raw(value, what)?;
    RawObject::from_raw(&raw).ok_or_else(|| wrong_type(value, what, "a dict"))
}

struct Writer<'a> {
    text: String,
    path: Vec<PathSegment>,
    what: &'a str,
    depth: usize,
    /// True to replace unpaired surrogates, false to refuse them.
    lossy: bool,
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
    fn open(&mut self, bracket: char) -> PyResult<()> {
        if self.room() == 0 {
            return Err(self.too_deep());
        }
        self.text.push(bracket);
        Ok(())
    }

    fn too_deep(&self) -> PyErr {
        let message = format!("{} is nested deeper than {} levels; flatten it", self.what, self.depth);
        PyValueError::new_err(message)
    }

    /// Appends valid JSON text.
    fn written(&mut self, text: &str) -> PyResult<()> {
        let limits = Limits { depth: self.room(), ..limits() };
        match limits.check(text) {
            Ok(()) => self.text.push_str(text),
            Err(LimitError::Depth { .. }) => return Err(self.too_deep()),
            Err(error) => return Err(PyValueError::new_err(format!("{}: {error}", self.location()))),
        }
        Ok(())
    }

    fn value(&mut self, value: &Bound<'_, PyAny>) -> PyResult<()> {
        if value.is_none() {
            self.text.push_str("null");
        } else if let Ok(text) = value.cast::<PyString>() {
            self.string(text)?;
        } else if let Ok(truth) = value.cast::<PyBool>() {
            self.text.push_str(if truth.is_true() { "true" } else { "false" });
        } else if value.is_exact_instance_of::<PyInt>() {
            self.text.push_str(value.str()?.to_str()?);
        } else if value.is_exact_instance_of::<PyFloat>() {
            self.float(value.extract()?)?;
        } else if let Ok(dict) = value.cast::<PyDict>() {
            self.object(dict)?;
        } else if let Ok(list) = value.cast::<PyList>() {
            self.array(list.iter())?;
        } else if let Ok(tuple) = value.cast::<PyTuple>() {
            self.array(tuple.iter())?;
        } else if let Ok(data) = value.cast::<Data>() {
            self.written(&data.get().to_json(data.py())?)?;
        } else {
            self.other(value)?;
        }
        Ok(())
    }

    fn string(&mut self, text: &Bound<'_, PyString>) -> PyResult<()> {
        let text = match text.to_str() {
            Ok(text) => Cow::Borrowed(text),
            Err(_) if self.lossy => lossy_text(text)?,
            Err(_) => {
                let message = format!("{}: the text holds a lone surrogate; JSON is UTF-8", self.location());
                return Err(PyValueError::new_err(message));
            }
        };
        self.text.push_str(&serde_json::to_string(&text).map_err(value_error)?);
        Ok(())
    }

    fn float(&mut self, number: f64) -> PyResult<()> {
        if !number.is_finite() {
            return Err(PyValueError::new_err(format!(
                "{}: {number} is not JSON; use None",
                self.location()
            )));
        }
        // serde_json writes the shortest digits that read back as the same number.
        self.text.push_str(&serde_json::to_string(&number).map_err(value_error)?);
        Ok(())
    }

    fn object(&mut self, dict: &Bound<'_, PyDict>) -> PyResult<()> {
        self.open('{')?;
        for (index, (key, value)) in dict.iter().enumerate() {
            if index > 0 {
                self.text.push(',');
            }
            let key = match key.cast::<PyString>() {
                Ok(key) => key.clone(),
                Err(_) if key.is_exact_instance_of::<PyInt>() => key.str()?,
                Err(_) => {
                    let found = key.get_type().name()?;
                    let message =
                        format!("{}: keys of a JSON object are strings, not {found}", self.location());
                    return Err(PyTypeError::new_err(message));
                }
            };
            self.string(&key)?;
            self.text.push(':');
            self.path.push(PathSegment::Key(key.to_string_lossy().into_owned()));
            self.value(&value)?;
            self.path.pop();
        }
        self.text.push('}');
        Ok(())
    }

    fn array<'py>(&mut self, items: impl Iterator<Item = Bound<'py, PyAny>>) -> PyResult<()> {
        self.open('[')?;
        for (index, item) in items.enumerate() {
            if index > 0 {
                self.text.push(',');
            }
            self.path.push(PathSegment::Index(index));
            self.value(&item)?;
            self.path.pop();
        }
        self.text.push(']');
        Ok(())
    }

    /// Values with one natural JSON form.
    fn other(&mut self, value: &Bound<'_, PyAny>) -> PyResult<()> {
        let py = value.py();
        if let Some(bytes) = text_or_bytes(value)? {
            let base64 = Binary::new(bytes.into_owned()).to_base64();
            return self.value(PyString::new(py, &base64).as_any());
        }
        if value.is_instance_of::<PyDateTime>() || value.is_instance_of::<PyDate>() {
            return self.value(&value.call_method0(intern!(py, "isoformat"))?);
        }
        if value.is_instance_of::<PyFloat>() {
            return self.float(value.extract()?);
        }
        if value.is_instance_of::<PyInt>() {
            let number = py.get_type::<PyInt>().call1((value,))?;
            self.text.push_str(number.str()?.to_str()?);
            return Ok(());
        }
        if value.is_instance_of::<PySet>() || value.is_instance_of::<PyFrozenSet>() {
            let items = value.try_iter()?.collect::<PyResult<Vec<_>>>()?;
            return self.array(items.into_iter());
        }
        // Pydantic models, then dataclasses, enums, UUIDs, decimals, paths and named mappings.
        if let Ok(dump) = value.getattr(intern!(py, "model_dump_json")) {
            let kwargs = PyDict::new(py);
            kwargs.set_item(intern!(py, "by_alias"), true)?;
            return self.written(dump.call((), Some(&kwargs))?.extract::<&str>()?);
        }
        let plain = py
            .import(intern!(py, "turntree._jsonable"))?
            .getattr(intern!(py, "to_jsonable"))?
            .call1((value,))?;
        if plain.is(value) {
            let found = value.get_type().fully_qualified_name()?;
            let message = format!("{}: a {found} has no JSON form; give plain data", self.location());
            return Err(PyTypeError::new_err(message));
        }
        self.value(&plain)
    }
}

/// A text of Python as UTF-8: a pair of surrogates becomes its character, an unpaired one U+FFFD.
pub(crate) fn lossy_text<'a>(text: &'a Bound<'_, PyString>) -> PyResult<Cow<'a, str>> {
    if let Ok(text) = text.to_str() {
        return Ok(Cow::Borrowed(text));
    }
    let py = text.py();
    let bytes =
        text.call_method1(intern!(py, "encode"), (intern!(py, "utf-16-le"), intern!(py, "surrogatepass")))?;
    let pairs = bytes.cast::<PyBytes>()?.as_bytes().chunks_exact(2);
    let units: Vec<u16> =
        pairs.map(|pair| pair.iter().rev().fold(0, |unit, byte| unit << 8 | u16::from(*byte))).collect();
    Ok(Cow::Owned(String::from_utf16_lossy(&units)))
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
    let mut builder = Builder { py, reader: Reader::new(text), rules };
    let first = builder.reader.next().unwrap_or(Token::Null);
    builder.build(first, 0)
}

struct Builder<'py, 'a, R> {
    py: Python<'py>,
    reader: Reader<'a>,
    rules: R,
}

impl<'py, R: BuildRules<'py>> Builder<'py, '_, R> {
    fn build(&mut self, token: Token<'_>, depth: usize) -> PyResult<Bound<'py, PyAny>> {
        let py = self.py;
        if depth > R::DEPTH {
            return Err(PyValueError::new_err("the value is nested too deeply"));
        }
        Ok(match token {
            Token::Null | Token::ObjectEnd | Token::ArrayEnd | Token::Key(_) => py.None().into_bound(py),
            Token::Bool(truth) => PyBool::new(py, truth).to_owned().into_any(),
            Token::String(text) => PyString::new(py, &text.decode()).into_any(),
            Token::Number(digits) => self.number(digits)?,
            Token::ArrayStart => {
                let list = PyList::empty(py);
                while let Some(token) = self.reader.next() {
                    if token == Token::ArrayEnd {
                        break;
                    }
                    list.append(self.build(token, depth + 1)?)?;
                }
                list.into_any()
            }
            Token::ObjectStart => {
                let dict = PyDict::new(py);
                while let Some(Token::Key(key)) = self.reader.next() {
                    let token = self.reader.next().unwrap_or(Token::Null);
                    let value = self.build(token, depth + 1)?;
                    dict.set_item(self.rules.key(py, &key.decode()), value)?;
                }
                if !self.rules.accepts(&dict)? {
                    return Err(PyValueError::new_err("the object is refused"));
                }
                dict.into_any()
            }
        })
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
/// `UnicodeEncodeError` for a `str` with unpaired surrogates.
pub(crate) fn text_or_bytes<'a>(value: &'a Bound<'_, PyAny>) -> PyResult<Option<Cow<'a, [u8]>>> {
    Ok(if let Ok(text) = value.cast::<PyString>() {
        Some(Cow::Borrowed(text.to_str()?.as_bytes()))
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
/// As [`to_raw`]; `TypeError` names the argument.
pub(crate) fn document_text(value: &Bound<'_, PyAny>, what: &str) -> PyResult<String> {
    if let Ok(text) = value.cast::<PyString>() {
        return Ok(text.to_str()?.to_owned());
    }
    match text_or_bytes(value)? {
        Some(bytes) => check_utf8(&bytes).map(str::to_owned).or_raise(value.py()),
        None => document_raw(value, what).map(|raw| raw.get().to_owned()),
    }
}

/// A value of a crate from plain data.
///
/// # Errors
/// As [`to_raw`]; `turntree.ValidationError`, whose message names the argument.
pub(crate) fn read_argument<T: DeserializeOwned>(value: &Bound<'_, PyAny>, what: &str) -> PyResult<T> {
    let raw = document_raw(value, what)?;
    turntree_core::json::parse(raw.get(), &limits())
        .map_err(|error| argument(value.py(), &error, what, raw.get()))
}

/// Limits of documents that Python callers get.
pub(crate) fn limits() -> Limits {
    Limits::default()
}
