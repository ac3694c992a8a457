//! Key strategies: where requests get their API keys.
//!
//! Spec: UPP-1.2 §13.1.

use std::fmt;
use std::sync::Arc;

use crate::prelude::*;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::types::{PyDict, PyString, PyTuple};

use crate::bridge::callbacks::{Callbacks, PyCallback};
use crate::bridge::gc::garbage_collected;
use crate::bridge::gil;
use crate::convert::text::text_of;
use crate::error::{function as function_argument, not_constructible, wrong_type};
use crate::upp::error::to_host_failure;
use turntree_core::http::{self, KeyError, KeyFuture};
use turntree_core::secret::Secret;

/// Base class of the key strategies, which return a key for each request.
///
/// A repr never contains a key.
///
/// Spec: UPP-1.2 §13.1.
#[pyclass(frozen, subclass, module = "turntree.upp")]
pub(crate) struct KeyStrategy(Arc<dyn http::KeyStrategy>);

/// Uses the keys in turn.
///
/// Spec: UPP-1.2 §13.1.
#[pyclass(frozen, extends = KeyStrategy, module = "turntree.upp")]
pub(crate) struct RoundRobinKeys;

/// Chooses keys at random by weight.
///
/// Spec: UPP-1.2 §13.1.
#[pyclass(frozen, extends = KeyStrategy, module = "turntree.upp")]
pub(crate) struct WeightedKeys;

/// Calls a function, sync or async, for the key of each request.
///
/// Spec: UPP-1.2 §13.1.
#[pyclass(frozen, extends = KeyStrategy, module = "turntree.upp")]
pub(crate) struct DynamicKey(Callbacks);

fn refused(error: &KeyError) -> PyErr {
    PyValueError::new_err(error.to_string())
}

not_constructible!(KeyStrategy, "write RoundRobinKeys(keys), WeightedKeys(keys) or DynamicKey(function)");

#[pymethods]
impl KeyStrategy {
    fn __repr__(slf: &Bound<'_, Self>) -> PyResult<String> {
        Ok(format!("{}(***)", slf.get_type().name()?))
    }
}

#[pymethods]
impl RoundRobinKeys {
    #[new]
    fn new(keys: Vec<String>) -> PyResult<PyClassInitializer<Self>> {
        let keys =
            http::RoundRobinKeys::new(keys.into_iter().map(Secret::from)).map_err(|error| refused(&error))?;
        Ok(PyClassInitializer::from(KeyStrategy(Arc::new(keys))).add_subclass(Self))
    }
}

#[pymethods]
impl WeightedKeys {
    #[new]
    fn new(keys: Vec<Weighted>) -> PyResult<PyClassInitializer<Self>> {
        let keys = http::WeightedKeys::new(keys.into_iter().map(|Weighted(key, weight)| (key, weight)))
            .map_err(|error| refused(&error))?;
        Ok(PyClassInitializer::from(KeyStrategy(Arc::new(keys))).add_subclass(Self))
    }
}

/// Reads a key with its weight: a pair, or a dict with `key` and `weight`.
struct Weighted(Secret, f64);

impl<'py> FromPyObject<'_, 'py> for Weighted {
    type Error = PyErr;

    fn extract(given: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        // The message does not show the value, which contains a key.
        let wrong = || {
            PyTypeError::new_err(
                "each of the keys must be a pair of a str and a number, or a dict of key and weight",
            )
        };
        if let Ok(dict) = given.cast::<PyDict>() {
            let (key, weight) = (dict.get_item("key")?, dict.get_item("weight")?);
            let (Some(key), Some(weight), 2) = (key, weight, dict.len()) else { return Err(wrong()) };
            let key: String = key.extract().map_err(|_| wrong())?;
            return Ok(Self(Secret::from(key), weight.extract().map_err(|_| wrong())?));
        }
        let (key, weight): (String, f64) = given.extract().map_err(|_| wrong())?;
        Ok(Self(Secret::from(key), weight))
    }
}

#[pymethods]
impl DynamicKey {
    #[new]
    fn new(function: &Bound<'_, PyAny>) -> PyResult<PyClassInitializer<Self>> {
        let function = key_function(function)?;
        let held = Callbacks { functions: vec![Arc::clone(&function)], ..Callbacks::default() };
        Ok(PyClassInitializer::from(KeyStrategy(Arc::new(KeyFunction(function)))).add_subclass(Self(held)))
    }
}

garbage_collected!(DynamicKey: 0);

/// Calls a Python function for each key.
struct KeyFunction(Arc<PyCallback>);

fn key_function(function: &Bound<'_, PyAny>) -> PyResult<Arc<PyCallback>> {
    PyCallback::new(function_argument(function, "function")?)
}

impl fmt::Debug for KeyFunction {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("DynamicKey(***)")
    }
}

impl http::KeyStrategy for KeyFunction {
    fn key(&self) -> KeyFuture {
        let started = gil::require_held(|py| self.0.call(py, PyTuple::empty(py).unbind()));
        Box::pin(async move {
            let given = match started {
                Ok(call) => call.await,
                Err(error) => Err(error),
            };
            let key = gil::require_held(|py| {
                let given = given?;
                let key = given
                    .bind(py)
                    .cast::<PyString>()
                    .map_err(|_| PyTypeError::new_err("the function must return the key as str"))?;
                Ok(Secret::from(text_of::<&str>(key, "the key that the function returned")?))
            });
            key.map_err(|error| KeyError::Raised(to_host_failure(error)))
        })
    }
}

/// Reads keys from a str, a function or a strategy. Adds Python objects to `held`, for the garbage collector.
///
/// # Errors
/// `TypeError` for anything else.
pub(crate) fn keys_from(
    value: &Bound<'_, PyAny>,
    held: &mut Callbacks,
) -> PyResult<Arc<dyn http::KeyStrategy>> {
    if let Ok(key) = value.cast::<PyString>() {
        return Ok(Arc::new(http::StaticKey(Secret::from(text_of::<&str>(key, "api_key")?))));
    }
    if let Ok(strategy) = value.cast::<KeyStrategy>() {
        held.objects.push(value.clone().unbind());
        return Ok(Arc::clone(&strategy.get().0));
    }
    if value.is_callable() {
        let function = key_function(value)?;
        held.functions.push(Arc::clone(&function));
        return Ok(Arc::new(KeyFunction(function)));
    }
    Err(wrong_type(value, "api_key", "a str, a function or a key strategy"))
}
