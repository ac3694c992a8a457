//! Conversions from and to histories of Pydantic AI: Python objects, or their JSON.

use std::sync::Arc;

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyDict, PyList, PyString};

use super::agents::AgentConfig;
use super::document::Thread;
use crate::convert::pydantic_ai as convert;
use crate::data::extract;
use turntree_thread_protocol as core;
use turntree_thread_protocol::convert::pydantic_ai::{
    AgentSource, CombineText, ImportOptions, Others, OthersRole, ProfileKind, ToolVisibility, ViewOptions,
    from_message_stream, from_pydantic_ai_json,
};

/// Longest text of ids and titles in reprs.
pub(super) const TITLES: usize = 80;

/// What one word of several means.
///
/// # Errors
/// `ValueError` naming the argument and its words.
pub(super) fn choose<T: Copy>(what: &str, word: &str, choices: &[(&str, T)]) -> PyResult<T> {
    choices.iter().find(|(name, _)| *name == word).map(|(_, choice)| *choice).ok_or_else(|| {
        let names: Vec<_> = choices.iter().map(|(name, _)| format!("\"{name}\"")).collect();
        PyValueError::new_err(format!("{what} must be {}, not \"{word}\"", names.join(" or ")))
    })
}

/// The arguments of a view as Python gives them.
pub(super) struct View<'a> {
    pub(super) agent_id: Option<String>,
    pub(super) others: &'a str,
    pub(super) tool_visibility: &'a str,
    pub(super) others_role: &'a str,
    pub(super) attribution: &'a str,
}

impl View<'_> {
    /// What they mean.
    ///
    /// # Errors
    /// `ValueError` naming the argument.
    pub(super) fn options(self) -> PyResult<ViewOptions> {
        Ok(ViewOptions {
            agent_id: self.agent_id,
            others: choose("others", self.others, &[("prefix", Others::Prefix), ("hide", Others::Hide)])?,
            others_role: choose(
                "others_role",
                self.others_role,
                &[("user", OthersRole::User), ("assistant", OthersRole::Assistant)],
            )?,
            attribution: self.attribution.to_owned(),
            tool_visibility: choose(
                "tool_visibility",
                self.tool_visibility,
                &[
                    ("hide", ToolVisibility::Hide),
                    ("summarize", ToolVisibility::Summarize),
                    ("show", ToolVisibility::Show),
                ],
            )?,
            ..ViewOptions::default()
        })
    }
}

/// Creates a thread from a Pydantic AI history.
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
    let agent = match agent.filter(|agent| !agent.is_none()) {
        Some(agent) => agents_from(agent)?,
        None => AgentSource::Default,
    };
    let options = ImportOptions {
        profile: choose(
            "profile",
            profile,
            &[("full", ProfileKind::Full), ("portable", ProfileKind::Portable)],
        )?,
        combine_text: choose(
            "combine_text",
            combine_text,
            &[("adjacent", CombineText::Adjacent), ("response", CombineText::Response)],
        )?,
        agent,
        thread_id,
        title,
        validation_status,
        usage_actions,
        strict,
        ..ImportOptions::default()
    };
    if let Ok(text) = messages.cast::<PyString>() {
        return from_json(py, text.to_str()?.as_bytes(), &options);
    }
    if let Ok(bytes) = messages.cast::<PyBytes>() {
        return from_json(py, bytes.as_bytes(), &options);
    }
    if let Ok(bytes) = messages.cast::<PyByteArray>() {
        return from_json(py, &bytes.to_vec(), &options);
    }
    let read = convert::read(&list_from(messages)?, "messages")?;
    let messages = read.messages().map_err(|error| super::error::to_exception(py, &error, None))?;
    let thread = py.detach(|| from_message_stream(messages, &options));
    Thread::given(py, thread)
}

/// One agent, or the agent of each run.
fn agents_from(agent: &Bound<'_, PyAny>) -> PyResult<AgentSource> {
    let runs = agent.cast::<PyDict>().ok().filter(|dict| !dict.contains("agent_id").unwrap_or(true));
    let Some(runs) = runs else {
        return Ok(AgentSource::One(Arc::unwrap_or_clone(extract::<AgentConfig>(agent, "agent")?)));
    };
    let one = |(run, agent): (Bound<'_, PyAny>, Bound<'_, PyAny>)| -> PyResult<_> {
        let Ok(run) = run.extract::<String>() else {
            return Err(PyTypeError::new_err("agent: the keys are run ids, which are strings"));
        };
        let agent = extract::<AgentConfig>(&agent, &format!("agent[\"{run}\"]"))?;
        Ok((run, Arc::unwrap_or_clone(agent)))
    };
    runs.iter().map(one).collect::<PyResult<_>>().map(AgentSource::ByRun)
}

fn from_json(py: Python<'_>, bytes: &[u8], options: &ImportOptions) -> PyResult<Py<PyAny>> {
    let thread = py.detach(|| from_pydantic_ai_json(bytes, options));
    let thread = thread.map_err(|error| {
        let input: String = String::from_utf8_lossy(bytes.get(..400).unwrap_or(bytes)).into_owned();
        super::error::to_exception(py, &error, Some(&input))
    })?;
    Thread::given(py, thread)
}

/// The messages of a list.
///
/// # Errors
/// `TypeError` if the value is not a list.
pub(super) fn list_from<'py>(messages: &Bound<'py, PyAny>) -> PyResult<Vec<Bound<'py, PyAny>>> {
    super::lists::items_of(messages, "messages").map_err(|_| {
        let found = messages.get_type().name().map(|name| name.to_string()).unwrap_or_default();
        PyTypeError::new_err(format!(
            "messages must be a list of ModelMessage, or its JSON as str or bytes, not {found}; \
             pass result.all_messages() or result.all_messages_json()"
        ))
    })
}

/// The messages of a thread, or the view of one agent, as Python objects.
///
/// # Errors
/// `ImportError` without pydantic-ai; `turntree.ValidationError` for an unknown agent, damaged metadata, or a message
/// that the pydantic-ai of this environment does not take.
pub(super) fn to_objects<'py>(
    py: Python<'py>,
    thread: &core::Thread,
    view: &ViewOptions,
) -> PyResult<Bound<'py, PyList>> {
    let messages = py.detach(|| thread.to_messages(view));
    let messages = messages.map_err(|error| super::error::to_exception(py, &error, None))?;
    convert::build(py, &messages)
}
