//! What the middlewares that come with turntree raise.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::error::{build, class};
use crate::records::wrap_turn;
use turntree_agents::middleware::{BudgetError, GuardrailError, Resource};
use turntree_agents::types::partial_turn;
use turntree_upp::UppError;

/// The exception of a budget or a guardrail, where one of them ended the run.
pub(crate) fn raised(py: Python<'_>, error: &UppError) -> Option<PyErr> {
    let partial = partial_turn(error);
    let cause = partial.map_or(error.cause.as_ref(), |partial| partial.cause.as_ref())?;
    let options = || -> PyResult<Bound<'_, PyDict>> {
        let options = PyDict::new(py);
        let turn = partial.map(|partial| wrap_turn(py, Arc::clone(&partial.turn))).transpose()?;
        options.set_item("partial", turn)?;
        Ok(options)
    };
    if let Some(budget) = cause.downcast_ref::<BudgetError>() {
        return Some(build(options().and_then(|options| exceeded(py, budget, &error.message, &options))));
    }
    let guardrail = cause.downcast_ref::<GuardrailError>()?;
    Some(build(options().and_then(|options| rejected(py, guardrail, &error.message, &options))))
}

fn exceeded<'py>(
    py: Python<'py>,
    error: &BudgetError,
    message: &str,
    options: &Bound<'py, PyDict>,
) -> PyResult<Bound<'py, PyAny>> {
    // What is counted is a whole number.
    let is_counted = matches!(error.resource, Resource::Tokens | Resource::Steps);
    let number = |value: f64| -> PyResult<Bound<'py, PyAny>> {
        let float = value.into_pyobject(py)?.into_any();
        if is_counted { float.call_method0("__int__") } else { Ok(float) }
    };
    options.set_item("resource", error.resource.as_str())?;
    options.set_item("limit", number(error.limit)?)?;
    options.set_item("spent", number(error.spent)?)?;
    class(py, "BudgetExceeded")?.call((message,), Some(options))
}

fn rejected<'py>(
    py: Python<'py>,
    error: &GuardrailError,
    message: &str,
    options: &Bound<'py, PyDict>,
) -> PyResult<Bound<'py, PyAny>> {
    options.set_item("rule", &error.rule)?;
    options.set_item("place", error.place.as_str())?;
    options.set_item("reason", &error.reason)?;
    options.set_item("text", &error.text)?;
    class(py, "GuardrailError")?.call((message,), Some(options))
}
