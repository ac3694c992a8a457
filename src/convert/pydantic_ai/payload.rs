//! Plain Python values as the JSON that Pydantic writes, and JSON as plain Python values.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple};

use super::Unknown;
use super::shapes::Shapes;
use turntree_core::json::canonical::write_string;
use turntree_core::json::{RawString, Reader, Token};

/// Nesting that the recursion below can take on any thread's stack; Pydantic refuses a little more.
const DEPTH: usize = 150;

/// Writes a value of a plain type.
///
/// # Errors
/// [`Unknown`] for every other type, for keys that are not strings, for text with half surrogates, and for deep nesting.
pub(super) fn write(
    out: &mut Vec<u8>,
    value: &Bound<'_, PyAny>,
    shapes: &Shapes,
    depth: usize,
) -> Result<(), Unknown> {
    if depth > DEPTH {
        return Err(Unknown);
    }
    if value.is_exact_instance_of::<PyString>() {
        write_string(out, value.cast::<PyString>().map_err(|_| Unknown)?.to_str()?);
    } else if value.is_none() {
        out.extend_from_slice(b"null");
    } else if value.is_exact_instance_of::<PyInt>() {
        write_integer(out, value)?;
    } else if value.is_exact_instance_of::<PyDict>() {
        out.push(b'{');
        for (place, (key, value)) in value.cast::<PyDict>().map_err(|_| Unknown)?.iter().enumerate() {
            if place > 0 {
                out.push(b',');
            }
            if !key.is_exact_instance_of::<PyString>() {
                return Err(Unknown);
            }
            write_string(out, key.cast::<PyString>().map_err(|_| Unknown)?.to_str()?);
            out.push(b':');
            write(out, &value, shapes, depth + 1)?;
        }
        out.push(b'}');
    } else if value.is_exact_instance_of::<PyList>() {
        write_items(out, value.cast::<PyList>().map_err(|_| Unknown)?.iter(), shapes, depth)?;
    } else if value.is_exact_instance_of::<PyFloat>() {
        write_float(out, value, shapes)?;
    } else if let Ok(truth) = value.cast::<PyBool>() {
        out.extend_from_slice(if truth.is_true() { b"true" } else { b"false" });
    } else if value.is_exact_instance_of::<PyTuple>() {
        write_items(out, value.cast::<PyTuple>().map_err(|_| Unknown)?.iter(), shapes, depth)?;
    } else {
        return Err(Unknown);
    }
    Ok(())
}

fn write_items<'py>(
    out: &mut Vec<u8>,
    items: impl Iterator<Item = Bound<'py, PyAny>>,
    shapes: &Shapes,
    depth: usize,
) -> Result<(), Unknown> {
    out.push(b'[');
    for (place, item) in items.enumerate() {
        if place > 0 {
            out.push(b',');
        }
        write(out, &item, shapes, depth + 1)?;
    }
    out.push(b']');
    Ok(())
}

/// Writes an integer of any size.
pub(super) fn write_integer(out: &mut Vec<u8>, value: &Bound<'_, PyAny>) -> Result<(), Unknown> {
    if let Ok(number) = value.extract::<i64>() {
        return serde_json::to_writer(out, &number).map_err(|_| Unknown);
    }
    out.extend_from_slice(value.str()?.to_str()?.as_bytes());
    Ok(())
}

/// Writes a float as Pydantic spells it: everybody agrees on numbers of usual size.
pub(super) fn write_float(
    out: &mut Vec<u8>,
    value: &Bound<'_, PyAny>,
    shapes: &Shapes,
) -> Result<(), Unknown> {
    let number: f64 = value.extract()?;
    if !number.is_finite() {
        out.extend_from_slice(b"null");
    } else if number == 0.0 || (1e-3..1e15).contains(&number.abs()) {
        serde_json::to_writer(out, &number).map_err(|_| Unknown)?;
    } else {
        let written = shapes.to_json.bind(value.py()).call1((value,))?;
        out.extend_from_slice(written.cast::<PyBytes>().map_err(|_| Unknown)?.as_bytes());
    }
    Ok(())
}

/// Strings that were made already; keys and names come again and again.
pub(super) struct Strings<'py> {
    py: Python<'py>,
    slots: Vec<Option<Bound<'py, PyString>>>,
}

/// How many strings are remembered. A power of two.
const SLOTS: usize = 1024;

/// Longer strings are hardly the same twice.
const LONGEST: usize = 48;

impl<'py> Strings<'py> {
    /// None yet.
    pub(super) fn new(py: Python<'py>) -> Self {
        Self { py, slots: vec![None; SLOTS] }
    }

    /// A string that is likely to come again.
    pub(super) fn name(&mut self, text: &str) -> Bound<'py, PyString> {
        if text.len() > LONGEST {
            return PyString::new(self.py, text);
        }
        let hash = text.bytes().fold(0xCBF2_9CE4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3)
        });
        let place = usize::try_from(hash ^ (hash >> 32)).unwrap_or_default() & (SLOTS - 1);
        let Some(slot) = self.slots.get_mut(place) else { return PyString::new(self.py, text) };
        match slot {
            Some(known) if known.to_str().is_ok_and(|known| known == text) => known.clone(),
            _ => slot.insert(PyString::new(self.py, text)).clone(),
        }
    }
}

/// Reads JSON into plain Python values.
pub(super) struct Plain<'s, 'py> {
    pub(super) strings: &'s mut Strings<'py>,
    /// Whether an object may be a file, which Pydantic would make an object of its own.
    pub(super) files: bool,
}

const FILES: [&str; 6] = ["image-url", "audio-url", "video-url", "document-url", "binary", "uploaded-file"];

impl<'py> Plain<'_, 'py> {
    /// The value of a text that is one valid JSON value.
    ///
    /// # Errors
    /// [`Unknown`] for deep nesting, and for what may be a file where those are looked for.
    pub(super) fn read(&mut self, json: &str) -> Result<Bound<'py, PyAny>, Unknown> {
        let mut reader = Reader::new(json);
        let first = reader.next().ok_or(Unknown)?;
        self.value(first, &mut reader, 0)
    }

    fn value(
        &mut self,
        token: Token<'_>,
        reader: &mut Reader<'_>,
        depth: usize,
    ) -> Result<Bound<'py, PyAny>, Unknown> {
        let py = self.strings.py;
        if depth > DEPTH {
            return Err(Unknown);
        }
        Ok(match token {
            Token::Null => py.None().into_bound(py),
            Token::Bool(truth) => PyBool::new(py, truth).to_owned().into_any(),
            Token::String(text) => string(py, text).into_any(),
            Token::Number(digits) => number(py, digits)?,
            Token::ArrayStart => {
                let list = PyList::empty(py);
                loop {
                    match reader.next().ok_or(Unknown)? {
                        Token::ArrayEnd => break,
                        token => list.append(self.value(token, reader, depth + 1)?)?,
                    }
                }
                list.into_any()
            }
            Token::ObjectStart => {
                let dict = PyDict::new(py);
                let mut has_kind = false;
                while let Token::Key(key) = reader.next().ok_or(Unknown)? {
                    let key = key.decode();
                    has_kind |= key == "kind";
                    let token = reader.next().ok_or(Unknown)?;
                    let value = self.value(token, reader, depth + 1)?;
                    dict.set_item(self.strings.name(&key), value)?;
                }
                if has_kind && self.files && is_file(&dict)? {
                    return Err(Unknown);
                }
                dict.into_any()
            }
            Token::ObjectEnd | Token::ArrayEnd | Token::Key(_) => return Err(Unknown),
        })
    }
}

fn is_file(dict: &Bound<'_, PyDict>) -> PyResult<bool> {
    let kind = dict.get_item(intern!(dict.py(), "kind"))?;
    let kind = kind.as_ref().and_then(|kind| kind.cast::<PyString>().ok());
    Ok(kind.is_some_and(|kind| kind.to_str().is_ok_and(|kind| FILES.contains(&kind))))
}

fn string<'py>(py: Python<'py>, text: RawString<'_>) -> Bound<'py, PyString> {
    PyString::new(py, &text.decode())
}

fn number<'py>(py: Python<'py>, digits: &str) -> Result<Bound<'py, PyAny>, Unknown> {
    if let Ok(small) = digits.parse::<i64>() {
        return Ok(PyInt::new(py, small).into_any());
    }
    if digits.bytes().all(|byte| byte == b'-' || byte.is_ascii_digit()) {
        return Ok(py.get_type::<PyInt>().call1((digits,))?);
    }
    Ok(PyFloat::new(py, digits.parse().map_err(|_| Unknown)?).into_any())
}
