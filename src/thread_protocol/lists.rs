//! Lists of values from Python arguments.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};

use crate::data::{DataClass, extract};
use crate::error::wrong_type;

/// Values from a list of instances or plain data. Errors name the index.
pub(super) fn list_of<C: DataClass>(values: &Bound<'_, PyAny>, what: &str) -> PyResult<Vec<Arc<C::Value>>> {
    items_of(values, what)?
        .into_iter()
        .enumerate()
        .map(|(place, item)| extract::<C>(&item, &format!("{what}[{place}]")))
        .collect()
}

/// The items of what must be a list, or any other iterable that is neither text nor a dict.
pub(super) fn items_of<'py>(values: &Bound<'py, PyAny>, what: &str) -> PyResult<Vec<Bound<'py, PyAny>>> {
    let refuse = || wrong_type(values, what, "a list");
    if values.is_instance_of::<PyString>() || values.is_instance_of::<PyDict>() {
        return Err(refuse());
    }
    values.try_iter().map_err(|_| refuse())?.collect()
}
