//! The state that middlewares store with a call, as a mapping.

use std::sync::Arc;

use crate::error::not_constructible;
use crate::prelude::*;
use pyo3::exceptions::PyKeyError;
use pyo3::pyclass::{PyTraverseError, PyVisit};
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyString};

use crate::bridge::gc::Collect;
use crate::convert::json::to_raw;
use crate::convert::text::beginning;
use crate::to_python::ToPython;
use turntree_upp::middleware::{CallContext as CoreContext, StateValue};

/// An object of the application in the state of a call.
struct Stored(Py<PyAny>);

/// The state of one call: a mapping from names to any objects. The hooks and the stream of the call share it.
#[pyclass(frozen, mapping, module = "turntree.upp.middleware")]
pub(crate) struct CallState(pub(super) Arc<CoreContext>);

/// Plain values are stored as JSON, which built-in middlewares read; other objects are stored unchanged.
fn to_value(value: &Bound<'_, PyAny>) -> StateValue {
    let is_plain = value.is_none()
        || value.is_exact_instance_of::<PyBool>()
        || value.is_exact_instance_of::<PyInt>()
        || value.is_exact_instance_of::<PyFloat>()
        || value.is_exact_instance_of::<PyString>();
    if is_plain && let Ok(raw) = to_raw(value, "the value") {
        return StateValue::Json(raw);
    }
    StateValue::Host(Arc::new(Stored(value.clone().unbind())))
}

fn to_object<'py>(py: Python<'py>, value: &StateValue) -> PyResult<Bound<'py, PyAny>> {
    match value {
        StateValue::Json(raw) => raw.to_python(py),
        StateValue::Host(host) => match host.downcast_ref::<Stored>() {
            Some(stored) => Ok(stored.0.bind(py).clone()),
            None => Ok(py.None().into_bound(py)),
        },
    }
}

impl Collect for CoreContext {
    fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.state.look(|value| match value {
            StateValue::Host(host) => match host.downcast_ref::<Stored>() {
                Some(stored) => visit.call(&stored.0),
                None => Ok(()),
            },
            StateValue::Json(_) => Ok(()),
        })
    }

    fn clear(&self) {
        self.state.clear();
    }
}

not_constructible!(CallState, "the context of a middleware has one as context.state");

#[pymethods]
impl CallState {
    fn __getitem__<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
        match self.0.state.get(name) {
            Some(value) => to_object(py, &value),
            None => Err(PyKeyError::new_err(name.to_owned())),
        }
    }

    fn __setitem__(&self, name: String, value: &Bound<'_, PyAny>) {
        let replaced = self.0.state.insert(name, to_value(value));
        drop(replaced);
    }

    fn __delitem__(&self, name: &str) -> PyResult<()> {
        let removed = self.0.state.remove(name);
        removed.map(drop).ok_or_else(|| PyKeyError::new_err(name.to_owned()))
    }

    fn __contains__(&self, name: &str) -> bool {
        self.0.state.get(name).is_some()
    }

    fn __len__(&self) -> usize {
        self.0.state.names().len()
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        Ok(PyList::new(py, self.0.state.names())?.try_iter()?.into_any())
    }

    /// The value under a name, or `default`.
    #[pyo3(signature = (name, default = None))]
    fn get<'py>(
        &self,
        py: Python<'py>,
        name: &str,
        default: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        match self.0.state.get(name) {
            Some(value) => to_object(py, &value),
            None => Ok(default.unwrap_or_else(|| py.None().into_bound(py))),
        }
    }

    /// The value under a name. If there is none, stores and returns `default`.
    #[pyo3(signature = (name, default = None))]
    fn setdefault<'py>(
        &self,
        py: Python<'py>,
        name: String,
        default: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        if let Some(value) = self.0.state.get(&name) {
            return to_object(py, &value);
        }
        let default = default.unwrap_or_else(|| py.None().into_bound(py));
        self.__setitem__(name, &default);
        Ok(default)
    }

    /// Removes and returns the value under a name, or `default`.
    #[pyo3(signature = (name, default = None))]
    fn pop<'py>(
        &self,
        py: Python<'py>,
        name: &str,
        default: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        match self.0.state.remove(name) {
            Some(value) => to_object(py, &value),
            None => Ok(default.unwrap_or_else(|| py.None().into_bound(py))),
        }
    }

    /// The names, sorted.
    fn keys(&self) -> Vec<String> {
        self.0.state.names()
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let shown = PyDict::new(py);
        for name in self.0.state.names() {
            if let Some(value) = self.0.state.get(&name) {
                shown.set_item(name, to_object(py, &value)?)?;
            }
        }
        let shown = shown.repr()?.to_string_lossy().into_owned();
        Ok(format!("CallState({})", beginning(&shown, 1000)))
    }
}
