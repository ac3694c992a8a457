//! The document as a Python class. Its value changes: actions and agents are added.

use std::sync::Arc;

use crate::prelude::*;
use pyo3::exceptions::{PyIndexError, PyTypeError};
use pyo3::types::{PyBytes, PyDict, PyList, PySlice, PyString};

use super::actions::{action_from, now, timestamp_from, timestamp_or_now, wrap as wrap_action};
use super::agents::{AgentConfig, agents_from};
use super::options::{owned, ui_export, view};
use super::shared::Shared;
use super::vercel_ui::{self, UiChunks};
use crate::convert::json::to_raw_object;
use crate::convert::pydantic_ai as convert;
use crate::data::{Data, DataClass, value_of};
use crate::error::{OrRaise as _, value_error};
use crate::to_python::ToPython;
use turntree_core::ids::{IdSource, RandomIds};
use turntree_core::json::canonical::CanonicalForm;
use turntree_thread_protocol::convert::vercel_ui::ExportOptions;
use turntree_thread_protocol::document::{self as core, Actions};
use turntree_thread_protocol::{IssueRecord, ThreadError};

/// Maximum length of the id and the title in reprs.
const LONGEST: usize = 80;

/// A conversation as one document; ``turntree.thread_protocol.Thread``.
///
/// Iterates over its actions. Immutable except that `append` adds actions at the end.
///
/// Spec: ThreadProtocol 1.0.0, "Thread".
#[pyclass(frozen, extends = Data, name = "Thread", module = "turntree.thread_protocol")]
pub(crate) struct Thread;

impl DataClass for Thread {
    type Value = Shared;
    const FROZEN: bool = false;

    fn json_schema() -> serde_json::Value {
        turntree_thread_protocol::schema::published()
    }

    fn wrap(py: Python<'_>, value: Arc<Shared>) -> PyResult<Py<PyAny>> {
        Ok(Py::new(py, PyClassInitializer::from(Data::new(value)).add_subclass(Self))?.into_any())
    }
}

impl Thread {
    /// The document of a handle at this moment.
    ///
    /// # Errors
    /// Only when the handle is of another class.
    pub(super) fn read(slf: &Bound<'_, Self>) -> PyResult<core::Thread> {
        Ok(Self::of(slf)?.now())
    }

    fn of<'a>(slf: &'a Bound<'_, Self>) -> PyResult<&'a Shared> {
        value_of(slf.as_super())
    }

    /// A handle on a document.
    pub(super) fn handle(py: Python<'_>, thread: core::Thread) -> PyResult<Py<PyAny>> {
        Self::wrap(py, Arc::new(Shared::new(thread)))
    }

    /// A handle on a document that is derived from that of another handle.
    fn derive(
        slf: &Bound<'_, Self>,
        derive: impl FnOnce(core::Thread) -> core::Thread,
    ) -> PyResult<Py<PyAny>> {
        Self::handle(slf.py(), derive(Self::read(slf)?))
    }

    /// Computes a value from the document with the GIL released.
    pub(super) fn compute<T: Send>(
        slf: &Bound<'_, Self>,
        compute: impl FnOnce(&core::Thread) -> Result<T, ThreadError> + Send,
    ) -> PyResult<T> {
        let thread = Self::read(slf)?;
        slf.py().detach(|| compute(&thread)).or_raise(slf.py())
    }
}

/// A property for each field of the document.
macro_rules! fields {
    ($( $(#[doc = $doc:literal])* $name:ident; )+) => {
        #[pymethods]
        impl Thread {
            $(
                $(#[doc = $doc])*
                #[getter]
                fn $name<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
                    let value = Self::of(slf)?.lock().$name.clone();
                    value.to_python(slf.py())
                }
            )+
        }
    };
}

fields! {
    /// The version of the protocol, `1.0.0`.
    version;
    /// Id of the thread, a UUID.
    thread_id;
    /// Id of the parent thread, or None.
    parent_thread_id;
    /// Time of creation.
    created_at;
    /// Time of the last change.
    updated_at;
    /// Title for display.
    title;
    /// The agents by id, a new dict each time.
    agents;
    /// Metadata of applications by namespace, a new dict each time, or None.
    metadata;
}

/// Defines methods that export the view of one agent: name, result, further options, and the export. All take the
/// arguments of [`view`].
macro_rules! view_methods {
    ($(
        $(#[doc = $doc:literal])*
        $name:ident -> $result:ty $([ $option:ident: $type:ty ])?, |$slf:ident, $view:ident| $export:expr;
    )+) => {
        #[pymethods]
        impl Thread {
            $(
                $(#[doc = $doc])*
                #[pyo3(signature = (
                    agent_id = None, others = "prefix", tool_visibility = "hide", *,
                    others_role = "user", attribution = "{agent:NAME}: ", system_prompts = "include" $(, $option = None)?
                ))]
                #[allow(clippy::allow_attributes, clippy::too_many_arguments, reason = "keyword arguments of Python")]
                fn $name<'py>(
                    $slf: &Bound<'py, Self>,
                    agent_id: Option<String>,
                    others: &str,
                    tool_visibility: &str,
                    others_role: &str,
                    attribution: &str,
                    system_prompts: &str,
                    $($option: $type,)?
                ) -> PyResult<Bound<'py, $result>> {
                    let $view =
                        view(agent_id, others, tool_visibility, others_role, attribution, system_prompts)?;
                    $export
                }
            )+
        }
    };
}

view_methods! {
    /// Return messages of the provider layer (UPP-1.2), equal to the input of `from_upp`.
    to_upp -> PyList, |slf, view| {
        let messages = Self::compute(slf, |thread| thread.to_upp(&view))?.into_iter();
        let handles = messages.map(|message| crate::message::wrap(slf.py(), Arc::new(message)));
        PyList::new(slf.py(), handles.collect::<PyResult<Vec<_>>>()?)
    };

    /// Return a Pydantic AI history as ``ModelMessage`` objects.
    to_pydantic_ai -> PyList, |slf, view| {
        let thread = Self::read(slf)?;
        let messages = slf.py().detach(|| thread.to_messages(&view)).or_raise(slf.py())?;
        convert::build(slf.py(), &messages)
    };

    /// Return a Pydantic AI history as JSON, identical to the output of ``dump_json``. Does not need
    /// pydantic-ai.
    to_pydantic_ai_json -> PyBytes [downgrade: Option<&str>], |slf, view| {
        let version = downgrade.map(super::versions::version).transpose()?;
        let bytes = Self::compute(slf, |thread| match version {
            Some(version) => thread.to_older_pydantic_ai_json(&view, version).map(|(bytes, _)| bytes),
            None => thread.to_pydantic_ai_json(&view),
        })?;
        Ok(PyBytes::new(slf.py(), &bytes))
    };
}

#[pymethods]
impl Thread {
    #[new]
    #[pyo3(signature = (
        *, thread_id = None, title = "", agents = None, actions = None, parent_thread_id = None,
        created_at = None, updated_at = None, metadata = None
    ))]
    #[expect(clippy::too_many_arguments, reason = "keyword arguments of Python")]
    fn new(
        thread_id: Option<String>,
        title: &str,
        agents: Option<&Bound<'_, PyAny>>,
        actions: Option<&Bound<'_, PyAny>>,
        parent_thread_id: Option<String>,
        created_at: Option<&Bound<'_, PyAny>>,
        updated_at: Option<&Bound<'_, PyAny>>,
        metadata: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<PyClassInitializer<Self>> {
        let actions = actions.map(|actions| super::lists::items_of(actions, "actions")).transpose()?;
        let actions: Vec<_> = (actions.into_iter().flatten().enumerate())
            .map(|(index, action)| action_from(&action?, &format!("actions[{index}]")))
            .collect::<PyResult<_>>()?;
        let created_at = match (created_at, actions.first()) {
            (None, Some(first)) => first.timestamp().to_owned(),
            (created_at, _) => timestamp_or_now(created_at, "created_at")?,
        };
        let id = thread_id.unwrap_or_else(|| RandomIds.string());
        let mut thread = core::Thread::new(id, created_at, title);
        thread.parent_thread_id = parent_thread_id;
        thread.agents = agents.map(agents_from).transpose()?.unwrap_or_default();
        thread.metadata = metadata.map(|metadata| to_raw_object(metadata, "metadata")).transpose()?;
        for action in actions {
            thread.push(action);
        }
        if let Some(time) = updated_at {
            thread.updated_at = timestamp_from(time, "updated_at")?;
        }
        Ok(PyClassInitializer::from(Data::new(Arc::new(Shared::new(thread)))).add_subclass(Self))
    }

    /// The actions in order, a new list each time.
    #[getter]
    fn actions<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyList>> {
        list_of_actions(slf.py(), &Self::of(slf)?.now().actions)
    }

    /// Add an action at the end.
    ///
    /// Rules between actions (a result follows its call, agents are registered) are not checked here; use
    /// `validate` or `check`.
    fn append<'py>(slf: &Bound<'py, Self>, action: &Bound<'py, PyAny>) -> PyResult<Py<PyAny>> {
        let action = Arc::unwrap_or_clone(action_from(action, "action")?);
        let added = Self::of(slf)?.lock().append(action);
        wrap_action(slf.py(), added)
    }

    /// Add an agent, or replace the one with the same id, and return the thread.
    fn add_agent<'py>(slf: &Bound<'py, Self>, agent: &Bound<'py, PyAny>) -> PyResult<Bound<'py, Self>> {
        let agent = owned::<AgentConfig>(agent, "agent")?;
        Self::of(slf)?.lock().agents.add(agent);
        Ok(slf.clone())
    }

    /// Return a new thread that continues from the current end of this one.
    ///
    /// It has a new id, has this thread as its parent, and shares the actions so far.
    #[pyo3(signature = (title = None))]
    fn branch(slf: &Bound<'_, Self>, title: Option<String>) -> PyResult<Py<PyAny>> {
        Self::derive(slf, |thread| thread.branch(RandomIds.string(), now(), title))
    }

    /// Return all violations of rules, in document order. Never raises.
    #[pyo3(signature = (*, strict = false))]
    fn validate<'py>(slf: &Bound<'py, Self>, strict: bool) -> PyResult<Bound<'py, PyAny>> {
        let thread = Self::of(slf)?.now();
        let issues = slf.py().detach(|| if strict { thread.validate_strictly() } else { thread.validate() });
        issues.into_iter().map(IssueRecord::from).collect::<Vec<_>>().to_python(slf.py())
    }

    /// Raise if the document is invalid. Warnings raise only with `strict`.
    #[pyo3(signature = (*, strict = false))]
    fn check(slf: &Bound<'_, Self>, strict: bool) -> PyResult<()> {
        Self::compute(slf, |thread| if strict { thread.check_strictly() } else { thread.check() })
    }

    /// Return the canonical bytes (RFC 8785): the same for equal threads, whichever program wrote them.
    ///
    /// Different threads have different bytes: integers are exact, and members named ``__proto__`` are
    /// included. Times have one spelling (UTC, ``Z``, no trailing zeros) and never decrease; optional members
    /// that are null are absent; a thread id that is a UUID is in lower case; base64 is in the standard
    /// alphabet with padding.
    #[pyo3(signature = (*, strict = false, javascript = false))]
    fn canonical_json<'py>(
        slf: &Bound<'py, Self>,
        strict: bool,
        javascript: bool,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let form = canonical_form(javascript);
        let bytes = Self::compute(slf, |thread| {
            if strict { thread.canonical_json_strictly(form) } else { thread.canonical_json(form) }
        })?;
        Ok(PyBytes::new(slf.py(), &bytes))
    }

    /// Return the SHA-256 of the canonical bytes as 64 hexadecimal digits.
    #[pyo3(signature = (*, include_times = false, javascript = false))]
    fn digest(slf: &Bound<'_, Self>, include_times: bool, javascript: bool) -> PyResult<String> {
        Self::compute(slf, |thread| thread.digest(canonical_form(javascript), include_times))
    }

    /// Return the part that all participants share: no metadata, actions renumbered.
    fn core(slf: &Bound<'_, Self>) -> PyResult<Py<PyAny>> {
        Self::derive(slf, |thread| thread.core())
    }

    /// Return the thread with the metadata of its actions in ``metadata[namespace]["actions"]``.
    ///
    /// A namespace that the thread's own metadata uses otherwise stays in the actions.
    fn with_hoisted_metadata(slf: &Bound<'_, Self>) -> PyResult<Py<PyAny>> {
        Self::derive(slf, |thread| thread.with_hoisted_metadata())
    }

    /// Return the system prompt of an agent: its system prompts and latest instructions, or None.
    #[pyo3(signature = (agent_id = None))]
    fn system_prompt(slf: &Bound<'_, Self>, agent_id: Option<&str>) -> PyResult<Option<String>> {
        Self::compute(slf, |thread| thread.system_prompt(agent_id))
    }

    /// Return the token usage of the thread.
    fn usage<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        Self::of(slf)?.now().usage().to_python(slf.py())
    }

    /// Merge two branches: the common actions, then the new ones of this thread, then those of `other`.
    ///
    /// The result is a child of this thread. Times that differ only in their format are equal. A call of
    /// `other` gets a new id if its id is open here; a second result of a common call becomes a
    /// ``system.tp.second_return``.
    fn merge(slf: &Bound<'_, Self>, other: &Bound<'_, Self>) -> PyResult<Py<PyAny>> {
        let (ours, theirs) = (Self::of(slf)?.now(), Self::of(other)?.now());
        let merged = ours.merge(&theirs, RandomIds.string(), now());
        Self::handle(slf.py(), merged.map_err(value_error)?)
    }

    /// Replace the contents of some actions; their type, agent and time remain.
    ///
    /// Also removes their round-trip metadata, and a title that repeats them. Other actions are unchanged.
    #[pyo3(signature = (which, replacement = "[redacted]"))]
    fn redact(slf: &Bound<'_, Self>, which: &Bound<'_, PyAny>, replacement: &str) -> PyResult<Py<PyAny>> {
        let thread = Self::of(slf)?.now();
        let chosen = super::edit::sequences(&thread, which)?;
        Self::handle(slf.py(), thread.redact(replacement, |action| chosen.contains(&action.sequence())))
    }

    /// Return the actions of one agent or of a time range as a new thread, renumbered.
    #[pyo3(signature = (*, agent_id = None, since = None, until = None))]
    fn slice(
        slf: &Bound<'_, Self>,
        agent_id: Option<String>,
        since: Option<&Bound<'_, PyAny>>,
        until: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        let thread = Self::of(slf)?.now();
        let slice = super::edit::slice(slf.py(), &thread, agent_id, since, until)?;
        Self::handle(slf.py(), thread.slice(&slice, RandomIds.string(), now()))
    }

    /// Return the conversation as chat messages of the Vercel AI SDK.
    ///
    /// With `sdk`, all parts are those that this major of the SDK accepts; parts that it does not have become
    /// data parts. Without it, messages of clients are unchanged. Attachments of users become files after the
    /// text. Numbers beyond the range of doubles become None, as in a browser.
    #[pyo3(signature = (sdk = None, *, sidecar = "portable", dynamic_tools = false))]
    fn to_ui_messages<'py>(
        slf: &Bound<'py, Self>,
        sdk: Option<u32>,
        sidecar: &str,
        dynamic_tools: bool,
    ) -> PyResult<Bound<'py, PyList>> {
        let options = ui_export(sdk.unwrap_or(6), sidecar, "all", dynamic_tools)?;
        let options = ExportOptions { adapt: sdk.is_some(), ..options };
        vercel_ui::to_messages(slf.py(), &Self::of(slf)?.now(), options)
    }

    /// Return the actions of agents as a UI message stream of the Vercel AI SDK, an iterator of chunks.
    ///
    /// The stream is a snapshot of the thread. Chunks are created during iteration.
    #[pyo3(signature = (sdk = 6, *, turns = "all", sidecar = "portable"))]
    fn to_ui_stream(slf: &Bound<'_, Self>, sdk: u32, turns: &str, sidecar: &str) -> PyResult<Py<UiChunks>> {
        let options = ui_export(sdk, sidecar, turns, false)?;
        vercel_ui::to_stream(slf.py(), &Self::of(slf)?.now(), options)
    }

    /// Return the same stream as a response body: server-sent events, ``[DONE]`` last.
    #[pyo3(signature = (sdk = 6, *, turns = "all", sidecar = "portable"))]
    fn to_ui_stream_bytes<'py>(
        slf: &Bound<'py, Self>,
        sdk: u32,
        turns: &str,
        sidecar: &str,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let options = ui_export(sdk, sidecar, turns, false)?;
        let bytes = Self::compute(slf, |thread| Ok(thread.to_ui_stream_bytes(&options)))?;
        Ok(PyBytes::new(slf.py(), &bytes))
    }

    /// Return the document as JSON text, compact by default. Releases the GIL.
    #[pyo3(signature = (*, indent = None, by_alias = true, exclude_none = false))]
    fn model_dump_json<'py>(
        slf: &Bound<'py, Self>,
        indent: Option<usize>,
        by_alias: bool,
        exclude_none: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        if indent.is_none() && by_alias && !exclude_none {
            return Self::to_json(slf).map(Bound::into_any);
        }
        let options = PyDict::new(py);
        options.set_item("indent", indent)?;
        options.set_item("by_alias", by_alias)?;
        options.set_item("exclude_none", exclude_none)?;
        py.get_type::<Data>().call_method("model_dump_json", (slf,), Some(&options))
    }

    /// Return compact JSON in UTF-8, without a copy to str. Releases the GIL.
    fn to_json_bytes<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyBytes>> {
        let thread = Self::of(slf)?.now();
        let bytes = slf.py().detach(|| thread.to_json());
        Ok(PyBytes::new(slf.py(), &bytes))
    }

    /// Return the document as JSON text, compact by default. Releases the GIL.
    fn to_json<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyString>> {
        let thread = Self::of(slf)?.now();
        let text = slf.py().detach(|| turntree_core::json::write(&thread));
        Ok(PyString::new(slf.py(), &text.or_raise(slf.py())?))
    }

    fn __len__(slf: &Bound<'_, Self>) -> PyResult<usize> {
        Ok(Self::of(slf)?.lock().actions.len())
    }

    fn __getitem__<'py>(slf: &Bound<'py, Self>, index: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let thread = Self::of(slf)?.now();
        if index.is_instance_of::<PySlice>() {
            return list_of_actions(slf.py(), &thread.actions)?.as_any().get_item(index);
        }
        let Ok(index) = index.extract::<isize>() else {
            let found = index.get_type().name()?;
            return Err(PyTypeError::new_err(format!("thread indices are integers or slices, not {found}")));
        };
        let position = match index {
            0.. => usize::try_from(index).ok(),
            _ => thread.actions.len().checked_sub(index.unsigned_abs()),
        };
        let action = position.and_then(|position| thread.actions.get(position));
        action.ok_or_else(|| PyIndexError::new_err("thread index out of range"))?.to_python(slf.py())
    }

    fn __iter__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        Ok(Self::actions(slf)?.try_iter()?.into_any())
    }

    fn __repr__(slf: &Bound<'_, Self>) -> PyResult<String> {
        let thread = Self::of(slf)?.now();
        let title: String = thread.title.chars().take(LONGEST).collect();
        Ok(format!(
            "Thread(thread_id={:?}, title={title:?}, agents={}, actions={})",
            thread.thread_id.chars().take(LONGEST).collect::<String>(),
            thread.agents.len(),
            thread.actions.len()
        ))
    }
}

fn list_of_actions<'py>(py: Python<'py>, actions: &Actions) -> PyResult<Bound<'py, PyList>> {
    let handles = actions.iter().map(|action| wrap_action(py, Arc::clone(action)));
    PyList::new(py, handles.collect::<PyResult<Vec<_>>>()?)
}

const fn canonical_form(javascript: bool) -> CanonicalForm {
    if javascript { CanonicalForm::JavaScript } else { CanonicalForm::Exact }
}
