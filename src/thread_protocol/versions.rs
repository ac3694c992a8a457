//! Versions of Pydantic AI: which one a history is from, and histories for an older one.

use crate::prelude::*;
use pyo3::types::PyBytes;

use super::document::Thread;
use crate::convert::json::text_or_bytes;
use crate::convert::pydantic_ai as convert;
use crate::error::{OrRaise as _, value_error};
use crate::to_python::{ToPython, data_class};
use turntree_core::limits::Limits;
use turntree_thread_protocol::convert::pydantic_ai::{
    ChangeRecord, History, Version, ViewOptions, downgrade, read_any_history, write_history, written_by,
};

data_class! {
    /// A change that makes a history loadable by an older Pydantic AI; reported by `downgrade_pydantic_ai`.
    Change as "Change" in "turntree.thread_protocol" over ChangeRecord {
        /// JSON pointer into the original history.
        pointer,
        /// `dropped` or `rewritten`.
        kind,
        /// Description of the change and its reason.
        message,
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
    let read = convert::read(&super::pydantic_ai::list_from(history, "history")?, "history")?;
    Ok(use_history(&read.messages().or_raise(py)?.collect()))
}

/// Return the versions of Pydantic AI that write the members of a history.
#[pyfunction]
pub(super) fn pydantic_ai_version(history: &Bound<'_, PyAny>) -> PyResult<(String, Option<String>)> {
    let range = with_history(history, written_by)?;
    Ok((range.at_least.to_string(), range.before.map(|before| before.to_string())))
}

/// Return a history in the format of an older Pydantic AI.
#[pyfunction]
pub(super) fn downgrade_pydantic_ai<'py>(
    history: &Bound<'py, PyAny>,
    to: &str,
) -> PyResult<(Bound<'py, PyBytes>, Bound<'py, PyAny>)> {
    let py = history.py();
    let to = version(to)?;
    let (bytes, changes) = with_history(history, |messages| {
        let (older, changes) = downgrade(messages, to);
        let mut bytes = Vec::new();
        write_history(&mut bytes, &older);
        (bytes, changes)
    })?;
    let changes: Vec<_> = changes.into_iter().map(ChangeRecord::from).collect();
    Ok((PyBytes::new(py, &bytes), changes.to_python(py)?))
}
