//! Texts of Python as UTF-8. A `str` may hold lone surrogates, which UTF-8 cannot represent.

use std::borrow::Cow;

use pyo3::exceptions::PyUnicodeEncodeError;
use pyo3::intern;
use pyo3::types::{PyBytes, PyString};

use crate::convert::error::refused_argument;
use crate::error::ToException as _;
use crate::prelude::*;
use turntree_core::json::{ParseError, PathSegment};

/// The rule that a `str` breaks which cannot be written as UTF-8, and what to do.
const LONE_SURROGATE: &str = "lone surrogate; JSON is UTF-8: decode the source with errors=\"replace\"";

/// Reads a text, or a value with texts; `what` names it in errors.
///
/// # Errors
/// `turntree.ValidationError` for lone surrogates; the error of the type for other values.
pub(crate) fn text_of<'a, 'py, T: FromPyObject<'a, 'py>>(
    value: &'a Bound<'py, PyAny>,
    what: &str,
) -> PyResult<T> {
    value.extract::<T>().map_err(|error| refused_text(value.py(), error.into(), &[], what))
}

/// The exception for an error of reading a text: `turntree.ValidationError` for lone surrogates, others unchanged. `path`
/// is the place below the argument, and `what` its name.
pub(crate) fn refused_text(py: Python<'_>, error: PyErr, path: &[PathSegment], what: &str) -> PyErr {
    match rule(py, &error) {
        Some(rule) => {
            refused_argument(py, &ParseError { path: path.to_vec(), ..ParseError::encoding(rule) }, what)
        }
        None => error,
    }
}

/// A document that is given as `str`.
///
/// # Errors
/// `turntree.ValidationError` for a text with unpaired surrogates, as for bytes that are not UTF-8. It names the index of
/// the first one.
pub(crate) fn document_str<'a>(text: &'a Bound<'_, PyString>) -> PyResult<&'a str> {
    let py = text.py();
    text.to_str().map_err(|error| match rule(py, &error) {
        Some(rule) => ParseError::encoding(rule).to_exception(py),
        None => error,
    })
}

/// A text for a repr: quoted and escaped, at most the first 200 characters.
pub(crate) fn quoted(text: &str) -> String {
    const LONGEST: usize = 200;
    format!("{:?}", beginning(text, LONGEST))
}

/// The beginning of a text, with a mark if it is cut.
pub(crate) fn beginning(text: &str, longest: usize) -> Cow<'_, str> {
    let end = text.char_indices().nth(longest).and_then(|(end, _)| text.get(..end));
    end.map_or(Cow::Borrowed(text), |beginning| Cow::Owned(format!("{beginning}…")))
}

/// What is wrong with a text, and where; `None` for an exception that is not about the text.
fn rule(py: Python<'_>, error: &PyErr) -> Option<String> {
    if !error.is_instance_of::<PyUnicodeEncodeError>(py) {
        return None;
    }
    let index = error.value(py).getattr(intern!(py, "start")).ok()?;
    Some(format!("the character at index {index} is a {LONE_SURROGATE}"))
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
