//! Messages as Python classes: frozen handles on shared Rust messages.
//!
//! Spec: UPP-1.2 §4.

use std::sync::Arc;

use crate::prelude::*;
use pyo3::exceptions::PyTypeError;
use pyo3::intern;
use pyo3::types::{PyDict, PyList, PyString};

use super::content::{block_from, content_from};
use super::convert::error::wrong_kind;
use super::convert::json::{to_raw, to_raw_object};
use super::data::{Data, DataClass, extract, levels, value_of};
use super::records::{ToolCall, ToolResult};
use super::to_python::{ToPython, attributes};
use crate::convert::text::text_of;
use crate::error::{required, wrong_type};
use turntree_core::ids::RandomIds;
use turntree_core::json::schema::{Definitions, JsonSchema};
use turntree_core::json::{Extra, ParseError, RawJson};
use turntree_core::message::content::ContentBlock;
use turntree_core::message::{Body, Message as CoreMessage, MessageKind, ToolCall as CoreCall};
use turntree_core::time::SystemClock;

/// Base class of the messages: user, assistant and tool result messages.
///
/// ``Message.model_validate`` and ``Message.from_json`` return an object of the matching subclass.
///
/// Spec: UPP-1.2 §4.
#[pyclass(frozen, subclass, extends = Data, module = "turntree.upp")]
pub(crate) struct Message;

/// A message of the user or the application.
///
/// Spec: UPP-1.2 §4.
#[pyclass(frozen, extends = Message, module = "turntree.upp")]
pub(crate) struct UserMessage;

/// A message of a model.
///
/// Spec: UPP-1.2 §4.
#[pyclass(frozen, extends = Message, module = "turntree.upp")]
pub(crate) struct AssistantMessage;

/// The results of tool calls.
///
/// Spec: UPP-1.2 §4.
#[pyclass(frozen, extends = Message, module = "turntree.upp")]
pub(crate) struct ToolResultMessage;

/// A message as an instance of the class for its type.
pub(crate) fn wrap(py: Python<'_>, message: Arc<CoreMessage>) -> PyResult<Py<PyAny>> {
    let kind = message.kind();
    let base = PyClassInitializer::from(Data::new(message)).add_subclass(Message);
    Ok(match kind {
        MessageKind::User => Py::new(py, base.add_subclass(UserMessage))?.into_any(),
        MessageKind::Assistant => Py::new(py, base.add_subclass(AssistantMessage))?.into_any(),
        MessageKind::ToolResult => Py::new(py, base.add_subclass(ToolResultMessage))?.into_any(),
    })
}

impl ToPython for Arc<CoreMessage> {
    fn to_python<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        Ok(wrap(py, Self::clone(self))?.into_bound(py))
    }
}

impl DataClass for Message {
    type Value = CoreMessage;
    const OUTER_LEVELS: usize = levels::MESSAGE;

    fn wrap(py: Python<'_>, value: Arc<CoreMessage>) -> PyResult<Py<PyAny>> {
        wrap(py, value)
    }
}

/// The data class of one kind of message.
macro_rules! message_class {
    ($class:ident, $kind:expr) => {
        impl DataClass for $class {
            type Value = CoreMessage;
            const OUTER_LEVELS: usize = levels::MESSAGE;

            fn wrap(py: Python<'_>, value: Arc<CoreMessage>) -> PyResult<Py<PyAny>> {
                wrap(py, value)
            }

            fn accept(value: &CoreMessage) -> Result<(), ParseError> {
                if value.kind() == $kind {
                    return Ok(());
                }
                Err(wrong_kind("type", $kind.as_str(), value.kind().as_str()))
            }

            fn json_schema() -> serde_json::Value {
                struct Schema;
                impl JsonSchema for Schema {
                    fn schema(definitions: &mut Definitions) -> serde_json::Value {
                        $kind.schema(definitions)
                    }
                }
                turntree_core::json::schema::document::<Schema>()
            }
        }
    };
}

message_class!(UserMessage, MessageKind::User);
message_class!(AssistantMessage, MessageKind::Assistant);
message_class!(ToolResultMessage, MessageKind::ToolResult);

/// The options of every message.
struct Options<'a, 'py> {
    id: Option<String>,
    metadata: Option<&'a Bound<'py, PyAny>>,
    timestamp: Option<&'a Bound<'py, PyAny>>,
}

impl Options<'_, '_> {
    fn message(self, body: Body) -> PyResult<PyClassInitializer<Message>> {
        let mut message = CoreMessage::new(body, &RandomIds, &SystemClock);
        if let Some(id) = self.id {
            message.id = id;
        }
        if let Some(metadata) = self.metadata.filter(|metadata| !metadata.is_none()) {
            message.metadata = Some(to_raw_object(metadata, "metadata")?);
        }
        if let Some(timestamp) = self.timestamp.filter(|timestamp| !timestamp.is_none()) {
            message.timestamp = super::time::from_python(timestamp, "timestamp")?;
        }
        Ok(PyClassInitializer::from(Data::new(Arc::new(message))).add_subclass(Message))
    }
}

impl Message {
    fn of<'a>(slf: &'a Bound<'_, Self>) -> PyResult<&'a CoreMessage> {
        value_of(slf.as_super())
    }
}

/// Attributes for the blocks of one kind.
macro_rules! blocks_of_kind {
    ($( $(#[doc = $doc:literal])* $name:ident: $kind:ident; )+) => {
        attributes! {
            Message {
                $(
                    $(#[doc = $doc])*
                    $name = |message| {
                        let blocks = message.content().iter();
                        blocks.filter(|block| matches!(block, ContentBlock::$kind(_))).collect::<Vec<_>>()
                    },
                )+
            }
        }
    };
}

blocks_of_kind! {
    /// The image blocks.
    images: Image;
    /// The document blocks.
    documents: Document;
    /// The audio blocks.
    audio: Audio;
    /// The video blocks.
    video: Video;
    /// The reasoning blocks.
    reasoning: Reasoning;
}

attributes! {
    Message {
        /// Id of the message: a UUIDv4, or the vendor's id.
        id,
        /// Time of creation, in UTC.
        timestamp,
        /// Metadata by provider name, or None.
        metadata,
        /// The content blocks; a block of an unknown type is a dict. Empty for tool results.
        content = |message| message.content().iter().collect::<Vec<_>>(),
        /// All text blocks joined by a blank line.
        text = CoreMessage::text,
    }
}

#[pymethods]
impl Message {
    /// Type of the message: "user", "assistant" or `tool_result`.
    #[getter(r#type)]
    fn kind<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyString>> {
        let py = slf.py();
        Ok(match Self::of(slf)?.kind() {
            MessageKind::User => intern!(py, "user"),
            MessageKind::Assistant => intern!(py, "assistant"),
            MessageKind::ToolResult => intern!(py, "tool_result"),
        }
        .clone())
    }
}

#[pymethods]
impl UserMessage {
    #[new]
    #[pyo3(
        signature = (content = None, *, id = None, metadata = None, timestamp = None),
        text_signature = "(content, *, id=None, metadata=None, timestamp=None)"
    )]
    fn new(
        content: Option<&Bound<'_, PyAny>>,
        id: Option<String>,
        metadata: Option<&Bound<'_, PyAny>>,
        timestamp: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<PyClassInitializer<Self>> {
        let content = required(content, "UserMessage", "content", "UserMessage(\"…\")")?;
        let body = Body::User { content: content_from(content, "content")? };
        Ok(Options { id, metadata, timestamp }.message(body)?.add_subclass(Self))
    }
}

#[pymethods]
impl AssistantMessage {
    #[new]
    #[pyo3(
        signature = (content = None, tool_calls = None, *, id = None, metadata = None, timestamp = None),
        text_signature = "(content, tool_calls=None, *, id=None, metadata=None, timestamp=None)"
    )]
    fn new(
        content: Option<&Bound<'_, PyAny>>,
        tool_calls: Option<&Bound<'_, PyAny>>,
        id: Option<String>,
        metadata: Option<&Bound<'_, PyAny>>,
        timestamp: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<PyClassInitializer<Self>> {
        let content = required(content, "AssistantMessage", "content", "AssistantMessage(\"…\")")?;
        let tool_calls = tool_calls.map(|calls| list_of::<ToolCall>(calls, "tool_calls")).transpose()?;
        let body = Body::Assistant { content: content_from(content, "content")?, tool_calls };
        Ok(Options { id, metadata, timestamp }.message(body)?.add_subclass(Self))
    }
}

impl AssistantMessage {
    fn of<'a>(slf: &'a Bound<'_, Self>) -> PyResult<&'a CoreMessage> {
        Message::of(slf.as_super())
    }
}

attributes! {
    AssistantMessage {
        /// The tool calls that the model requests, or None.
        tool_calls = |message| match &message.body {
            Body::Assistant { tool_calls, .. } => tool_calls.as_ref(),
            _ => None,
        },
        /// Whether the model requests tool calls.
        has_tool_calls = CoreMessage::has_tool_calls,
    }
}

#[pymethods]
impl ToolResultMessage {
    #[new]
    #[pyo3(
        signature = (results = None, *, id = None, metadata = None, timestamp = None),
        text_signature = "(results, *, id=None, metadata=None, timestamp=None)"
    )]
    fn new(
        results: Option<&Bound<'_, PyAny>>,
        id: Option<String>,
        metadata: Option<&Bound<'_, PyAny>>,
        timestamp: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<PyClassInitializer<Self>> {
        let results =
            required(results, "ToolResultMessage", "results", "ToolResultMessage([ToolResult(id, result)])")?;
        let body = Body::ToolResult { results: list_of::<ToolResult>(results, "results")? };
        Ok(Options { id, metadata, timestamp }.message(body)?.add_subclass(Self))
    }
}

impl ToolResultMessage {
    fn of<'a>(slf: &'a Bound<'_, Self>) -> PyResult<&'a CoreMessage> {
        Message::of(slf.as_super())
    }
}

attributes! {
    ToolResultMessage {
        /// One result per call, in the order of the calls.
        results = |message| message.results().iter().collect::<Vec<_>>(),
    }
}

fn list_of<C: DataClass>(values: &Bound<'_, PyAny>, what: &str) -> PyResult<Vec<C::Value>>
where
    C::Value: Clone,
{
    if values.is_instance_of::<PyString>() || values.is_instance_of::<PyDict>() {
        return Err(wrong_type(values, what, "a list"));
    }
    let items = values.try_iter().map_err(|_| wrong_type(values, what, "a list"))?.enumerate();
    items.map(|(place, item)| Ok((*extract::<C>(&item?, &format!("{what}[{place}]"))?).clone())).collect()
}

/// A message from an instance or from plain data.
///
/// # Errors
/// `TypeError` naming the argument, or `turntree.ValidationError`.
pub(crate) fn message_from(value: &Bound<'_, PyAny>, what: &str) -> PyResult<Arc<CoreMessage>> {
    check_not_foreign(value, what)?;
    if value.is_instance_of::<PyDict>() || value.is_instance_of::<Message>() {
        return extract::<Message>(value, what);
    }
    Err(wrong_type(value, what, "a message (or its dict)"))
}

/// Refuses messages of other libraries with the way to convert them.
///
/// # Errors
/// `TypeError` for a dict in the form of another library, and for objects of Pydantic AI.
pub(crate) fn check_not_foreign(value: &Bound<'_, PyAny>, what: &str) -> PyResult<()> {
    if let Ok(dict) = value.cast::<PyDict>() {
        return foreign_form(dict)?
            .map_or(Ok(()), |form| Err(PyTypeError::new_err(format!("{what} is {form}"))));
    }
    let module = value.get_type().module()?;
    if module.to_str()?.split('.').next() == Some("pydantic_ai") {
        return Err(PyTypeError::new_err(format!(
            "{what} is a message of Pydantic AI; convert the history with turntree.upp.from_pydantic_ai(messages)"
        )));
    }
    Ok(())
}

/// Which library writes messages like this one, and how they are converted.
fn foreign_form(dict: &Bound<'_, PyDict>) -> PyResult<Option<&'static str>> {
    let has = |key: &str| dict.contains(key);
    Ok(if has("kind")? && has("parts")? {
        Some(
            "a message of Pydantic AI as a dict; convert the history with \
             turntree.upp.from_pydantic_ai(messages), with the messages themselves or their JSON",
        )
    } else if has("role")? && has("parts")? {
        Some(
            "a message in the form of a chat page (useChat) or of Gemini's API; read the body of a chat page with \
             turntree.thread_protocol.ui_input(body), or write it as UserMessage(content) or \
             AssistantMessage(content) of turntree.upp",
        )
    } else if has("role")? && !has("type")? {
        Some(
            "a message in the form of OpenAI's API; write it as UserMessage(content) or \
             AssistantMessage(content) of turntree.upp",
        )
    } else {
        None
    })
}

/// Content blocks and tool calls from a list of both; `what` names the list in errors.
///
/// # Errors
/// Those of [`block_from`].
pub(crate) fn content_and_calls(
    items: &Bound<'_, PyList>,
    what: &str,
) -> PyResult<(Vec<ContentBlock>, Vec<CoreCall>)> {
    let (mut content, mut tool_calls) = (Vec::new(), Vec::new());
    for (place, item) in items.iter().enumerate() {
        match call_from(&item)? {
            Some(call) => tool_calls.push(call),
            None => content.push(block_from(&item, &format!("{what}[{place}]"))?),
        }
    }
    Ok((content, tool_calls))
}

/// A call from a handle, or from a dict that names a tool; the id may be missing.
fn call_from(item: &Bound<'_, PyAny>) -> PyResult<Option<CoreCall>> {
    if let Ok(data) = item.cast::<Data>() {
        return Ok(data.get().value::<CoreCall>().cloned());
    }
    let Ok(dict) = item.cast::<PyDict>() else { return Ok(None) };
    let find = |camel: &str, snake: &str| -> PyResult<Option<Bound<'_, PyAny>>> {
        dict.get_item(camel)?.map_or_else(|| dict.get_item(snake), |value| Ok(Some(value)))
    };
    let Some(tool_name) = find("toolName", "tool_name")? else { return Ok(None) };
    let tool_call_id = find("toolCallId", "tool_call_id")?;
    let arguments = dict.get_item("arguments")?;
    Ok(Some(CoreCall {
        tool_call_id: tool_call_id.map(|id| text_of(&id, "toolCallId")).transpose()?.unwrap_or_default(),
        tool_name: text_of(&tool_name, "toolName")?,
        arguments: arguments
            .map_or_else(|| Ok(RawJson::empty_object()), |value| to_raw(&value, "arguments"))?,
        extra: Extra::new(),
    }))
}
