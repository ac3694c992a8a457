//! Plain Python values as the JSON that Pydantic writes, and JSON as plain Python values.

use crate::prelude::*;
use pyo3::intern;
use pyo3::types::{PyBool, PyBytes, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple};

use super::Unknown;
use super::classes::Installation;
use crate::convert::json::{BuildRules, build_value};
use turntree_core::json::canonical::write_string;

/// Maximum depth: the recursion fits the stack of any thread. Pydantic's maximum is a little higher.
const DEPTH: usize = 150;

/// Writes a value of a plain type.
///
/// # Errors
/// [`Unknown`] for every other type, for keys that are not strings, for text with half surrogates, and for deep nesting.
pub(super) fn write(
    out: &mut Vec<u8>,
    value: &Bound<'_, PyAny>,
    classes: &Installation,
    depth: usize,
) -> Result<(), Unknown> {
    if depth > DEPTH {
        return Err(Unknown);
    }
    if value.is_exact_instance_of::<PyString>() {
        write_string(out, value.cast::<PyString>()?.to_str()?);
    } else if value.is_none() {
        out.extend_from_slice(b"null");
    } else if value.is_exact_instance_of::<PyInt>() {
        write_integer(out, value)?;
    } else if value.is_exact_instance_of::<PyDict>() {
        out.push(b'{');
        for (index, (key, value)) in value.cast::<PyDict>()?.iter().enumerate() {
            if index > 0 {
                out.push(b',');
            }
            if !key.is_exact_instance_of::<PyString>() {
                return Err(Unknown);
            }
            write_string(out, key.cast::<PyString>()?.to_str()?);
            out.push(b':');
            write(out, &value, classes, depth + 1)?;
        }
        out.push(b'}');
    } else if value.is_exact_instance_of::<PyList>() {
        write_items(out, value.cast::<PyList>()?.iter(), classes, depth)?;
    } else if value.is_exact_instance_of::<PyFloat>() {
        write_float(out, value, classes)?;
    } else if let Ok(truth) = value.cast::<PyBool>() {
        out.extend_from_slice(if truth.is_true() { b"true" } else { b"false" });
    } else if value.is_exact_instance_of::<PyTuple>() {
        write_items(out, value.cast::<PyTuple>()?.iter(), classes, depth)?;
    } else {
        return Err(Unknown);
    }
    Ok(())
}

fn write_items<'py>(
    out: &mut Vec<u8>,
    items: impl Iterator<Item = Bound<'py, PyAny>>,
    classes: &Installation,
    depth: usize,
) -> Result<(), Unknown> {
    out.push(b'[');
    for (index, item) in items.enumerate() {
        if index > 0 {
            out.push(b',');
        }
        write(out, &item, classes, depth + 1)?;
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

/// Writes a float as Pydantic does. All libraries write numbers of usual size alike.
pub(super) fn write_float(
    out: &mut Vec<u8>,
    value: &Bound<'_, PyAny>,
    classes: &Installation,
) -> Result<(), Unknown> {
    let number: f64 = value.extract()?;
    if !number.is_finite() {
        out.extend_from_slice(b"null");
    } else if number == 0.0 || (1e-3..1e15).contains(&number.abs()) {
        serde_json::to_writer(out, &number).map_err(|_| Unknown)?;
    } else {
        let written = classes.to_json.bind(value.py()).call1((value,))?;
        out.extend_from_slice(written.cast::<PyBytes>()?.as_bytes());
    }
    Ok(())
}

/// Python strings by their text, for keys and names, which are repeated.
pub(super) struct StringCache<'py> {
    py: Python<'py>,
    slots: Vec<Option<Bound<'py, PyString>>>,
}

/// Number of cached strings. A power of two.
const SLOTS: usize = 1024;

/// Maximum length of a cached string in bytes; longer ones are hardly repeated.
const LONGEST: usize = 48;

impl<'py> StringCache<'py> {
    pub(super) fn new(py: Python<'py>) -> Self {
        Self { py, slots: vec![None; SLOTS] }
    }

    /// The string of a text that is likely to be repeated.
    pub(super) fn get(&mut self, text: &str) -> Bound<'py, PyString> {
        if text.len() > LONGEST {
            return PyString::new(self.py, text);
        }
        let hash = text.bytes().fold(0xCBF2_9CE4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3)
        });
        let index = usize::try_from(hash ^ (hash >> 32)).unwrap_or_default() & (SLOTS - 1);
        let Some(slot) = self.slots.get_mut(index) else { return PyString::new(self.py, text) };
        match slot {
            Some(cached) if cached.to_str().is_ok_and(|cached| cached == text) => cached.clone(),
            _ => slot.insert(PyString::new(self.py, text)).clone(),
        }
    }
}

const FILES: [&str; 6] = ["image-url", "audio-url", "video-url", "document-url", "binary", "uploaded-file"];

/// Rules of plain values in a history.
struct PlainRules<'s, 'py> {
    strings: &'s mut StringCache<'py>,
    /// True if an object may be a file, which Pydantic would make an object of its own class.
    files: bool,
}

impl<'py> BuildRules<'py> for PlainRules<'_, 'py> {
    const DEPTH: usize = DEPTH;
    const FINITE: bool = false;

    fn key(&mut self, _py: Python<'py>, key: &str) -> Bound<'py, PyString> {
        self.strings.get(key)
    }

    fn accepts(&self, dict: &Bound<'py, PyDict>) -> PyResult<bool> {
        if !self.files {
            return Ok(true);
        }
        let kind = dict.get_item(intern!(dict.py(), "kind"))?;
        let kind = kind.as_ref().and_then(|kind| kind.cast::<PyString>().ok());
        Ok(!kind.is_some_and(|kind| kind.to_str().is_ok_and(|kind| FILES.contains(&kind))))
    }
}

/// Reads valid JSON into plain Python values.
///
/// # Errors
/// [`Unknown`] for deep nesting and, with `files`, for an object that may be a file.
pub(super) fn json_to_plain<'py>(
    strings: &mut StringCache<'py>,
    json: &str,
    files: bool,
) -> Result<Bound<'py, PyAny>, Unknown> {
    Ok(build_value(strings.py, json, PlainRules { strings, files })?)
}
