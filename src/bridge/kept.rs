//! Python objects that a run owns and the garbage collector may see.
//!
//! A Rust future is opaque to Python's collector. When it holds an object that leads back to its own coroutine or
//! stream (`self.stream = self.agent.stream(..)`, with a method of `self` among the tools), the cycle would live for
//! ever. Such objects go into a [`Kept`], which the future and its coroutine share.

use std::sync::{Arc, Mutex};

use pyo3::exceptions::PyReferenceError;
use pyo3::prelude::*;
use pyo3::pyclass::{PyTraverseError, PyVisit};

use super::guard::lock;

/// See the module's first paragraph. Cloning shares; give one `Kept` to one coroutine or stream only, because the
/// collector counts every reference once.
#[derive(Clone, Default)]
pub(crate) struct Kept(Arc<Mutex<Vec<Py<PyAny>>>>);

impl Kept {
    /// Keeps `objects`, in this order.
    pub(crate) fn new(objects: impl IntoIterator<Item = Py<PyAny>>) -> Self {
        Self(Arc::new(Mutex::new(objects.into_iter().collect())))
    }

    /// Keeps one more object and gives its index.
    pub(crate) fn add(&self, object: Py<PyAny>) -> usize {
        let mut objects = lock(&self.0);
        objects.push(object);
        objects.len() - 1
    }

    /// The object at `index`.
    ///
    /// # Errors
    /// `ReferenceError` when the collector has cleared the run, or nothing was kept at `index`.
    pub(crate) fn get<'py>(&self, py: Python<'py>, index: usize) -> PyResult<Bound<'py, PyAny>> {
        let found = lock(&self.0).get(index).map(|object| object.clone_ref(py));
        found
            .map(|object| object.into_bound(py))
            .ok_or_else(|| PyReferenceError::new_err("the run that owned this object has been collected"))
    }

    /// For `__traverse__` of the owning coroutine or stream.
    pub(crate) fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        // Never wait inside the collector; see `Parker::traverse`.
        match self.0.try_lock() {
            Ok(objects) => objects.iter().try_for_each(|object| visit.call(object)),
            Err(_) => Ok(()),
        }
    }

    /// Lets go of everything.
    pub(crate) fn clear(&self) {
        let objects = std::mem::take(&mut *lock(&self.0));
        drop(objects);
    }
}
