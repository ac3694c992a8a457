//! Errors of `turntree-agents` as Python exceptions.

use std::sync::Arc;

use crate::prelude::*;
use pyo3::types::PyDict;

use crate::data::DataClass as _;
use crate::error::{ToException, build, class, named};
use crate::python_exception::Raised;
use crate::records::{ToolCall, wrap_turn};
use crate::upp::error::{raised_by_host, upp_error};
use turntree_agents::SessionError;
use turntree_agents::middleware::{BudgetError, GuardrailError, Resource};
use turntree_agents::tree::TreeError;
use turntree_agents::types::{ApprovalRequired, LimitError, approval_required, partial_turn};
use turntree_core::persistence::{PersistenceError, PersistenceErrorKind};
use turntree_upp::UppError;

/// The exception of an error that only runs have: of a session, an open approval, a budget, a guardrail, or with the
/// turn of a run that failed midway. `None` for the errors of a model call.
pub(crate) fn run_exception(py: Python<'_>, error: &UppError) -> Option<PyErr> {
    let partial = partial_turn(error);
    let cause = partial.map_or(&error.cause, |partial| &partial.cause).as_ref();
    let turn = || partial.map(|partial| wrap_turn(py, Arc::clone(&partial.turn))).transpose();
    if let Some(session) = cause.and_then(|cause| cause.downcast_ref::<SessionError>()) {
        return Some(session.to_exception(py));
    }
    if let Some(required) = approval_required(error) {
        return Some(build(turn().and_then(|turn| approval_exception(py, required, turn))));
    }
    if let Some(raised) = raised_by_host(error) {
        return Some(raised.error(py));
    }
    if let Some(budget) = cause.and_then(|cause| cause.downcast_ref::<BudgetError>()) {
        return Some(build(turn().and_then(|turn| budget_exception(py, budget, &error.message, turn))));
    }
    if let Some(limit) = cause.and_then(|cause| cause.downcast_ref::<LimitError>()) {
        return Some(build(turn().and_then(|turn| limit_exception(py, limit, turn))));
    }
    if let Some(guardrail) = cause.and_then(|cause| cause.downcast_ref::<GuardrailError>()) {
        return Some(build(turn().and_then(|turn| guardrail_exception(py, guardrail, &error.message, turn))));
    }
    partial?;
    Some(build(turn().and_then(|turn| upp_error(py, error, cause, turn))))
}

/// `turntree.ApprovalRequired`.
fn approval_exception<'py>(
    py: Python<'py>,
    required: &ApprovalRequired,
    partial: Option<Py<PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let calls = required.calls.iter().map(|call| ToolCall::wrap(py, Arc::clone(call)));
    let calls = calls.collect::<PyResult<Vec<_>>>()?;
    class(py, "ApprovalRequired")?.call1((required.to_string(), calls, partial))
}

/// `turntree.BudgetExceeded`.
fn budget_exception<'py>(
    py: Python<'py>,
    error: &BudgetError,
    message: &str,
    partial: Option<Py<PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    // Tokens and steps are integers.
    let is_counted = matches!(error.resource, Resource::Tokens | Resource::Steps);
    let number = |value: f64| -> PyResult<Bound<'py, PyAny>> {
        let float = value.into_pyobject(py)?.into_any();
        if is_counted { float.call_method0("__int__") } else { Ok(float) }
    };
    let options = PyDict::new(py);
    options.set_item("partial", partial)?;
    options.set_item("resource", error.resource.as_str())?;
    options.set_item("limit", number(error.limit)?)?;
    options.set_item("spent", number(error.spent)?)?;
    class(py, "BudgetExceeded")?.call((message,), Some(&options))
}

/// `turntree.LimitExceeded`.
fn limit_exception<'py>(
    py: Python<'py>,
    error: &LimitError,
    partial: Option<Py<PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let options = PyDict::new(py);
    options.set_item("partial", partial)?;
    if let LimitError::Reached { resource, limit, spent } = error {
        // Costs and times are no integers.
        let number = |value: f64| -> PyResult<Bound<'py, PyAny>> {
            let float = value.into_pyobject(py)?.into_any();
            if matches!(*resource, "cost" | "seconds") { Ok(float) } else { float.call_method0("__int__") }
        };
        options.set_item("resource", resource)?;
        options.set_item("limit", number(*limit)?)?;
        options.set_item("spent", number(*spent)?)?;
    }
    class(py, "LimitExceeded")?.call((error.to_string(),), Some(&options))
}

/// `turntree.GuardrailError`.
fn guardrail_exception<'py>(
    py: Python<'py>,
    error: &GuardrailError,
    message: &str,
    partial: Option<Py<PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let options = PyDict::new(py);
    options.set_item("partial", partial)?;
    options.set_item("rule", &error.rule)?;
    options.set_item("place", error.side.as_str())?;
    options.set_item("reason", &error.reason)?;
    options.set_item("text", &error.text)?;
    class(py, "GuardrailError")?.call((message,), Some(&options))
}

/// The exception of a failed session: an exception of the application comes back as the same object.
impl ToException for SessionError {
    fn to_exception(&self, py: Python<'_>) -> PyErr {
        let own = |payload: &Option<turntree_upp::error::HostPayload>| {
            let payload = payload.as_deref()?.downcast_ref::<Raised>()?;
            Some(payload.error(py))
        };
        let named = |class: &str| named(py, class, &self.to_string());
        match self {
            Self::Run(error) => error.to_exception(py),
            Self::Tree(error) => error.to_exception(py),
            Self::InvalidId { .. } => named("ValidationError"),
            Self::Metadata(host) => own(&host.payload).unwrap_or_else(|| named("ValidationError")),
            Self::Serialization(_) => named("SerializationError"),
            Self::NotLoaded { error: store, .. } => named(store_class(store)),
            Self::Store { error: store, .. } if store.kind == PersistenceErrorKind::Other => {
                own(&store.payload).unwrap_or_else(|| named("StoreError"))
            }
            Self::Store { error: store, .. } => {
                let raised = named(store_class(store));
                raised.set_cause(py, own(&store.payload));
                raised
            }
            Self::NotSaved { turn, error: store, .. } => {
                let raised = named(store_class(store));
                raised.set_cause(py, own(&store.payload));
                match wrap_turn(py, Arc::clone(turn)).and_then(|turn| raised.value(py).setattr("turn", turn))
                {
                    Ok(()) => raised,
                    Err(failure) => failure,
                }
            }
            _ => named("SessionError"),
        }
    }
}

/// The class of a store's error.
const fn store_class(error: &PersistenceError) -> &'static str {
    match error.kind {
        PersistenceErrorKind::Conflict | PersistenceErrorKind::Deleted => "ConflictError",
        PersistenceErrorKind::Corrupt => "CorruptDataError",
        PersistenceErrorKind::Other => "StoreError",
    }
}

/// `KeyError` for an unknown node, `ValueError` for one that cannot be removed.
impl ToException for TreeError {
    fn to_exception(&self, _py: Python<'_>) -> PyErr {
        super::tree::raised(self)
    }
}
