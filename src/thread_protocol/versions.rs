//! Versions of Pydantic AI: which one a history is from, and histories for an older one.

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};

use super::document::Thread;
use crate::convert::json::text_or_bytes;
use crate::convert::pydantic_ai as convert;
use crate::error::{OrRaise as _, value_error};
use crate::to_python::{ToPython, data_class};
use turntree_core::json::{Extra, json_object};
use turntree_core::limits::Limits;
use turntree_thread_protocol::convert::pydantic_ai::{
    Change as CoreChange, History, Version, ViewOptions, downgrade, read_any_history, write_history,
    written_by,
};

json_object! {
    /// A change that makes a history loadable by an older version.
    #[derive(Debug, Clone, PartialEq)]
    pub(crate) struct ChangeRecord {
        /// JSON pointer into the original history.
        pub pointer: String = "pointer",
        /// `dropped` or `rewritten`.
        pub kind: String = "kind",
        /// Description of the change and its reason.
        pub message: String = "message",
    }
}

data_class! {
    /// A change that makes a history loadable by an older Pydantic AI.
    Change as "Change" in "turntree.thread_protocol" over ChangeRecord {
        /// JSON pointer into the original history.
        pointer,
        /// `dropped` or `rewritten`.
        kind,
        /// Description of the change and its reason.
        message,
    }
}

impl From<CoreChange> for ChangeRecord {
    fn from(change: CoreChange) -> Self {
        Self {
            pointer: change.pointer,
            kind: change.kind.name().to_owned(),
            message: change.message,
            extra: Extra::new(),
        }
    }
}

/// A version as users write it.
///
/// # Errors
/// `ValueError` for an invalid version.
pub(super) fn version(text: &str) -> PyResult<Version> {
    text.parse::<Version>().map_err(value_error)
}

/// Calls a function with the messages of a history: a thread, Python objects, or their JSON.
fn with_history<R: Send>(
    history: &Bound<'_, PyAny>,
    use_history: impl FnOnce(&History<'_>) -> R + Send,
) -> PyResult<R> {
    let py = history.py();
    if let Ok(thread) = history.cast::<Thread>() {
        return Thread::compute(thread, |thread| {
            thread.to_messages(&ViewOptions::default()).map(|messages| use_history(&messages))
        });
    }
    if let Some(bytes) = text_or_bytes(history)? {
        return py.detach(|| read_any_history(&bytes, &Limits::default(), use_history)).or_raise(py);
    }
    let read = convert::read(&super::pydantic_ai::list_from(history)?, "history")?;
    Ok(use_history(&read.messages().or_raise(py)?.collect()))
}

/// The first version that writes everything in a history, and the first that would have written more, or None.
#[pyfunction]
pub(super) fn pydantic_ai_version(history: &Bound<'_, PyAny>) -> PyResult<(String, Option<String>)> {
    let range = with_history(history, written_by)?;
    Ok((range.at_least.to_string(), range.before.map(|before| before.to_string())))
}

/// A history for an older version, and what had to be changed.
#[pyfunction]
pub(super) fn downgrade_pydantic_ai<'py>(
    history: &Bound<'py, PyAny>,
    to: &str,
) -> PyResult<(Bound<'py, PyBytes>, Bound<'py, PyList>)> {
    let py = history.py();
    let to = version(to)?;
    let (bytes, changes) = with_history(history, |messages| {
        let (older, changes) = downgrade(messages, to);
        let mut bytes = Vec::new();
        write_history(&mut bytes, &older);
        (bytes, changes)
    })?;
    let changes = changes.into_iter().map(|change| ChangeRecord::from(change).to_python(py));
    Ok((PyBytes::new(py, &bytes), PyList::new(py, changes.collect::<PyResult<Vec<_>>>()?)?))
}
