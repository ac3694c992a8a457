//! Functions of the application in built-in middleware: rules, token counters, summarizers.

use std::sync::Arc;

use crate::prelude::*;
use futures_util::future::BoxFuture;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::types::PyTuple;

use super::hooks::{result_of, with_python};
use crate::agents::host_conversions::wrong_result;
use crate::bridge::callbacks::PyCallback;
use crate::bridge::gil;
use turntree_agents::middleware::{RuleCheck, RuleOutcome, Summarizer, TokenCounter};
use turntree_upp::UppError;

/// Calls a function with a text and converts its result.
async fn call_with_text<T>(
    function: &PyCallback,
    what: &str,
    text: &str,
    read: impl FnOnce(&Bound<'_, PyAny>) -> PyResult<T> + Send,
) -> Result<T, UppError> {
    let started = gil::require_held(|py| function.call(py, PyTuple::new(py, [text])?.unbind()));
    result_of(started, read, what, "").await
}

/// A rule: a function of a text that returns None, or "reject" and a reason, or "replace" and a text.
pub(super) struct PyRule {
    pub(super) name: String,
    pub(super) function: Arc<PyCallback>,
}

fn verdict_from(value: &Bound<'_, PyAny>) -> PyResult<RuleOutcome> {
    if value.is_none() {
        return Ok(RuleOutcome::Pass);
    }
    let (kind, words): (String, String) = value.extract()?;
    match kind.as_str() {
        "reject" => Ok(RuleOutcome::Reject(words)),
        "replace" => Ok(RuleOutcome::Replace(words)),
        other => Err(PyValueError::new_err(format!("unknown verdict: {other}"))),
    }
}

impl RuleCheck for PyRule {
    fn check<'a>(&'a self, text: &'a str) -> BoxFuture<'a, Result<RuleOutcome, UppError>> {
        Box::pin(async move {
            let what = format!("guardrail '{}'", self.name);
            call_with_text(&self.function, &what, text, verdict_from).await
        })
    }
}

/// A counter of tokens.
pub(super) struct PyCounter(pub(super) Arc<PyCallback>);

impl TokenCounter for PyCounter {
    fn count(&self, text: &str) -> Result<u64, UppError> {
        with_python("the counter of memory", "", |py| {
            let value = self.0.bound(py)?.call1((text,))?;
            value.extract().map_err(|_| {
                let repr = value.repr().map(|repr| repr.to_string()).unwrap_or_default();
                PyTypeError::new_err(format!("counter must return a number of tokens, not {repr}"))
            })
        })
    }
}

/// A summarizer of messages.
pub(super) struct PySummarizer(pub(super) Arc<PyCallback>);

impl Summarizer for PySummarizer {
    fn summarize(&self, text: String) -> BoxFuture<'_, Result<String, UppError>> {
        Box::pin(async move {
            call_with_text(&self.0, "the summarizer of memory", &text, |value| {
                value.extract::<String>().map_err(|_| wrong_result(value, "summarize", "a str"))
            })
            .await
        })
    }
}
