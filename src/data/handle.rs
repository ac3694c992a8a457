//! [`Data`], the base of every data class: a Python handle on a shared Rust value.

use std::any::Any;
use std::sync::Arc;

use crate::prelude::*;
use pyo3::PyClass;
use pyo3::exceptions::PyTypeError;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::OrRaise as _;
use turntree_core::json::schema::{self, JsonSchema};

/// A Rust value behind a Python handle.
pub(crate) trait Value: Send + Sync + 'static {
    /// Return the value as JSON text.
    fn json(&self) -> serde_json::Result<String>;
    /// Whether both are the same type and equal.
    fn same_as(&self, other: &dyn Value) -> bool;
    /// For downcasts.
    fn any(&self) -> &dyn Any;
    /// For downcasts that share.
    fn shared(self: Arc<Self>) -> Arc<dyn Any + Send + Sync>;
}

impl<T: Serialize + PartialEq + Send + Sync + 'static> Value for T {
    fn json(&self) -> serde_json::Result<String> {
        serde_json::to_string(self)
    }

    fn same_as(&self, other: &dyn Value) -> bool {
        other.any().downcast_ref::<T>().is_some_and(|other| other == self)
    }

    fn any(&self) -> &dyn Any {
        self
    }

    fn shared(self: Arc<Self>) -> Arc<dyn Any + Send + Sync> {
        self
    }
}

/// Base class of all data classes: an immutable handle to a shared Rust value, with the methods of a pydantic
/// model.
///
/// Values compare by content, can be pickled and copied, and are hashable, except threads. All classes can be
/// fields of pydantic models, and types in a ``TypeAdapter`` and in FastAPI signatures. Attributes are
/// converted at each access: a list or dict is a new object.
#[pyclass(frozen, subclass, module = "turntree._core")]
pub(crate) struct Data {
    pub(super) value: Arc<dyn Value>,
}

impl Data {
    /// A handle on a value.
    pub(crate) fn new(value: Arc<dyn Value>) -> Self {
        Self { value }
    }

    /// The JSON of the value.
    ///
    /// # Errors
    /// `turntree.SerializationError`.
    pub(crate) fn to_json(&self, py: Python<'_>) -> PyResult<String> {
        self.value.json().or_raise(py)
    }

    /// The value as its type.
    pub(crate) fn value<T: 'static>(&self) -> Option<&T> {
        self.value.any().downcast_ref()
    }

    /// The value as its type, shared.
    pub(crate) fn share<T: Send + Sync + 'static>(&self) -> Option<Arc<T>> {
        Arc::clone(&self.value).shared().downcast().ok()
    }
}

/// The value of a handle whose class determines its type.
///
/// # Errors
/// `TypeError` if the class was created with a value of another type.
pub(crate) fn value_of<'a, T: 'static>(handle: &'a Bound<'_, Data>) -> PyResult<&'a T> {
    handle.get().value().ok_or_else(|| PyTypeError::new_err("the handle holds another type of value"))
}

/// A Python class over one type of value.
pub(crate) trait DataClass: PyClass {
    /// The type of its values.
    type Value: Serialize + DeserializeOwned + JsonSchema + PartialEq + Send + Sync + 'static;

    /// Whether values are immutable, and so hashable.
    const FROZEN: bool = true;

    /// The levels around a value in the documents that can contain it. A value read on its own leaves room for them.
    const OUTER_LEVELS: usize = 0;

    /// A handle on a value.
    fn wrap(py: Python<'_>, value: Arc<Self::Value>) -> PyResult<Py<PyAny>>;

    /// Refuses values of the type that do not belong to the class, such as another kind of message.
    ///
    /// # Errors
    /// The location and the rule.
    fn accept(_value: &Self::Value) -> Result<(), turntree_core::json::ParseError> {
        Ok(())
    }

    /// The schema of the class.
    fn json_schema() -> serde_json::Value {
        schema::document::<Self::Value>()
    }
}
