//! Converts what the application's functions return and raise.

use std::sync::{Arc, Mutex};

use crate::prelude::*;
use pyo3::exceptions::{PyBaseException, PyException, PyRuntimeError, PyTypeError};
use pyo3::intern;
use pyo3::types::{PyDict, PyString};

use super::answer_type::answer_type;
use super::functions::{ASK, Functions};
use super::tool_exceptions::ToolExceptions;
use crate::bridge::call::Call;
use crate::bridge::gil;
use crate::bridge::imports::cancelled_error;
use crate::convert::json::to_raw;
use crate::convert::text::text_of;
use crate::data::extract;
use crate::error::class;
use crate::python_exception::Raised;
use crate::records::Turn as PyTurn;
use crate::upp::request::system_from;
use turntree_agents::Violation;
use turntree_agents::host::{Approval, BeforeCall, HostError, HostErrorKind};
use turntree_core::json::RawJson;
use turntree_core::message::Turn;
use turntree_upp::System;

/// Awaits a call and converts its result.
pub(super) async fn value_of<T>(
    started: PyResult<Call>,
    read: impl FnOnce(&Bound<'_, PyAny>) -> PyResult<T> + Send,
) -> Result<T, HostError> {
    let value = async { started?.await }.await;
    with_python(|py| read(value?.bind(py)))
}

/// Runs code that needs the GIL and converts its exception.
pub(super) fn with_python<T>(work: impl FnOnce(Python<'_>) -> PyResult<T>) -> Result<T, HostError> {
    let result = gil::require_held(|py| Ok(work(py).map_err(|error| host_error(py, error))));
    result.unwrap_or_else(|error| Err(HostError::raised("RuntimeError", error.to_string())))
}

/// Converts a Python exception. An exception that is not an `Exception`, such as `KeyboardInterrupt`, ends the run.
pub(super) fn host_error(py: Python<'_>, error: PyErr) -> HostError {
    let value = error.value(py);
    let type_name = value.get_type().name().map_or_else(|_| "Exception".to_owned(), |name| name.to_string());
    let text = value.str().map(|text| text.to_string()).unwrap_or_default();
    let kind = match () {
        () if !value.is_instance_of::<PyException>() => HostErrorKind::Fatal,
        () if type_name == "ArgumentError" => HostErrorKind::InvalidArguments,
        () if is_model_retry(value, &type_name) => HostErrorKind::Retry,
        () => HostErrorKind::Raised,
    };
    // Use the type of an exception without a message: an empty error does not help a model.
    let message = if text.is_empty() { type_name.clone() } else { text };
    HostError { kind, type_name, message, payload: Some(Arc::new(Raised::new(py, error))) }
}

/// Returns true for `turntree.ModelRetry`, and for the class of this name of another library, whose tools can be used.
fn is_model_retry(exception: &Bound<'_, PyBaseException>, type_name: &str) -> bool {
    type_name == "ModelRetry"
        || class(exception.py(), "ModelRetry")
            .and_then(|class| exception.is_instance(&class))
            .unwrap_or(false)
}

/// Converts the result of the function of the system prompt: a text, a list of blocks, or None.
pub(super) fn system_prompt_from(value: &Bound<'_, PyAny>) -> PyResult<Option<Arc<System>>> {
    if value.is_none() {
        return Ok(None);
    }
    match system_from(value) {
        Ok(system) => Ok(Some(Arc::new(system))),
        Err(error) if error.is_instance_of::<PyTypeError>(value.py()) => {
            Err(wrong_result(value, "the function of system=", "a str, a list of blocks or None"))
        }
        Err(error) => Err(error),
    }
}

/// Returns true for `asyncio.CancelledError`.
pub(super) fn is_cancellation(error: &HostError) -> bool {
    let raised = error.payload.as_deref().and_then(|payload| payload.downcast_ref::<Raised>());
    let Some(raised) = raised else { return false };
    gil::require_held(|py| raised.value(py).is_instance(cancelled_error(py)?)).unwrap_or(false)
}

/// Converts a turn, with its data as the requested type and the exceptions of its tools.
pub(super) fn turn_to_python(
    py: Python<'_>,
    functions: &Mutex<Functions>,
    exceptions: &ToolExceptions,
    turn: Arc<Turn>,
) -> PyResult<Py<PyAny>> {
    // Unchecked data, such as that of a turn from `on_error`, may not fit the type.
    let build = |data: &RawJson| {
        let answer = answer_type(py, functions, &turn).ok()??;
        answer.call_method1(py, intern!(py, "build"), (data.get(),)).ok()
    };
    let data = turn.data.as_ref().and_then(build);
    PyTurn::of_run(py, turn, data, exceptions.by_call(py))
}

/// Converts the result of an approval handler. Text other than "ask" is an error, so that it does not count as approval.
pub(super) fn approval_from(value: &Bound<'_, PyAny>) -> PyResult<Approval> {
    let Ok(word) = value.cast::<PyString>() else {
        return Ok(if value.is_truthy()? { Approval::Granted } else { Approval::Denied });
    };
    let word: String = text_of(word, "the result of approval")?;
    if word == ASK {
        return Ok(Approval::Ask);
    }
    Err(PyTypeError::new_err(format!("approval must return True, False or \"{ASK}\", not {word:?}")))
}

/// Converts the turn that a hook returns. `expected` describes it in the error.
///
/// # Errors
/// `TypeError` for another type; `turntree.ValidationError` for a dict that is not a turn.
pub(super) fn turn_from(value: &Bound<'_, PyAny>, hook: &str, expected: &str) -> PyResult<Arc<Turn>> {
    if !value.is_instance_of::<PyTurn>() && !value.is_instance_of::<PyDict>() {
        return Err(wrong_result(value, hook, expected));
    }
    extract::<PyTurn>(value, &format!("the turn of {hook}"))
}

/// Converts the result of `on_error`: a turn, or None.
pub(super) fn optional_turn_from(value: &Bound<'_, PyAny>) -> PyResult<Option<Arc<Turn>>> {
    if value.is_none() { Ok(None) } else { turn_from(value, "on_error", "a Turn or None").map(Some) }
}

/// `TypeError` for a function of the application that returns another type than `expected`.
pub(super) fn wrong_result(value: &Bound<'_, PyAny>, function: &str, expected: &str) -> PyErr {
    let name = value.get_type().name().map(|name| name.to_string()).unwrap_or_default();
    PyTypeError::new_err(format!("{function} must return {expected}, not {name}"))
}

/// Converts the result of a hook before a call: a falsy value skips the call, a dict can replace the arguments.
///
/// Spec: UPP-1.2 §10.4.
pub(super) fn before_call_from(value: &Bound<'_, PyAny>) -> PyResult<BeforeCall> {
    let Ok(dict) = value.cast::<PyDict>() else {
        return Ok(if value.is_truthy()? { BeforeCall::Proceed } else { BeforeCall::Skip });
    };
    let proceeds = dict.get_item("proceed")?.map_or(Ok(false), |proceed| proceed.is_truthy())?;
    match (proceeds, dict.get_item("params")?) {
        (false, _) => Ok(BeforeCall::Skip),
        (true, None) => Ok(BeforeCall::Proceed),
        (true, Some(params)) => to_raw(&params, "params").map(BeforeCall::ProceedWith),
    }
}

/// Converts the result of a hook after a call: a dict can replace the result.
pub(super) fn after_call_from(value: &Bound<'_, PyAny>) -> PyResult<Option<RawJson>> {
    let Ok(dict) = value.cast::<PyDict>() else { return Ok(None) };
    dict.get_item("result")?.map(|result| to_raw(&result, "result")).transpose()
}

/// Converts the violations that a Python type reports: pointer, rule and message of each.
pub(super) fn violations_from(value: &Bound<'_, PyAny>) -> PyResult<Vec<Violation>> {
    let violations = value.extract::<Vec<(String, String, String)>>()?;
    let violation =
        |(pointer, rule, message): (String, String, String)| Violation::new(pointer, rule, &message);
    Ok(violations.into_iter().map(violation).collect())
}

/// Returns the Python exception of an error.
pub(super) fn exception_of(py: Python<'_>, error: &HostError) -> Py<PyAny> {
    match error.payload.as_deref().and_then(|payload| payload.downcast_ref::<Raised>()) {
        Some(raised) => raised.value(py).clone().into_any().unbind(),
        None => PyRuntimeError::new_err(error.message.clone()).into_value(py).into_any(),
    }
}
