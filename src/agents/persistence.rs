//! Stores written in Python: objects with `save`, `load` and `delete`, synchronous or asynchronous.
//!
//! Spec: UAP-1.0 §14.2.

use std::fmt;
use std::sync::Arc;

use crate::prelude::*;
use futures_util::future::BoxFuture;
use pyo3::types::{PyString, PyTuple};

use super::call_site::{CallSite, RunMode};
use super::host_conversions::wrong_result;
use crate::bridge::call::{Arguments, Call, CallMode, call};
use crate::bridge::gc::GcRoots;
use crate::bridge::gil;
use crate::convert::text::document_str;
use crate::error::{class, named};
use crate::python_exception::Raised;
use crate::store::store::StoreCore;
use turntree_agents::session::{KeyValueStore, SessionStore};
use turntree_core::persistence::{PersistenceAdapter, PersistenceError, PersistenceErrorKind};

/// A store that a run keeps alive. Its synchronous methods are called in a thread, because they may block.
pub(crate) struct PyPersistence {
    roots: GcRoots,
    index: usize,
    call_site: CallSite,
    /// True if the store has the method `compare_and_save`.
    compares: bool,
}

/// Returns the native half of a store of turntree; `None` for another object.
pub(crate) fn native_store<'py>(store: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, StoreCore>>> {
    let native = store.getattr_opt("_native")?;
    Ok(native.and_then(|native| native.cast_into::<StoreCore>().ok()))
}

impl PyPersistence {
    /// Returns a store as the port of sessions. A store of turntree needs no Python; another one is added to the objects
    /// that a run keeps alive.
    pub(super) fn session_store(
        roots: &GcRoots,
        store: &Bound<'_, PyAny>,
        call_site: CallSite,
    ) -> PyResult<Arc<dyn SessionStore>> {
        if let Some(native) = native_store(store)? {
            return Ok(native.get().session_store());
        }
        Ok(Arc::new(KeyValueStore::new(Arc::new(Self::new(roots, store, call_site)?))))
    }

    /// A store that is not one of turntree, for the event loop that polls its operations.
    ///
    /// # Errors
    /// The exceptions of inspecting the store.
    pub(crate) fn on_running_loop(roots: &GcRoots, store: &Bound<'_, PyAny>) -> PyResult<Self> {
        let site = CallSite::new(store.py(), RunMode::Streamed { on_loop: true })?;
        Self::new(roots, store, site)
    }

    fn new(roots: &GcRoots, store: &Bound<'_, PyAny>, call_site: CallSite) -> PyResult<Self> {
        let compares = store.hasattr("compare_and_save")?;
        let index = roots.add(store.clone().unbind());
        Ok(Self { roots: roots.clone(), index, call_site, compares })
    }

    fn start(
        &self,
        method: &str,
        arguments: impl FnOnce(Python<'_>) -> PyResult<Py<PyTuple>>,
    ) -> PyResult<Call> {
        gil::require_held(|py| {
            let callable = self.roots.get(py, self.index)?.getattr(method)?;
            let mode = CallMode::of(&callable, false)?;
            let arguments = Arguments { positional: arguments(py)?, keywords: None };
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
        let started = self.start(method, |py| Ok(PyTuple::new(py, arguments)?.unbind()));
        Self::finish(method, key, started, read)
    }

    fn finish<'a, T: Send + 'static>(
        method: &'static str,
        key: String,
        started: PyResult<Call>,
        read: fn(&Bound<'_, PyAny>) -> PyResult<T>,
    ) -> BoxFuture<'a, Result<T, PersistenceError>> {
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
        let kind = kind_of(py, &error);
        let payload = Some(Arc::new(Raised::new(py, error)) as _);
        PersistenceError { kind, payload, ..PersistenceError::new(message) }
    });
    error.unwrap_or_else(|| PersistenceError::new(format!("{method} of \"{key}\" failed")))
}

/// What the caller can do about an exception of a store: the store can raise the exceptions of the package.
fn kind_of(py: Python<'_>, error: &PyErr) -> PersistenceErrorKind {
    let is = |name| class(py, name).is_ok_and(|class| error.value(py).is_instance(&class).unwrap_or(false));
    if is("ConflictError") {
        PersistenceErrorKind::Conflict
    } else if is("CorruptDataError") {
        PersistenceErrorKind::Corrupt
    } else {
        PersistenceErrorKind::Other
    }
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
            let text = document_str(text).map_err(|error| {
                let py = text.py();
                named(py, "CorruptDataError", &format!("the text that load returned: {}", error.value(py)))
            });
            text.map(|text| Some(text.to_owned()))
        })
    }

    fn compares(&self) -> bool {
        self.compares
    }

    fn compare_and_save(
        &self,
        key: String,
        expected: Option<String>,
        data: String,
    ) -> BoxFuture<'_, Result<bool, PersistenceError>> {
        let started = self.start("compare_and_save", |py| {
            Ok(PyTuple::new(
                py,
                [
                    key.as_str().into_pyobject(py)?.into_any(),
                    data.as_str().into_pyobject(py)?.into_any(),
                    expected.as_deref().into_pyobject(py)?,
                ],
            )?
            .unbind())
        });
        Self::finish("compare_and_save", key.clone(), started, |answer| {
            answer.extract::<bool>().map_err(|_| wrong_result(answer, "compare_and_save", "a bool"))
        })
    }

    fn delete(&self, key: String) -> BoxFuture<'_, Result<(), PersistenceError>> {
        self.call_method("delete", &[&key], |_| Ok(()))
    }
}
