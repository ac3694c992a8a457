//! Lists of values from Python arguments.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};

use super::options::owned;
use crate::data::DataClass;
use crate::error::wrong_type;

/// Values from a list of instances or plain data. Errors name the index.
pub(super) fn list_of<C: DataClass<Value: Clone>>(
    values: &Bound<'_, PyAny>,
    what: &str,
) -> PyResult<Vec<C::Value>> {
    let items = items_of(values, what)?.into_iter().enumerate();
    items.map(|(index, item)| owned::<C>(&item, &format!("{what}[{index}]"))).collect()
}

/// The items of a list, or of another iterable that is neither text nor a dict.
pub(super) fn items_of<'py>(values: &Bound<'py, PyAny>, what: &str) -> PyResult<Vec<Bound<'py, PyAny>>> {
    let refuse = || wrong_type(values, what, "a list");
    if values.is_instance_of::<PyString>() || values.is_instance_of::<PyDict>() {
        return Err(refuse());
    }
    values.try_iter().map_err(|_| refuse())?.collect()
}
