//! Stores one conversation through a Python object.

use std::sync::Arc;

use crate::prelude::*;
use futures_util::future::BoxFuture;
use pyo3::exceptions::PyTypeError;
use pyo3::types::{PyDict, PyTuple};

use crate::bridge::callbacks::{Callbacks, PyCallback};
use crate::bridge::gil;
use crate::data::{DataClass as _, extract};
use crate::thread::{SharedThread, Thread, history_from};
use turntree_core::ids::RandomIds;
use turntree_core::message::Thread as CoreThread;
use turntree_core::time::SystemClock;
use turntree_upp::UppError;
use turntree_upp::middleware::PersistenceAdapter;

/// An object with `id`, `load(id)` and `save(id, thread)`; both methods may be async.
pub(super) struct PyAdapter {
    id: String,
    load: Arc<PyCallback>,
    save: Arc<PyCallback>,
}

impl PyAdapter {
    /// # Errors
    /// `TypeError` if one of the three is missing.
    pub(super) fn new(adapter: &Bound<'_, PyAny>, held: &mut Callbacks) -> PyResult<Self> {
        let missing = |what: &str| {
            let found = adapter.get_type().name().map(|name| name.to_string()).unwrap_or_default();
            PyTypeError::new_err(format!(
                "adapter of persistence must have id, load(id) and save(id, thread); {found} has no {what}"
            ))
        };
        let id = adapter.getattr_opt("id")?.and_then(|id| id.extract::<String>().ok());
        let mut function = |name: &str| -> PyResult<Arc<PyCallback>> {
            let callable = adapter.getattr_opt(name)?.filter(PyAnyMethods::is_callable);
            let function = PyCallback::new(&callable.ok_or_else(|| missing(name))?)?;
            held.functions.push(Arc::clone(&function));
            Ok(function)
        };
        let (load, save) = (function("load")?, function("save")?);
        Ok(Self { id: id.ok_or_else(|| missing("id, a str,"))?, load, save })
    }
}

fn raised(py: Python<'_>, error: PyErr) -> UppError {
    crate::upp::error::from_exception(py, error)
}

fn away_from_python(error: &PyErr) -> UppError {
    UppError::invalid_request("", error.to_string())
}

/// A thread from a handle, from its dict, or from a list of messages.
fn thread_from(value: &Bound<'_, PyAny>, id: &str) -> PyResult<Option<CoreThread>> {
    if value.is_none() {
        return Ok(None);
    }
    let is_thread = value.is_instance_of::<Thread>()
        || value.cast::<PyDict>().is_ok_and(|dict| dict.contains("createdAt").unwrap_or(false));
    if is_thread {
        return Ok(Some(extract::<Thread>(value, "what load gave")?.read()?));
    }
    let messages = history_from(value, "what load gave")?;
    let thread = CoreThread::new(messages, &RandomIds, &SystemClock);
    Ok(Some(CoreThread { id: id.to_owned(), ..thread }))
}

impl PersistenceAdapter for PyAdapter {
    fn id(&self) -> &str {
        &self.id
    }

    fn load(&self) -> BoxFuture<'_, Result<Option<CoreThread>, UppError>> {
        Box::pin(async move {
            let started =
                gil::require_held(|py| self.load.call(py, PyTuple::new(py, [self.id.as_str()])?.unbind()));
            let loaded = match started {
                Ok(call) => call.await,
                Err(error) => Err(error),
            };
            let read = gil::require_held(|py| {
                let thread = loaded.and_then(|value| thread_from(value.bind(py), &self.id));
                Ok(thread.map_err(|error| raised(py, error)))
            });
            read.unwrap_or_else(|error| Err(away_from_python(&error)))
        })
    }

    fn save(&self, thread: CoreThread) -> BoxFuture<'_, Result<(), UppError>> {
        Box::pin(async move {
            let started = gil::require_held(|py| {
                let thread = Thread::wrap(py, Arc::new(SharedThread::new(thread)))?;
                self.save.call(py, (self.id.as_str(), thread).into_pyobject(py)?.unbind())
            });
            let saved = match started {
                Ok(call) => call.await,
                Err(error) => Err(error),
            };
            let read = gil::require_held(|py| Ok(saved.map(drop).map_err(|error| raised(py, error))));
            read.unwrap_or_else(|error| Err(away_from_python(&error)))
        })
    }
}
