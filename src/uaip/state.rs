//! `turntree.uaip.State`: the state that tasks, guards and hooks receive.

use std::sync::{Arc, Mutex};

use crate::prelude::*;
use pyo3::exceptions::{PyRuntimeError, PyTypeError, PyValueError};
use pyo3::types::{PyDict, PyDictMethods, PyMapping};
use serde_json::Value;

use crate::bridge::gil::lock;
use crate::convert::json::{json_to_python, to_raw};
use crate::convert::text::{beginning, text_of};
use crate::error::{not_constructible, value_error};
use turntree_uaip::WorkingState;
use turntree_uaip::state::{MAX_KEY, State as Store};

/// The state of a session: JSON values by key.
///
/// A key is any text; ``user.email`` is one key. A read looks for the exact key first, and then follows the parts
/// between the periods into objects: ``get("cart.items")`` finds the member ``items`` of the value ``cart``. A write
/// never splits a key. ``get`` returns a copy: call ``set`` with a value that has changed. If the task fails, nothing
/// is written.
///
/// Created for each call of a task, guard or hook. After the call it raises RuntimeError.
#[pyclass(frozen, name = "State", module = "turntree.uaip")]
pub(crate) struct PyState {
    /// `None` after the call.
    working: Arc<Mutex<Option<WorkingState>>>,
    /// What precedes each key, with the period at its end.
    prefix: String,
    /// True for the store of the session, false for the store that writes of the stage go to.
    is_shared: bool,
    /// True for guards.
    is_read_only: bool,
}

/// The state of a call, until its runner takes it back.
pub(crate) struct LentState(Arc<Mutex<Option<WorkingState>>>);

impl LentState {
    pub(crate) fn new(working: WorkingState) -> Self {
        Self(Arc::new(Mutex::new(Some(working))))
    }

    /// The state for Python.
    pub(crate) fn to_python(&self, py: Python<'_>, is_read_only: bool) -> PyResult<Py<PyState>> {
        let working = Arc::clone(&self.0);
        Py::new(py, PyState { working, prefix: String::new(), is_shared: false, is_read_only })
    }

    /// Takes the state back. Python can no longer use it.
    pub(crate) fn take(&self) -> Option<WorkingState> {
        lock(&self.0).take()
    }
}

impl Drop for LentState {
    fn drop(&mut self) {
        self.take();
    }
}

fn is_over() -> PyErr {
    PyRuntimeError::new_err(
        "the call that this state belongs to is over; read and write the state inside of the call",
    )
}

impl PyState {
    fn key(&self, key: &str) -> String {
        format!("{}{key}", self.prefix)
    }

    fn read<T>(&self, read: impl FnOnce(&WorkingState) -> T) -> PyResult<T> {
        lock(&self.working).as_ref().map(read).ok_or_else(is_over)
    }

    /// The value of a key as JSON text.
    fn find(&self, key: &str) -> PyResult<Option<String>> {
        let key = self.key(key);
        self.read(|working| {
            let found = if self.is_shared { working.shared().get(&key) } else { working.get(&key) };
            found.map(Value::to_string)
        })
    }

    /// Changes the store that writes go to.
    fn write<T>(&self, write: impl FnOnce(&mut Store) -> T) -> PyResult<T> {
        if self.is_read_only {
            return Err(PyTypeError::new_err(
                "a guard only reads the state; write it in a task, or in on_enter or on_exit of a stage",
            ));
        }
        let mut working = lock(&self.working);
        let working = working.as_mut().ok_or_else(is_over)?;
        Ok(write(if self.is_shared { working.shared_mut() } else { working.current_mut() }))
    }

    fn value_of(&self, key: &str, value: &Bound<'_, PyAny>) -> PyResult<(String, Value)> {
        let key = self.key(key);
        if key.is_empty() || key.len() > MAX_KEY {
            return Err(PyValueError::new_err(format!(
                "a key of the state has 1 to {MAX_KEY} bytes, not {}",
                key.len()
            )));
        }
        let text = to_raw(value, &format!("state[{key:?}]"))?;
        let value = serde_json::from_str(text.get()).map_err(value_error)?;
        Ok((key, value))
    }

    /// The keys and values, those of the session's store first.
    fn entries(&self) -> PyResult<Vec<(String, String)>> {
        self.read(|working| {
            let own = (!self.is_shared).then(|| working.current().iter()).into_iter().flatten();
            let all = working.shared().iter().chain(own);
            let named = all.filter_map(|(key, value)| Some((key.strip_prefix(&self.prefix)?, value)));
            named.map(|(key, value)| (key.to_owned(), value.to_string())).collect()
        })
    }
}

not_constructible!(PyState, "a task receives it: annotate a parameter with State");

#[pymethods]
impl PyState {
    /// Return a copy of a value, or ``default`` if there is none.
    #[pyo3(signature = (key, default=None))]
    fn get(&self, py: Python<'_>, key: &str, default: Option<Py<PyAny>>) -> PyResult<Py<PyAny>> {
        match self.find(key)? {
            Some(text) => json_to_python(py, &text),
            None => Ok(default.unwrap_or_else(|| py.None())),
        }
    }

    /// Write a value under exactly this key. Raises TypeError for a value without a JSON form.
    fn set(&self, key: &str, value: &Bound<'_, PyAny>) -> PyResult<()> {
        let (key, value) = self.value_of(key, value)?;
        self.write(|store| store.set(key, value))
    }

    /// Return whether `get` finds a value, which may be None.
    fn has(&self, key: &str) -> PyResult<bool> {
        Ok(self.find(key)?.is_some())
    }

    /// Delete exactly this key; return whether it existed.
    fn delete(&self, key: &str) -> PyResult<bool> {
        let key = self.key(key);
        self.write(|store| store.remove(&key).is_some())
    }

    /// Write several values: a mapping, keywords, or both. Writes all of them or none.
    #[pyo3(signature = (values=None, **more))]
    fn update(
        &self,
        values: Option<&Bound<'_, PyMapping>>,
        more: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<()> {
        let mut entries = Vec::new();
        let more = more.map(PyDictMethods::as_mapping);
        for mapping in values.into_iter().chain(more) {
            for item in mapping.items()? {
                let (key, value): (String, Bound<'_, PyAny>) = text_of(&item, "a key of values")?;
                entries.push(self.value_of(&key, &value)?);
            }
        }
        self.write(|store| {
            for (key, value) in entries {
                store.set(key, value);
            }
        })
    }

    /// A view of the keys that start with a name and a period.
    ///
    /// ``state.ns("user").get("email")`` reads ``user.email``.
    fn ns(&self, name: &str) -> Self {
        let (is_shared, is_read_only) = (self.is_shared, self.is_read_only);
        let prefix = self.key(&format!("{name}."));
        Self { working: Arc::clone(&self.working), prefix, is_shared, is_read_only }
    }

    /// The store of the session.
    ///
    /// It differs from this one only if the workflow has ``state_management``, which gives each stage a store of its
    /// own.
    #[getter]
    fn shared(&self) -> Self {
        let (working, prefix) = (Arc::clone(&self.working), self.prefix.clone());
        Self { working, prefix, is_shared: true, is_read_only: self.is_read_only }
    }

    /// The keys in their order.
    fn keys(&self) -> PyResult<Vec<String>> {
        let mut keys: Vec<String> = self.entries()?.into_iter().map(|(key, _)| key).collect();
        keys.sort_unstable();
        keys.dedup();
        Ok(keys)
    }

    /// A copy of all keys and values.
    fn to_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        for (key, text) in self.entries()? {
            dict.set_item(key, json_to_python(py, &text)?)?;
        }
        Ok(dict)
    }

    fn __contains__(&self, key: &str) -> PyResult<bool> {
        self.has(key)
    }

    fn __repr__(&self) -> String {
        match self.keys() {
            Ok(keys) => format!("<State: {}>", beginning(&keys.join(", "), 1000)),
            Err(_) => "<State of a call that is over>".to_owned(),
        }
    }
}
