//! What Python's garbage collector sees of our classes.
//!
//! [`Collect`] says how a field is visited and cleared; [`garbage_collected`] gives a class `__traverse__` and
//! `__clear__` from the names of its fields. [`GcRoots`] holds the Python objects that a running future needs.

use std::sync::{Arc, Mutex, OnceLock, Weak};

use crate::prelude::*;
use pyo3::exceptions::PyReferenceError;
use pyo3::pyclass::{PyTraverseError, PyVisit};

use super::gil::lock;

/// A field that may refer to Python objects.
///
/// The collector counts references, so one Python object visits each field, even if several share it.
pub(crate) trait Collect {
    /// Visits the Python objects of the field. Must not block and must not run Python code.
    fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError>;

    /// Drops references that can be part of a cycle. Fields that cannot change keep theirs: it is enough if one object
    /// of a cycle lets go.
    fn clear(&self) {}
}

impl<T> Collect for Py<T> {
    fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(self)
    }
}

macro_rules! collect_items {
    ($($container:ident: $items:ident),*) => {
        $(impl<T: Collect> Collect for $container<T> {
            fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
                self.$items().into_iter().try_for_each(|item| item.traverse(visit))
            }

            fn clear(&self) {
                self.$items().into_iter().for_each(Collect::clear);
            }
        })*
    };
}

collect_items!(Option: as_ref, Vec: iter, OnceLock: get);

/// Only an error can hold Python objects that lead back to the owner, through its traceback.
impl<T, E: Collect> Collect for Result<T, E> {
    fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.as_ref().err().map_or(Ok(()), |error| error.traverse(visit))
    }
}

impl<T: Collect + ?Sized> Collect for Arc<T> {
    fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        (**self).traverse(visit)
    }

    fn clear(&self) {
        (**self).clear();
    }
}

impl<T: Collect + Default> Collect for Mutex<T> {
    /// Skips a locked value: the collector can run while this thread holds the lock, and the holder is about to change
    /// the value, so it is not garbage yet.
    fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.try_lock().map_or(Ok(()), |value| value.traverse(visit))
    }

    /// Replaces the value by the default and drops it unlocked.
    fn clear(&self) {
        let value = std::mem::take(&mut *lock(self));
        drop(value);
    }
}

/// Gives a class `__traverse__` and `__clear__` over the named fields: `garbage_collected!(Class: field, other)`.
macro_rules! garbage_collected {
    ($class:ident: $($field:tt),+) => {
        #[pymethods]
        impl $class {
            fn __traverse__(&self, visit: ::pyo3::PyVisit<'_>) -> Result<(), ::pyo3::PyTraverseError> {
                $( $crate::bridge::gc::Collect::traverse(&self.$field, &visit)?; )+
                Ok(())
            }

            fn __clear__(&self) {
                $( $crate::bridge::gc::Collect::clear(&self.$field); )+
            }
        }
    };
}
pub(crate) use garbage_collected;

/// Python objects that a future owns and the garbage collector can see.
///
/// The collector cannot look into a Rust future. If a future holds an object that refers back to its own coroutine or
/// stream (`self.stream = self.agent.stream(..)`, with a method of `self` as a tool), the cycle would never be freed. So
/// the future and its coroutine share such objects in a `GcRoots`.
///
/// Clones share the objects. Give each `GcRoots` to one coroutine or stream only.
#[derive(Clone, Default)]
pub(crate) struct GcRoots(Arc<Mutex<Vec<Option<Py<PyAny>>>>>);

/// A reference to [`GcRoots`] that does not keep them alive.
pub(crate) struct WeakGcRoots(Weak<Mutex<Vec<Option<Py<PyAny>>>>>);

impl WeakGcRoots {
    /// The roots, if their coroutine or stream still exists.
    pub(crate) fn upgrade(&self) -> Option<GcRoots> {
        self.0.upgrade().map(GcRoots)
    }
}

impl GcRoots {
    /// Holds `objects`, in this order.
    pub(crate) fn new(objects: impl IntoIterator<Item = Py<PyAny>>) -> Self {
        Self(Arc::new(Mutex::new(objects.into_iter().map(Some).collect())))
    }

    /// Adds an object and returns its index.
    pub(crate) fn add(&self, object: Py<PyAny>) -> usize {
        let mut objects = lock(&self.0);
        if let Some(free) = objects.iter().position(Option::is_none)
            && let Some(slot) = objects.get_mut(free)
        {
            *slot = Some(object);
            return free;
        }
        objects.push(Some(object));
        objects.len() - 1
    }

    /// Removes the object at `index`. A later [`Self::add`] can return this index again.
    pub(crate) fn remove(&self, index: usize) {
        let removed = lock(&self.0).get_mut(index).and_then(Option::take);
        drop(removed);
    }

    /// A reference that does not keep the objects alive.
    pub(crate) fn downgrade(&self) -> WeakGcRoots {
        WeakGcRoots(Arc::downgrade(&self.0))
    }

    /// The object at `index`.
    ///
    /// # Errors
    /// `ReferenceError` if the collector has cleared the objects, or if the index is unknown.
    pub(crate) fn get<'py>(&self, py: Python<'py>, index: usize) -> PyResult<Bound<'py, PyAny>> {
        let object = lock(&self.0).get(index).and_then(|object| Some(object.as_ref()?.clone_ref(py)));
        object
            .map(|object| object.into_bound(py))
            .ok_or_else(|| PyReferenceError::new_err("the run that owned this object has been collected"))
    }
}

impl Collect for GcRoots {
    fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.0.traverse(visit)
    }

    fn clear(&self) {
        self.0.clear();
    }
}
