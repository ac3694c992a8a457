//! Logs the parts that requests omit, to Python's logger `turntree.upp` at level DEBUG.

use crate::prelude::*;
use pyo3::intern;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyDict;

use crate::bridge::gil;
use turntree_upp::omissions::{Omission, OmissionObserver, set_omission_observer};

const LOGGER: &str = "turntree.upp";

/// `logging.DEBUG`
const DEBUG: u8 = 10;

/// Logs omitted parts, if `logging` is imported and the level is enabled.
struct Logger;

impl OmissionObserver for Logger {
    fn is_enabled(&self) -> bool {
        let listens =
            gil::if_held(|py| logger(py)?.call_method1(intern!(py, "isEnabledFor"), (DEBUG,))?.is_truthy());
        matches!(listens, Some(Ok(true)))
    }

    fn omitted(&self, omission: &Omission) {
        let Omission { made_by, made_by_model, message_id, provider, model_id } = omission;
        let words = "opaque parts of message %s, made by %s:%s, are not sent to %s:%s";
        // An error of the logger must not fail the request.
        let _ = gil::if_held(|py| {
            let arguments = (words, message_id, made_by, made_by_model, provider, model_id);
            logger(py)?.call_method1(intern!(py, "debug"), arguments).map(drop)
        });
    }
}

/// The logger; an error if `logging` is not imported, because then it has no handlers.
fn logger(py: Python<'_>) -> PyResult<&Bound<'_, PyAny>> {
    // Stored: every request asks whether it is enabled, and an import takes longer than the rest of the question.
    static LOGGER_OBJECT: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let logger = LOGGER_OBJECT.get_or_try_init(py, || {
        let modules = py.import("sys")?.getattr("modules")?.cast_into::<PyDict>()?;
        let logging = modules
            .get_item("logging")?
            .ok_or_else(|| pyo3::exceptions::PyLookupError::new_err("logging is not imported"))?;
        Ok::<_, PyErr>(logging.call_method1("getLogger", (LOGGER,))?.unbind())
    })?;
    Ok(logger.bind(py))
}

/// Registers the observer of omitted parts, for the lifetime of the process.
pub(crate) fn install() {
    // A second import of the module finds the observer of the first, which does the same.
    let _ = set_omission_observer(Box::new(Logger));
}
