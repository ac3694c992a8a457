//! From and to the messages of the provider layer.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::PyList;

use super::agents::AgentConfig;
use super::document::Thread;
use crate::data::extract;
use crate::thread::history_from;
use turntree_core::ids::{IdSource, RandomIds};
use turntree_core::json::RawJson;
use turntree_thread_protocol as core;
use turntree_thread_protocol::convert::ViewOptions;
use turntree_thread_protocol::convert::upp::{self, UppOptions};

/// Makes a thread of messages; `parent` is the thread that it branched from.
#[pyfunction]
#[pyo3(signature = (messages, *, agent = None, thread_id = None, title = None, profile = "full", parent = None))]
pub(super) fn thread_from_upp(
    py: Python<'_>,
    messages: &Bound<'_, PyAny>,
    agent: Option<&Bound<'_, PyAny>>,
    thread_id: Option<String>,
    title: Option<String>,
    profile: &str,
    parent: Option<&Bound<'_, Thread>>,
) -> PyResult<Py<PyAny>> {
    let history = history_from(messages, "messages")?;
    let agent = match agent.filter(|agent| !agent.is_none()) {
        Some(agent) => Arc::unwrap_or_clone(extract::<AgentConfig>(agent, "agent")?),
        None => upp::assistant(),
    };
    let full = super::pydantic_ai::choose("profile", profile, &[("full", true), ("portable", false)])?;
    let thread_id = thread_id.unwrap_or_else(|| RandomIds.string());
    let options = UppOptions { agent, thread_id, title, full };
    let mut thread = py.detach(|| upp::from_upp(history.iter(), &options));
    if let Some(parent) = parent {
        let parent = Thread::read(parent)?;
        let common = thread.common_actions(&parent);
        let point =
            RawJson::from_value(&serde_json::json!({ "parent_sequence": common })).unwrap_or_default();
        thread.metadata.get_or_insert_default().insert("branch", point);
        thread.parent_thread_id = Some(parent.thread_id);
    }
    Thread::given(py, thread)
}

/// The messages of a thread, or the view of one agent.
///
/// # Errors
/// `turntree.ValidationError` for an unknown agent or damaged metadata.
pub(super) fn to_list<'py>(
    py: Python<'py>,
    thread: &core::Thread,
    view: &ViewOptions,
) -> PyResult<Bound<'py, PyList>> {
    let messages = py.detach(|| thread.to_upp(view));
    let messages = messages.map_err(|error| super::error::to_exception(py, &error, None))?;
    let handles = messages.into_iter().map(|message| crate::message::wrap(py, Arc::new(message)));
    PyList::new(py, handles.collect::<PyResult<Vec<_>>>()?)
}
