//! Records of answered requests in Python's logger `turntree.server`.

use std::fmt;
use std::sync::Arc;

use crate::prelude::*;
use pyo3::intern;
use pyo3::types::PyDict;

use crate::bridge::loop_waker::LoopWaker;
use turntree_server::access_log::{AccessLog, AccessRecord, LOGGER};

/// The level of access records, `logging.INFO`.
const INFO: u8 = 20;

/// Writes records on the event loop's thread. The logger's level is read when the server starts.
pub(super) struct PyAccessLog {
    home: Arc<LoopWaker>,
    is_enabled: bool,
}

impl PyAccessLog {
    pub(super) fn new(py: Python<'_>, home: Arc<LoopWaker>) -> PyResult<Self> {
        let is_enabled = logger(py)?.call_method1(intern!(py, "isEnabledFor"), (INFO,))?.is_truthy()?;
        Ok(Self { home, is_enabled })
    }
}

impl fmt::Debug for PyAccessLog {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("PyAccessLog").field("is_enabled", &self.is_enabled).finish_non_exhaustive()
    }
}

impl AccessLog for PyAccessLog {
    fn is_enabled(&self) -> bool {
        self.is_enabled
    }

    fn write(&self, record: AccessRecord) {
        self.home.call_soon(move |py| {
            if let Err(error) = write(py, &record) {
                error.write_unraisable(py, None);
            }
        });
    }
}

fn write(py: Python<'_>, record: &AccessRecord) -> PyResult<()> {
    let extra = PyDict::new(py);
    extra.set_item(intern!(py, "peer"), &record.peer)?;
    extra.set_item(intern!(py, "method"), record.method.as_str())?;
    extra.set_item(intern!(py, "path"), &record.path)?;
    extra.set_item(intern!(py, "status"), record.status.as_u16())?;
    extra.set_item(intern!(py, "bytes"), record.bytes)?;
    extra.set_item(intern!(py, "duration"), record.duration.as_secs_f64())?;
    extra.set_item(intern!(py, "complete"), record.complete)?;
    let options = PyDict::new(py);
    options.set_item(intern!(py, "extra"), extra)?;
    let arguments = (intern!(py, "%s"), record.to_string());
    logger(py)?.call_method(intern!(py, "info"), arguments, Some(&options)).map(drop)
}

/// Writes an exception of the application's code.
pub(crate) fn exception(py: Python<'_>, message: &str, error: &PyErr) {
    let written = || -> PyResult<()> {
        let options = PyDict::new(py);
        options.set_item(intern!(py, "exc_info"), error.value(py))?;
        let arguments = (intern!(py, "%s"), message);
        logger(py)?.call_method(intern!(py, "error"), arguments, Some(&options)).map(drop)
    };
    if let Err(error) = written() {
        error.write_unraisable(py, None);
    }
}

fn logger(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    py.import(intern!(py, "logging"))?.call_method1(intern!(py, "getLogger"), (LOGGER,))
}
