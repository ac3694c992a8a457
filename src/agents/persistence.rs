//! Stores that are Python objects: anything with `save`, `load` and `delete`, sync or async. UAP-1.0 §14.2.

use std::fmt;
use std::sync::Arc;

use futures_util::future::{BoxFuture, ready};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyString, PyTuple};

use super::call_site::CallSite;
use crate::bridge::call::{Arguments, Call, CallMode, call};
use crate::bridge::gc::GcRoots;
use crate::bridge::gil;
use crate::raised::Raised;
use turntree_core::persistence::{PersistenceAdapter, PersistenceError};

/// A store that a run keeps at a place of its [`GcRoots`]. Its synchronous methods are called in a thread: they may block.
pub(crate) struct PyPersistence {
    kept: GcRoots,
    index: usize,
    call_site: Arc<CallSite>,
}

impl PyPersistence {
    /// The store at this place of what a run keeps.
    pub(crate) const fn new(kept: GcRoots, index: usize, call_site: Arc<CallSite>) -> Self {
        Self { kept, index, call_site }
    }

    fn start(&self, method: &str, arguments: &[&str]) -> PyResult<Call> {
        gil::require_held(|py| {
            let callable = self.kept.get(py, self.index)?.getattr(method)?;
            let mode = CallMode::of(&callable, false)?;
            let positional = PyTuple::new(py, arguments)?.unbind();
            let arguments = Arguments { positional, keywords: None };
            Ok(call(callable.unbind(), arguments, mode, &self.call_site.caller(py)?))
        })
    }

    fn ask<T: Send + 'static>(
        &self,
        method: &'static str,
        arguments: &[&str],
        read: fn(&Bound<'_, PyAny>) -> PyResult<T>,
    ) -> BoxFuture<'_, Result<T, PersistenceError>> {
        let key = arguments.first().copied().unwrap_or_default().to_owned();
        let started = match self.start(method, arguments) {
            Ok(started) => started,
            Err(error) => return Box::pin(ready(Err(failed(method, &key, error)))),
        };
        Box::pin(async move {
            let answer = started.await;
            let read = gil::require_held(|py| answer.and_then(|answer| read(answer.bind(py))));
            read.map_err(|error| failed(method, &key, error))
        })
    }
}

fn failed(method: &str, key: &str, error: PyErr) -> PersistenceError {
    let told = gil::if_held(|py| {
        let message = format!("{method} of \"{key}\" failed: {}", error.value(py));
        PersistenceError { message, payload: Some(Arc::new(Raised::new(py, error))) }
    });
    told.unwrap_or_else(|| PersistenceError::new(format!("{method} of \"{key}\" failed")))
}

impl fmt::Debug for PyPersistence {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("PyPersistence")
    }
}

impl PersistenceAdapter for PyPersistence {
    fn save(&self, key: String, data: String) -> BoxFuture<'_, Result<(), PersistenceError>> {
        self.ask("save", &[&key, &data], |_| Ok(()))
    }

    fn load(&self, key: String) -> BoxFuture<'_, Result<Option<String>, PersistenceError>> {
        self.ask("load", &[&key], |answer| {
            if answer.is_none() {
                return Ok(None);
            }
            let Ok(text) = answer.cast::<PyString>() else {
                let found = answer.get_type().name()?;
                return Err(PyTypeError::new_err(format!("load must give a str or None, not {found}")));
            };
            Ok(Some(text.to_str()?.to_owned()))
        })
    }

    fn delete(&self, key: String) -> BoxFuture<'_, Result<(), PersistenceError>> {
        self.ask("delete", &[&key], |_| Ok(()))
    }
}
