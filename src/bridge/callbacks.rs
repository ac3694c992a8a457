//! Python functions that Rust closures call, visible to the garbage collector.
//!
//! A model that calls a function for its replies or its key can be part of a reference cycle
//! (`self.agent = agent(model=openai("…", api_key=self.key))`). Closures share the function in a [`PyCallback`]. One Python
//! object visits it: the one that received the function. Every user of the model keeps that object alive.

use std::sync::{Arc, Mutex};

use crate::prelude::*;
use pyo3::exceptions::PyReferenceError;
use pyo3::pyclass::{PyTraverseError, PyVisit};
use pyo3::types::PyTuple;

use super::call::{Arguments, Call, CallMode, call};
use super::context::CallerContext;
use super::gc::{Collect, GcRoots};
use super::gil::{self, lock};

/// A Python function and how to call it. Empty after the garbage collector cleared it.
pub(crate) struct PyCallback {
    callable: Mutex<Option<Py<PyAny>>>,
    mode: CallMode,
}

impl PyCallback {
    /// A callback that runs where it is called, or as a task if it is async.
    pub(crate) fn new(callable: &Bound<'_, PyAny>) -> PyResult<Arc<Self>> {
        Ok(Self::with_mode(callable, CallMode::of(callable, true)?))
    }

    /// A callback that runs in a thread, because it may block, or as a task if it is async.
    pub(crate) fn patient(callable: &Bound<'_, PyAny>) -> PyResult<Arc<Self>> {
        Ok(Self::with_mode(callable, CallMode::of(callable, false)?))
    }

    fn with_mode(callable: &Bound<'_, PyAny>, mode: CallMode) -> Arc<Self> {
        Arc::new(Self { callable: Mutex::new(Some(callable.clone().unbind())), mode })
    }

    /// Whether the function is async.
    pub(crate) fn is_async(&self) -> bool {
        self.mode == CallMode::Task
    }

    /// The function itself.
    ///
    /// # Errors
    /// `ReferenceError` if the collector has cleared it.
    pub(crate) fn bound<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let callable = lock(&self.callable).as_ref().map(|callable| callable.bind(py).clone());
        callable.ok_or_else(|| PyReferenceError::new_err("the function has been collected"))
    }

    /// Calls it on the running event loop, or on this thread in `run_sync`.
    ///
    /// # Errors
    /// `ReferenceError` if the collector has cleared it.
    pub(crate) fn call(&self, py: Python<'_>, positional: Py<PyTuple>) -> PyResult<Call> {
        self.call_from(py, positional, &CallerContext::capture(py)?)
    }

    /// Calls it on the event loop and with the context variables of `caller`.
    ///
    /// # Errors
    /// `ReferenceError` if the collector has cleared it.
    pub(crate) fn call_from(
        &self,
        py: Python<'_>,
        positional: Py<PyTuple>,
        caller: &CallerContext,
    ) -> PyResult<Call> {
        let callable = self.bound(py)?.unbind();
        Ok(call(callable, Arguments { positional, keywords: None }, self.mode, caller))
    }

    /// Calls it when the future is first polled, and converts its return value. Poll it with the GIL held.
    ///
    /// # Errors
    /// The exceptions of the function and of the conversions.
    pub(crate) async fn call_and_read<T>(
        &self,
        arguments: impl for<'py> FnOnce(Python<'py>) -> PyResult<Bound<'py, PyTuple>> + Send,
        read: impl FnOnce(&Bound<'_, PyAny>) -> PyResult<T> + Send,
    ) -> PyResult<T> {
        let call = gil::require_held(|py| self.call(py, arguments(py)?.unbind()))?;
        let value = call.await;
        gil::require_held(|py| read(value?.bind(py)))
    }
}

/// The functions and objects that a model, a configuration or a key strategy refers to, for the garbage collector.
#[derive(Default)]
pub(crate) struct Callbacks {
    /// Functions that this object received.
    pub(crate) functions: Vec<Arc<PyCallback>>,
    /// Objects that hold their own functions.
    pub(crate) objects: Vec<Py<PyAny>>,
    /// Objects that a server's application shares with this object.
    pub(crate) roots: GcRoots,
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
        self.objects.traverse(visit)?;
        self.roots.traverse(visit)
    }

    fn clear(&self) {
        self.functions.clear();
        self.roots.clear();
    }
}
