//! The exceptions that tools of a run raise: the text for the model, the log record and the objects for the turn.
//!
//! The core stores texts only. A turn holds the exception objects of its run, so that their frames are freed with it.

use std::sync::{Arc, OnceLock};

use crate::prelude::*;
use pyo3::exceptions::PyKeyError;
use pyo3::intern;
use pyo3::types::PyDict;

use super::host_conversions::exception_of;
use crate::bridge::gc::GcRoots;
use crate::bridge::gil;
use turntree_agents::host::{HostError, HostErrorKind};

const LOGGER: &str = "turntree.tools";

/// The exceptions of a run by the id of the tool call, in the run's roots.
#[derive(Clone)]
pub(super) struct ToolExceptions {
    roots: GcRoots,
    /// The index of the dict in the roots, once a tool has raised.
    index: Arc<OnceLock<usize>>,
}

impl ToolExceptions {
    pub(super) fn new(roots: &GcRoots) -> Self {
        Self { roots: roots.clone(), index: Arc::default() }
    }

    /// Stores and logs the exception of a call; a tool that asks for another call has not failed, so that is not logged.
    /// Returns the error with the text for the model.
    pub(super) fn record(&self, tool: &str, call_id: &str, error: HostError) -> HostError {
        let is_failure = error.kind == HostErrorKind::Raised;
        if !is_failure && error.kind != HostErrorKind::Retry {
            return error;
        }
        let message = gil::if_held(|py| {
            let exception = exception_of(py, &error).into_bound(py);
            // Neither a failure of the log nor of the dict may replace the result of the tool.
            let logged = if is_failure { log(tool, &exception) } else { Ok(()) };
            for failed in [logged, self.store(call_id, &exception)] {
                failed.unwrap_or_else(|failure| failure.write_unraisable(py, None));
            }
            is_key_error(&exception).then(|| format!("{}: {}", error.type_name, error.message))
        });
        match message.flatten() {
            Some(message) => HostError { message, ..error },
            None => error,
        }
    }

    fn store(&self, call_id: &str, exception: &Bound<'_, PyAny>) -> PyResult<()> {
        let py = exception.py();
        let index = self.index.get_or_init(|| self.roots.add(PyDict::new(py).into_any().unbind()));
        self.roots.get(py, *index)?.set_item(call_id, exception)
    }

    /// Returns a dict of the exceptions; `None` if no tool has raised, or if the run was collected.
    pub(super) fn by_call(&self, py: Python<'_>) -> Option<Py<PyDict>> {
        let dict = self.roots.get(py, *self.index.get()?).ok()?;
        dict.cast_into::<PyDict>().ok()?.copy().ok().map(Bound::unbind)
    }
}

/// True for a `KeyError`, whose text is only the key.
fn is_key_error(exception: &Bound<'_, PyAny>) -> bool {
    let py = exception.py();
    let text = intern!(py, "__str__");
    let own = exception.get_type().getattr(text);
    let builtin = py.get_type::<PyKeyError>().getattr(text);
    matches!((own, builtin), (Ok(own), Ok(builtin)) if own.is(&builtin))
        && exception.is_instance_of::<PyKeyError>()
}

/// Logs the exception with its traceback at level WARNING.
fn log(tool: &str, exception: &Bound<'_, PyAny>) -> PyResult<()> {
    let py = exception.py();
    let logger = py.import("logging")?.call_method1("getLogger", (LOGGER,))?;
    let keywords = PyDict::new(py);
    keywords.set_item("exc_info", exception)?;
    logger.call_method(
        "warning",
        ("tool %r raised an exception; the model reads its text", tool),
        Some(&keywords),
    )?;
    Ok(())
}
