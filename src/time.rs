//! Converts timestamps to Python's `datetime` and back.

use crate::convert::text::text_of;
use crate::error::wrong_type;
use crate::prelude::*;
use pyo3::intern;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyString;

use turntree_core::time::Timestamp;

static EPOCH: PyOnceLock<(Py<PyAny>, Py<PyAny>)> = PyOnceLock::new();

/// An aware `datetime` in UTC.
///
/// # Errors
/// `OverflowError` outside the years 1 to 9999.
pub(crate) fn to_datetime(py: Python<'_>, time: Timestamp) -> PyResult<Bound<'_, PyAny>> {
    let (epoch, delta) = EPOCH.get_or_try_init(py, || -> PyResult<_> {
        let module = py.import(intern!(py, "datetime"))?;
        let utc = module.getattr(intern!(py, "timezone"))?.getattr(intern!(py, "utc"))?;
        let epoch = module.getattr(intern!(py, "datetime"))?.call_method1("fromtimestamp", (0, utc))?;
        Ok((epoch.unbind(), module.getattr(intern!(py, "timedelta"))?.unbind()))
    })?;
    let since = delta.bind(py).call1((0, 0, time.microseconds()))?;
    epoch.bind(py).add(since)
}

/// A timestamp from a `datetime` (UTC if it is naive) or from ISO 8601 text.
///
/// # Errors
/// `TypeError` for another type, `ValueError` for text that is not a timestamp.
pub(crate) fn from_python(value: &Bound<'_, PyAny>, what: &str) -> PyResult<Timestamp> {
    let py = value.py();
    let text = if let Ok(text) = value.cast::<PyString>() {
        text_of::<String>(text, what)?
    } else if let Ok(isoformat) = value.getattr(intern!(py, "isoformat")) {
        isoformat.call0()?.extract()?
    } else {
        return Err(wrong_type(value, what, "a datetime or ISO 8601 text"));
    };
    text.parse().map_err(|error| pyo3::exceptions::PyValueError::new_err(format!("{what}: {error}")))
}
