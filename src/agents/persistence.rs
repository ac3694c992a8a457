//! Stores written in Python: objects with `save`, `load` and `delete`, synchronous or asynchronous.
//!
//! Spec: UAP-1.0 §14.2.

use std::fmt;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use pyo3::prelude::*;
use pyo3::types::{PyString, PyTuple};

use super::call_site::CallSite;
use super::host_conversions::wrong_result;
use crate::bridge::call::{Arguments, Call, CallMode, call};
use crate::bridge::gc::GcRoots;
use crate::bridge::gil;
use crate::python_exception::Raised;
use turntree_core::persistence::{PersistenceAdapter, PersistenceError};

/// A store that a run keeps alive. Its synchronous methods are called in a thread, because they may block.
pub(crate) struct PyPersistence {
    roots: GcRoots,
    index: usize,
    call_site: CallSite,
}

impl PyPersistence {
    /// Adds a store to the objects that a run keeps alive.
    pub(super) fn shared(
        roots: &GcRoots,
        store: Py<PyAny>,
        call_site: CallSite,
    ) -> Arc<dyn PersistenceAdapter> {
        let index = roots.add(store);
        Arc::new(Self { roots: roots.clone(), index, call_site })
    }

    fn start(&self, method: &str, arguments: &[&str]) -> PyResult<Call> {
        gil::require_held(|py| {
            let callable = self.roots.get(py, self.index)?.getattr(method)?;
            let mode = CallMode::of(&callable, false)?;
            let positional = PyTuple::new(py, arguments)?.unbind();
            let arguments = Arguments { positional, keywords: None };
            Ok(call(callable.unbind(), arguments, mode, &self.call_site.caller(py)?))
        })
    }

    fn call_method<T: Send + 'static>(
        &self,
        method: &'static str,
        arguments: &[&str],
        read: fn(&Bound<'_, PyAny>) -> PyResult<T>,
    ) -> BoxFuture<'_, Result<T, PersistenceError>> {
        let key = arguments.first().copied().unwrap_or_default().to_owned();
        let started = self.start(method, arguments);
        Box::pin(async move {
            let answer = async { started?.await }.await;
            let read = gil::require_held(|py| read(answer?.bind(py)));
            read.map_err(|error| failed(method, &key, error))
        })
    }
}

fn failed(method: &str, key: &str, error: PyErr) -> PersistenceError {
    let error = gil::if_held(|py| {
        let message = format!("{method} of \"{key}\" failed: {}", error.value(py));
        PersistenceError { message, payload: Some(Arc::new(Raised::new(py, error))) }
    });
    error.unwrap_or_else(|| PersistenceError::new(format!("{method} of \"{key}\" failed")))
}

impl fmt::Debug for PyPersistence {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("PyPersistence")
    }
}

impl PersistenceAdapter for PyPersistence {
    fn save(&self, key: String, data: String) -> BoxFuture<'_, Result<(), PersistenceError>> {
        self.call_method("save", &[&key, &data], |_| Ok(()))
    }

    fn load(&self, key: String) -> BoxFuture<'_, Result<Option<String>, PersistenceError>> {
        self.call_method("load", &[&key], |answer| {
            if answer.is_none() {
                return Ok(None);
            }
            let Ok(text) = answer.cast::<PyString>() else {
                return Err(wrong_result(answer, "load", "a str or None"));
            };
            Ok(Some(text.to_str()?.to_owned()))
        })
    }

    fn delete(&self, key: String) -> BoxFuture<'_, Result<(), PersistenceError>> {
        self.call_method("delete", &[&key], |_| Ok(()))
    }
}
