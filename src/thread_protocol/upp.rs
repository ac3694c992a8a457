//! Conversion from the messages of the provider layer.

use crate::prelude::*;

use super::document::Thread;
use super::options::{agent_from, choose};
use crate::thread::history_from;
use turntree_core::ids::{IdSource, RandomIds};
use turntree_thread_protocol::convert::pydantic_ai::ProfileKind;
use turntree_thread_protocol::convert::upp::{self, UppOptions};

/// Create a thread from messages of the provider layer; see `turntree.thread_protocol.from_upp`.
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
    let agent = agent_from(agent)?.unwrap_or_else(upp::assistant);
    let full = choose::<ProfileKind>("profile", profile)? == ProfileKind::Full;
    let thread_id = thread_id.unwrap_or_else(|| RandomIds.string());
    let options = UppOptions { agent, thread_id, title, full };
    let mut thread = py.detach(|| upp::from_upp(history.iter(), &options));
    if let Some(parent) = parent {
        thread.set_parent(&Thread::read(parent)?);
    }
    Thread::handle(py, thread)
}
