//! Python functions behind models: called from Rust closures, and shown to the garbage collector.
//!
//! A model that asks a function for its replies or for its key may lead back to whoever owns it
//! (`self.agent = agent(model=openai("…", api_key=self.key))`). The function is held once, by a [`PyCallback`] that
//! closures share; exactly one Python object visits it, the one that was given the function. Whatever uses a model
//! keeps that object alive.

use std::sync::{Arc, Mutex};

use pyo3::exceptions::PyReferenceError;
use pyo3::prelude::*;
use pyo3::pyclass::{PyTraverseError, PyVisit};
use pyo3::types::PyTuple;

use super::call::{Arguments, Call, CallMode, call};
use super::context::CallerContext;
use super::gc::Collect;
use super::gil::lock;

/// A function of the application; see the module's words.
pub(crate) struct PyCallback {
    callable: Mutex<Option<Py<PyAny>>>,
    mode: CallMode,
}

impl PyCallback {
    /// Holds a function that can be called.
    pub(crate) fn new(callable: &Bound<'_, PyAny>) -> PyResult<Arc<Self>> {
        Ok(Self::with_mode(callable, CallMode::of(callable, true)?))
    }

    /// Holds a function that runs in a thread unless it is async: it may wait.
    pub(crate) fn patient(callable: &Bound<'_, PyAny>) -> PyResult<Arc<Self>> {
        Ok(Self::with_mode(callable, CallMode::of(callable, false)?))
    }

    fn with_mode(callable: &Bound<'_, PyAny>, mode: CallMode) -> Arc<Self> {
        Arc::new(Self { callable: Mutex::new(Some(callable.clone().unbind())), mode })
    }

    /// Whether it must be awaited.
    pub(crate) fn is_async(&self) -> bool {
        self.mode == CallMode::Task
    }

    /// The function itself.
    ///
    /// # Errors
    /// `ReferenceError` when the collector has cleared it.
    pub(crate) fn bound<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let callable = lock(&self.callable).as_ref().map(|callable| callable.bind(py).clone());
        callable.ok_or_else(|| PyReferenceError::new_err("the function has been collected"))
    }

    /// Calls it where the model is polled: on the caller's event loop, or on the thread of `run_sync`.
    ///
    /// # Errors
    /// `ReferenceError` when the collector has cleared it.
    pub(crate) fn call(&self, py: Python<'_>, positional: Py<PyTuple>) -> PyResult<Call> {
        self.call_from(py, positional, &CallerContext::capture(py)?)
    }

    /// Calls it on the event loop and with the context variables of `caller`.
    ///
    /// # Errors
    /// `ReferenceError` when the collector has cleared it.
    pub(crate) fn call_from(
        &self,
        py: Python<'_>,
        positional: Py<PyTuple>,
        caller: &CallerContext,
    ) -> PyResult<Call> {
        let callable = self.bound(py)?.unbind();
        Ok(call(callable, Arguments { positional, keywords: None }, self.mode, caller))
    }
}

/// What the collector must see of a model, of a configuration or of a source of keys.
#[derive(Default)]
pub(crate) struct Callbacks {
    /// Functions that this object was given.
    pub(crate) functions: Vec<Arc<PyCallback>>,
    /// Objects that were given theirs.
    pub(crate) objects: Vec<Py<PyAny>>,
}

impl Collect for PyCallback {
    fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.callable.traverse(visit)
    }

    fn clear(&self) {
        self.callable.clear();
    }
}

impl Collect for Callbacks {
    fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.functions.traverse(visit)?;
        self.objects.traverse(visit)
    }

    fn clear(&self) {
        self.functions.clear();
    }
}
