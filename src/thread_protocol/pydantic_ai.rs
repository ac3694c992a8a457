//! Conversions from and to histories of Pydantic AI: Python objects, or their JSON.

use crate::prelude::*;
use pyo3::exceptions::PyTypeError;
use pyo3::intern;
use pyo3::types::{PyDict, PyString};

use super::agents::AgentConfig;
use super::document::Thread;
use super::error::excerpt;
use super::options::{choose, owned};
use crate::convert::json::text_or_bytes;
use crate::convert::pydantic_ai as convert;
use crate::convert::text::text_of;
use crate::error::OrRaise as _;
use turntree_thread_protocol::convert::pydantic_ai::{
    AgentSource, ImportOptions, from_message_stream, from_pydantic_ai_json,
};

/// Create a thread from a Pydantic AI history. The same history and options always give the same thread.
#[pyfunction]
#[pyo3(signature = (
    messages, *, agent = None, thread_id = None, title = None, profile = "full", combine_text = "adjacent",
    validation_status = false, usage_actions = false, strict = false
))]
#[expect(clippy::too_many_arguments, reason = "keyword arguments of Python")]
pub(super) fn from_pydantic_ai(
    py: Python<'_>,
    messages: &Bound<'_, PyAny>,
    agent: Option<&Bound<'_, PyAny>>,
    thread_id: Option<String>,
    title: Option<String>,
    profile: &str,
    combine_text: &str,
    validation_status: bool,
    usage_actions: bool,
    strict: bool,
) -> PyResult<Py<PyAny>> {
    let options = ImportOptions {
        agent: agent.map(agents_from).transpose()?.unwrap_or_default(),
        profile: choose("profile", profile)?,
        combine_text: choose("combine_text", combine_text)?,
        thread_id,
        title,
        validation_status,
        usage_actions,
        strict,
        ..ImportOptions::default()
    };
    if let Some(bytes) = text_or_bytes(messages)? {
        let thread = py.detach(|| from_pydantic_ai_json(&bytes, &options));
        return Thread::handle(py, thread.or_raise_in(py, &excerpt(&bytes))?);
    }
    let read = convert::read(&list_from(messages, "messages")?, "messages")?;
    let messages = read.messages().or_raise(py)?;
    Thread::handle(py, py.detach(|| from_message_stream(messages, &options)))
}

/// One agent, or the agent of each run.
fn agents_from(agent: &Bound<'_, PyAny>) -> PyResult<AgentSource> {
    let runs = agent.cast::<PyDict>().ok().filter(|dict| !dict.contains("agent_id").unwrap_or(true));
    let Some(runs) = runs else {
        return owned::<AgentConfig>(agent, "agent").map(AgentSource::One);
    };
    let one = |(run, agent): (Bound<'_, PyAny>, Bound<'_, PyAny>)| -> PyResult<_> {
        if !run.is_instance_of::<PyString>() {
            return Err(PyTypeError::new_err("agent: the keys are run ids, which are strings"));
        }
        let run: String = text_of(&run, "a key of agent")?;
        let agent = owned::<AgentConfig>(&agent, &format!("agent[\"{run}\"]"))?;
        Ok((run, agent))
    };
    runs.iter().map(one).collect::<PyResult<_>>().map(AgentSource::ByRun)
}

/// The messages of a list; `what` names it in errors.
///
/// # Errors
/// `TypeError` if the value is not a list.
pub(super) fn list_from<'py>(messages: &Bound<'py, PyAny>, what: &str) -> PyResult<Vec<Bound<'py, PyAny>>> {
    let items = super::lists::items_of(messages, what).map_err(|_| {
        let found = messages.get_type().name().map(|name| name.to_string()).unwrap_or_default();
        PyTypeError::new_err(format!(
            "{what} must be a list of ModelMessage, or its JSON as str or bytes, not {found}; \
             pass result.all_messages() or result.all_messages_json()"
        ))
    })?;
    super::lists::items_while(items, |item| {
        Ok(item.is_instance_of::<PyDict>() || item.hasattr(intern!(item.py(), "parts"))?)
    })
}
