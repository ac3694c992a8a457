//! Lists of values from Python arguments.

use crate::prelude::*;
use pyo3::types::{PyDict, PyIterator, PyString};

use super::options::owned;
use crate::data::DataClass;
use crate::error::wrong_type;

/// Values from a list of instances or plain data. Errors name the index.
pub(super) fn list_of<C: DataClass<Value: Clone>>(
    values: &Bound<'_, PyAny>,
    what: &str,
) -> PyResult<Vec<C::Value>> {
    let items = items_of(values, what)?.enumerate();
    items.map(|(index, item)| owned::<C>(&item?, &format!("{what}[{index}]"))).collect()
}

/// The items of a list, or of another iterable that is neither text nor a dict. Reads one item at a time: the iterable of a
/// wrong argument may be longer than the memory, such as `range(10**12)`.
pub(super) fn items_of<'py>(values: &Bound<'py, PyAny>, what: &str) -> PyResult<Bound<'py, PyIterator>> {
    let refuse = || wrong_type(values, what, "a list");
    if values.is_instance_of::<PyString>() || values.is_instance_of::<PyDict>() {
        return Err(refuse());
    }
    values.try_iter().map_err(|_| refuse())
}

/// The items up to the first that is not acceptable, which is the last one and is refused where the items are read.
pub(super) fn items_while<'py>(
    items: Bound<'py, PyIterator>,
    is_acceptable: impl Fn(&Bound<'py, PyAny>) -> PyResult<bool>,
) -> PyResult<Vec<Bound<'py, PyAny>>> {
    let mut read = Vec::new();
    for item in items {
        let item = item?;
        let goes_on = is_acceptable(&item)?;
        read.push(item);
        if !goes_on {
            break;
        }
    }
    Ok(read)
}
