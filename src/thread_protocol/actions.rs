//! Actions: frozen handles on the actions that threads share.
//!
//! Spec: ThreadProtocol 1.0.0, "Action".

use std::sync::Arc;

use crate::prelude::*;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::types::{PyDict, PyString};

use super::content::{Attachment, content_from};
use super::options::owned;
use crate::convert::error::of_plain;
use crate::convert::json::{document_raw, to_raw, to_raw_object};
use crate::convert::text::text_of;
use crate::data::{Data, DataClass, levels, value_of};
use crate::error::{OrRaise as _, wrong_type};
use crate::time::from_python;
use crate::to_python::{ToPython, data_class};
use turntree_core::json::{self, Extra, ParseError, RawJson};
use turntree_core::limits::Limits;
use turntree_core::time::{Clock, SystemClock};
use turntree_thread_protocol::action::{self as core, Action};

/// An action as an instance of the class for its type.
pub(super) fn wrap(py: Python<'_>, action: Arc<Action>) -> PyResult<Py<PyAny>> {
    macro_rules! handle {
        ($class:ident) => {{ Ok(Py::new(py, PyClassInitializer::from(Data::new(action)).add_subclass($class))?.into_any()) }};
    }
    match &*action {
        Action::UserMessage(_) => handle!(UserMessageAction),
        Action::AssistantMessage(_) => handle!(AssistantMessageAction),
        Action::Thinking(_) => handle!(ThinkingAction),
        Action::ToolCall(_) => handle!(ToolCallAction),
        Action::ToolReturn(_) => handle!(ToolReturnAction),
        Action::System(_) => handle!(SystemAction),
        Action::Other(_) => handle!(OtherAction),
    }
}

impl ToPython for Arc<Action> {
    fn to_python<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        Ok(wrap(py, Self::clone(self))?.into_bound(py))
    }
}

/// An action from an instance of any action class or from a dict.
///
/// # Errors
/// `TypeError` with the argument's name if the value is neither an action nor a dict; `turntree.ValidationError` for a
/// dict that is not an action.
pub(super) fn action_from(value: &Bound<'_, PyAny>, what: &str) -> PyResult<Arc<Action>> {
    if let Ok(data) = value.cast::<Data>()
        && let Some(action) = data.get().share::<Action>()
    {
        return Ok(action);
    }
    let Ok(dict) = value.cast::<PyDict>() else {
        return Err(wrong_type(value, what, "an action or its dict"));
    };
    let dict = dict.copy()?;
    if !dict.contains("sequence")? {
        dict.set_item("sequence", 0)?;
    }
    if !dict.contains("timestamp")? {
        dict.set_item("timestamp", now())?;
    }
    let raw = document_raw(&dict, what)?;
    json::parse(raw.get(), &Limits::of_part(levels::ACTION))
        .map(Arc::new)
        .map_err(of_plain)
        .or_raise_in(value.py(), raw.get())
}

/// The current time as a timestamp.
pub(super) fn now() -> String {
    SystemClock.now().to_string()
}

/// A timestamp from text, which is unchanged, or from a `datetime`.
///
/// # Errors
/// `TypeError` for anything else.
pub(super) fn timestamp_from(value: &Bound<'_, PyAny>, what: &str) -> PyResult<String> {
    if value.is_instance_of::<PyString>() {
        return text_of(value, what);
    }
    Ok(from_python(value, what)?.to_string())
}

/// As [`timestamp_from`]; the current time if there is no value.
pub(super) fn timestamp_or_now(value: Option<&Bound<'_, PyAny>>, what: &str) -> PyResult<String> {
    value.map_or_else(|| Ok(now()), |value| timestamp_from(value, what))
}

/// Defines the class of one variant of [`Action`]: the common attributes, those of the variant, then further methods.
macro_rules! action_class {
    (
        $(#[doc = $doc:literal])*
        $class:ident as $name:literal, $expected:literal { $($(#[doc = $field_doc:literal])* $field:ident),* $(,)? }
        $variant:ident(core::$inner:ident)
        $(
            fn new($($signature:tt)*)($($argument:ident: $type:ty),+ $(,)?) {
                $($value_field:ident $(: $value:expr)?),+ $(,)?
            }
        )?
    ) => {
        $(#[doc = $doc])*
        #[pyclass(frozen, extends = Data, name = $name, module = "turntree.thread_protocol")]
        pub(crate) struct $class;

        impl DataClass for $class {
            type Value = Action;
            const OUTER_LEVELS: usize = levels::ACTION;

            fn wrap(py: Python<'_>, value: Arc<Action>) -> PyResult<Py<PyAny>> {
                wrap(py, value)
            }

            fn accept(value: &Action) -> Result<(), ParseError> {
                match value {
                    Action::$variant(_) => Ok(()),
                    other => Err(super::error::wrong_kind("action_type", $expected, other.action_type())),
                }
            }

            fn json_schema() -> serde_json::Value {
                json::schema::document::<core::$inner>()
            }
        }

        impl $class {
            fn action<'a>(slf: &'a Bound<'_, Self>) -> PyResult<&'a Action> {
                value_of(slf.as_super())
            }

            fn of<'a>(slf: &'a Bound<'_, Self>) -> PyResult<&'a core::$inner> {
                match Self::action(slf)? {
                    Action::$variant(action) => Ok(action),
                    _ => Err(PyTypeError::new_err("the handle holds another kind of action")),
                }
            }

            #[allow(dead_code, clippy::allow_attributes, reason = "one class has no constructor")]
            fn holding(action: core::$inner) -> PyClassInitializer<Self> {
                PyClassInitializer::from(Data::new(Arc::new(Action::$variant(action)))).add_subclass(Self)
            }
        }

        #[pymethods]
        impl $class {
            /// Type of the action.
            #[getter]
            fn action_type<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyString>> {
                Ok(PyString::intern(slf.py(), Self::action(slf)?.action_type()))
            }

            /// Id of the action, or None.
            #[getter]
            fn action_id<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
                Self::of(slf)?.action_id.to_python(slf.py())
            }

            /// Timestamp, as it is written in the document.
            #[getter]
            fn timestamp<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
                Self::of(slf)?.timestamp.to_python(slf.py())
            }

            /// Number in the thread, from 1; 0 before it is added to a thread.
            #[getter]
            fn sequence<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
                Self::of(slf)?.sequence.to_python(slf.py())
            }

            /// Metadata of applications by namespace, a new dict each time, or None.
            #[getter]
            fn metadata<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
                Self::of(slf)?.metadata.to_python(slf.py())
            }

            $(
                $(#[doc = $field_doc])*
                #[getter]
                fn $field<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
                    Self::of(slf)?.$field.to_python(slf.py())
                }
            )*

            $(
                #[new]
                #[pyo3(signature = ($($signature)*, timestamp = None, sequence = 0, action_id = None, metadata = None))]
                #[allow(clippy::too_many_arguments, clippy::allow_attributes, reason = "keyword arguments of Python")]
                fn new(
                    $($argument: $type,)+
                    timestamp: Option<&Bound<'_, PyAny>>,
                    sequence: u64,
                    action_id: Option<String>,
                    metadata: Option<&Bound<'_, PyAny>>,
                ) -> PyResult<PyClassInitializer<Self>> {
                    Ok(Self::holding(core::$inner {
                        action_id: action_id.map(Into::into),
                        timestamp: timestamp_or_now(timestamp, "timestamp")?.into(),
                        sequence,
                        metadata: metadata.map(|metadata| to_raw_object(metadata, "metadata")).transpose()?,
                        extra: Extra::new(),
                        $($value_field $(: $value)?),+
                    }))
                }
            )?
        }
    };
}

action_class! {
    /// A message of a user.
    ///
    /// Spec: ThreadProtocol 1.0.0, "Core Actions".
    UserMessageAction as "UserMessageAction", "user_message" {
        /// Content: a text, or a list of parts. A part of an unknown type is a dict.
        content,
        /// Attachments of the message.
        attachments,
    }
    UserMessage(core::UserMessageAction)

    fn new(content, *, attachments = None)(
        content: &Bound<'_, PyAny>, attachments: Option<&Bound<'_, PyAny>>
    ) {
        content: content_from(content, "content")?,
        attachments: attachments.map(|list| super::lists::list_of::<Attachment>(list, "attachments")).transpose()?,
    }
}

action_class! {
    /// A message of an agent.
    ///
    /// Spec: ThreadProtocol 1.0.0, "Core Actions".
    AssistantMessageAction as "AssistantMessageAction", "assistant_message" {
        /// Id of the agent, a key of the document's agents.
        agent_id,
        /// Content: a text, or a list of parts. A part of an unknown type is a dict.
        content,
        /// Why the model stopped: `stop`, `tool_call`, `length` or `content_filter`.
        finish_reason,
        /// Token usage.
        usage,
    }
    AssistantMessage(core::AssistantMessageAction)

    fn new(content, *, agent_id, finish_reason = None, usage = None)(
        content: &Bound<'_, PyAny>, agent_id: String, finish_reason: Option<String>, usage: Option<&Bound<'_, PyAny>>
    ) {
        agent_id: agent_id.into(),
        content: content_from(content, "content")?,
        finish_reason: finish_reason.map(Into::into),
        usage: usage.map(|usage| owned::<Usage>(usage, "usage")).transpose()?.map(Box::new),
    }
}

action_class! {
    /// Reasoning of an agent.
    ///
    /// Spec: ThreadProtocol 1.0.0, "Core Actions".
    ThinkingAction as "ThinkingAction", "thinking" {
        /// Id of the agent, a key of the document's agents.
        agent_id,
        /// The reasoning, as far as the provider returns it.
        content,
        /// The provider's signature, to be sent back.
        signature,
        /// Provider of the signature; `unknown` if it is not given.
        provider_name,
        /// The provider's id of the reasoning.
        thinking_id,
        /// Token usage.
        usage,
    }
    Thinking(core::ThinkingAction)

    fn new(content = None, *, agent_id, provider_name = "unknown", signature = None, thinking_id = None, usage = None)(
        content: Option<String>, agent_id: String, provider_name: &str, signature: Option<String>, thinking_id: Option<String>, usage: Option<&Bound<'_, PyAny>>
    ) {
        agent_id: agent_id.into(),
        content,
        signature: signature.map(Into::into),
        provider_name: provider_name.into(),
        thinking_id: thinking_id.map(Into::into),
        usage: usage.map(|usage| owned::<ThinkingUsage>(usage, "usage")).transpose()?.map(Box::new),
    }
}

action_class! {
    /// A tool call of an agent.
    ///
    /// Spec: ThreadProtocol 1.0.0, "Core Actions".
    ToolCallAction as "ToolCallAction", "tool_call" {
        /// Id of the agent, a key of the document's agents.
        agent_id,
        /// Name of the tool.
        tool_name,
        /// Id of the call. Its result has the same id.
        tool_call_id,
        /// Arguments, usually an object.
        args,
    }
    ToolCall(core::ToolCallAction)

    fn new(tool_name, args = None, *, agent_id, tool_call_id)(
        tool_name: String, args: Option<&Bound<'_, PyAny>>, agent_id: String, tool_call_id: String
    ) {
        agent_id: agent_id.into(),
        tool_name: tool_name.into(),
        tool_call_id: tool_call_id.into(),
        args: args.map_or_else(|| Ok(RawJson::empty_object()), |args| to_raw(args, "args"))?,
    }
}

action_class! {
    /// The result of a tool call.
    ///
    /// Spec: ThreadProtocol 1.0.0, "Core Actions".
    ToolReturnAction as "ToolReturnAction", "tool_return" {
        /// Id of the call.
        tool_call_id,
        /// Name of the tool, as in the call.
        tool_name,
        /// `success`, `error` or `validation_error`.
        status,
        /// The result or the error.
        content,
    }
    ToolReturn(core::ToolReturnAction)

    fn new(tool_name, content, *, tool_call_id, status = "success")(
        tool_name: String, content: &Bound<'_, PyAny>, tool_call_id: String, status: &str
    ) {
        tool_call_id: tool_call_id.into(),
        tool_name: tool_name.into(),
        status: status.into(),
        content: to_raw(content, "content")?,
    }
}

fn system_type(action_type: String) -> PyResult<String> {
    if action_type.starts_with("system.") {
        return Ok(action_type);
    }
    let message =
        format!("action_type \"{action_type}\" must begin with \"system.\", as \"system.{action_type}\"");
    Err(PyValueError::new_err(message))
}

action_class! {
    /// A system event.
    ///
    /// Spec: ThreadProtocol 1.0.0, "System Actions".
    SystemAction as "SystemAction", "system.*" {
        /// Data of the event.
        data,
    }
    System(core::SystemAction)

    fn new(action_type, data = None, *)(action_type: String, data: Option<&Bound<'_, PyAny>>) {
        action_type: system_type(action_type)?.into(),
        data: data.map(|data| to_raw(data, "data")).transpose()?.unwrap_or_default(),
    }
}

action_class! {
    /// An action of an unknown type, preserved as it was read.
    OtherAction as "OtherAction", "a type of no known version" {}
    Other(core::OtherAction)
}

data_class! {
    /// Tokens of a model's answer.
    ///
    /// Spec: ThreadProtocol 1.0.0, "Core Actions".
    Usage as "Usage" in "turntree.thread_protocol" over core::Usage, inside ACTION_USAGE {
        /// Input tokens.
        input_tokens,
        /// Output tokens.
        output_tokens,
        /// Total tokens.
        total_tokens,
    }

    #[new]
    #[pyo3(signature = (input_tokens = 0, output_tokens = 0, total_tokens = None))]
    fn new(input_tokens: u64, output_tokens: u64, total_tokens: Option<u64>) -> PyClassInitializer<Self> {
        Self::holding(core::Usage { input_tokens, output_tokens, total_tokens, extra: Extra::new() })
    }
}

data_class! {
    /// Tokens of reasoning.
    ///
    /// Spec: ThreadProtocol 1.0.0, "Core Actions".
    ThinkingUsage as "ThinkingUsage" in "turntree.thread_protocol" over core::ThinkingUsage, inside ACTION_USAGE {
        /// Reasoning tokens, if the provider counts them separately.
        thinking_tokens,
    }

    #[new]
    #[pyo3(signature = (thinking_tokens = None))]
    fn new(thinking_tokens: Option<u64>) -> PyClassInitializer<Self> {
        Self::holding(core::ThinkingUsage { thinking_tokens, extra: Extra::new() })
    }
}
