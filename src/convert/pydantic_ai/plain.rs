//! Plain Python values as the JSON that Pydantic writes, and JSON as plain Python values.

use crate::prelude::*;
use pyo3::intern;
use pyo3::types::{PyBool, PyBytes, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple};

use super::Unknown;
use super::classes::Installation;
use crate::convert::budget::{Budget, Exceeded};
use crate::convert::json::{BuildRules, build_value, limits};
use turntree_core::json::canonical::write_string;

/// Maximum depth: the recursion fits the stack of any thread. Pydantic's maximum is a little higher.
const DEPTH: usize = 150;

/// Writes a value of a plain type.
///
/// # Errors
/// [`Unknown`] for every other type, for keys that are not strings, for text with half surrogates, for deep nesting, and
/// for more data than the budget allows, which [`PlainBudget::exceeded`] tells.
pub(super) fn write(
    out: &mut Vec<u8>,
    value: &Bound<'_, PyAny>,
    classes: &Installation,
    budget: &mut PlainBudget,
) -> Result<(), Unknown> {
    write_value(out, value, classes, budget, (0, false))
}

/// What may still be written, and the limit that was exceeded.
pub(super) struct PlainBudget {
    budget: Budget,
    exceeded: Option<Exceeded>,
}

impl PlainBudget {
    pub(super) fn new() -> Self {
        Self { budget: Budget::new(limits()), exceeded: None }
    }

    pub(super) const fn exceeded(&self) -> Option<Exceeded> {
        self.exceeded
    }

    fn item(&mut self, index: usize, written: usize) -> Result<(), Unknown> {
        let counted = self.budget.item(index, written);
        self.checked(counted)
    }

    fn open(&mut self, object: &Bound<'_, PyAny>, is_copied: bool) -> Result<bool, Unknown> {
        let counted = self.budget.open(object, is_copied);
        self.checked(counted)
    }

    fn checked<T>(&mut self, counted: Result<T, Exceeded>) -> Result<T, Unknown> {
        counted.map_err(|exceeded| {
            self.exceeded = Some(exceeded);
            Unknown
        })
    }
}

/// Writes a value `depth` levels down; `is_copy` says whether an object around it was written before.
fn write_value(
    out: &mut Vec<u8>,
    value: &Bound<'_, PyAny>,
    classes: &Installation,
    budget: &mut PlainBudget,
    (depth, is_copy): (usize, bool),
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
        let is_copy = budget.open(value, is_copy)?;
        out.push(b'{');
        for (index, (key, value)) in value.cast::<PyDict>()?.iter().enumerate() {
            budget.item(index, out.len())?;
            if index > 0 {
                out.push(b',');
            }
            if !key.is_exact_instance_of::<PyString>() {
                return Err(Unknown);
            }
            write_string(out, key.cast::<PyString>()?.to_str()?);
            out.push(b':');
            write_value(out, &value, classes, budget, (depth + 1, is_copy))?;
        }
        out.push(b'}');
    } else if value.is_exact_instance_of::<PyList>() {
        let is_copy = budget.open(value, is_copy)?;
        write_items(out, value.cast::<PyList>()?.iter(), classes, budget, (depth, is_copy))?;
    } else if value.is_exact_instance_of::<PyFloat>() {
        write_float(out, value, classes)?;
    } else if let Ok(truth) = value.cast::<PyBool>() {
        out.extend_from_slice(if truth.is_true() { b"true" } else { b"false" });
    } else if value.is_exact_instance_of::<PyTuple>() {
        let is_copy = budget.open(value, is_copy)?;
        write_items(out, value.cast::<PyTuple>()?.iter(), classes, budget, (depth, is_copy))?;
    } else {
        return Err(Unknown);
    }
    Ok(())
}

fn write_items<'py>(
    out: &mut Vec<u8>,
    items: impl Iterator<Item = Bound<'py, PyAny>>,
    classes: &Installation,
    budget: &mut PlainBudget,
    (depth, is_copy): (usize, bool),
) -> Result<(), Unknown> {
    out.push(b'[');
    for (index, item) in items.enumerate() {
        budget.item(index, out.len())?;
        if index > 0 {
            out.push(b',');
        }
        write_value(out, &item, classes, budget, (depth + 1, is_copy))?;
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
