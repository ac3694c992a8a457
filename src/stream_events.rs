//! Stream events as Python classes: [`StreamEvent`] and a subclass for each type of the specification.
//!
//! Spec: UPP-1.2 §11.1.

use std::sync::Arc;

use crate::prelude::*;
use pyo3::intern;
use pyo3::types::{PyDict, PyString, PyTuple};

use super::content::source;
use super::convert::error::wrong_kind;
use super::convert::json::to_raw;
use super::data::{ClassRegistry, Data, DataClass, parse, value_of};
use super::to_python::{ToPython, attributes};
use turntree_core::json::ParseError;
use turntree_core::message::{Delta, StreamEvent as CoreEvent};

/// The type of reports of tools. UPP-1.2 does not define it, so the core has it as an unknown type.
const PROGRESS: &str = "tool_execution_progress";

/// One event of a stream. Each type has a subclass, which ``match`` and type checkers know.
///
/// Times are milliseconds since 1970. Events of unknown types are unchanged; their class is `StreamEvent`.
///
/// Spec: UPP-1.2 §11.1.
#[pyclass(frozen, subclass, extends = Data, module = "turntree.upp")]
pub(crate) struct StreamEvent;

impl StreamEvent {
    /// The value of an instance.
    fn of<'a>(slf: &'a Bound<'_, Self>) -> PyResult<&'a CoreEvent> {
        value_of(slf.as_super())
    }
}

attributes! {
    StreamEvent {
        /// Index of the block in the message, or of the call in the response, from 0.
        index,
        /// The new pieces as a dict, by the specification's names; media as bytes.
        delta,
    }
}

#[pymethods]
impl StreamEvent {
    #[new]
    fn build(r#type: &str, index: u32, delta: &Bound<'_, PyDict>) -> PyResult<Py<PyAny>> {
        let py = delta.py();
        let event = PyDict::new(py);
        event.set_item("type", r#type)?;
        event.set_item("index", index)?;
        event.set_item("delta", delta)?;
        let raw = to_raw(event.as_any(), "delta")?;
        Self::wrap(py, Arc::new(parse::<Self>(py, raw.get())?))
    }

    /// Type of the event, such as `text_delta`.
    #[getter(r#type)]
    fn kind<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        Ok(PyString::intern(slf.py(), Self::of(slf)?.delta.kind()).into_any())
    }
}

impl ToPython for CoreEvent {
    fn to_python<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        Ok(StreamEvent::wrap(py, Arc::new(self.clone()))?.into_bound(py))
    }
}

impl DataClass for StreamEvent {
    type Value = CoreEvent;

    fn wrap(py: Python<'_>, event: Arc<CoreEvent>) -> PyResult<Py<PyAny>> {
        wrap(py, event)
    }
}

/// Defines the class of one type of events.
macro_rules! event_class {
    ($(#[doc = $doc:literal])* $class:ident of $variant:ident, $kind:expr; $($(#[doc = $field_doc:literal])* $field:ident,)*) => {
        $(#[doc = $doc])*
        #[pyclass(frozen, extends = StreamEvent, module = "turntree.upp")]
        pub(crate) struct $class;

        impl DataClass for $class {
            type Value = CoreEvent;

            fn wrap(py: Python<'_>, event: Arc<CoreEvent>) -> PyResult<Py<PyAny>> {
                wrap(py, event)
            }

            fn accept(event: &CoreEvent) -> Result<(), ParseError> {
                let kind = event.delta.kind();
                if kind == $kind { Ok(()) } else { Err(wrong_kind("type", $kind, kind)) }
            }
        }

        #[pymethods]
        impl $class {
            #[new]
            fn build(index: u32, delta: &Bound<'_, PyDict>) -> PyResult<Py<PyAny>> {
                StreamEvent::build($kind, index, delta)
            }

            #[classattr]
            fn __match_args__(py: Python<'_>) -> PyResult<Bound<'_, PyTuple>> {
                let names: &[&str] = &[$(stringify!($field)),*];
                PyTuple::new(py, names)
            }

            /// Type of the event, such as `text_delta`.
            #[getter(r#type)]
            fn kind<'py>(slf: &Bound<'py, Self>) -> Bound<'py, PyString> {
                intern!(slf.py(), $kind).clone()
            }

            $(
                $(#[doc = $field_doc])*
                #[getter]
                fn $field<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
                    let event = StreamEvent::of(slf.as_super())?;
                    match &event.delta {
                        Delta::$variant(delta) => delta.$field.to_python(slf.py()),
                        _ => Ok(slf.py().None().into_bound(slf.py())),
                    }
                }
            )*
        }
    };
}

/// Defines the classes of the types that the core knows, and [`wrap`].
macro_rules! event_classes {
    ($($(#[doc = $doc:literal])* $class:ident = $variant:ident as $kind:literal {
        $($(#[doc = $field_doc:literal])* $field:ident,)*
    })*) => {
        $(
            event_class! {
                $(#[doc = $doc])*
                $class of $variant, $kind;
                $($(#[doc = $field_doc])* $field,)*
            }
        )*

        /// An event as an instance of the class for its type.
        fn wrap(py: Python<'_>, event: Arc<CoreEvent>) -> PyResult<Py<PyAny>> {
            let base = |event| PyClassInitializer::from(Data::new(event)).add_subclass(StreamEvent);
            Ok(match &event.delta {
                $( Delta::$variant(_) => Py::new(py, base(event).add_subclass($class))?.into_any(), )*
                Delta::Unknown { kind, .. } if **kind == *PROGRESS => {
                    Py::new(py, base(event).add_subclass(ToolExecutionProgress))?.into_any()
                }
                Delta::Unknown { .. } => Py::new(py, base(event))?.into_any(),
            })
        }

        /// Adds the classes to the module.
        ///
        /// # Errors
        /// Only if Python fails, for example out of memory.
        pub(crate) fn register(module: &Bound<'_, PyModule>, registry: &mut ClassRegistry) -> PyResult<()> {
            let py = module.py();
            module.add_class::<StreamEvent>()?;
            registry.add::<StreamEvent>(py);
            module.add_class::<ToolExecutionProgress>()?;
            registry.add::<ToolExecutionProgress>(py);
            $( module.add_class::<$class>()?; registry.add::<$class>(py); )*
            Ok(())
        }
    };
}

event_classes! {
    /// A piece of text.
    ///
    /// Spec: UPP-1.2 §11.1.
    TextDelta = Text as "text_delta" {
        /// The new text.
        text,
    }
    /// A piece of reasoning.
    ///
    /// Spec: UPP-1.2 §11.1.
    ReasoningDelta = Reasoning as "reasoning_delta" {
        /// The new text.
        text,
    }
    /// A piece of the structured answer.
    ///
    /// Spec: UPP-1.2 §11.1.
    ObjectDelta = Object as "object_delta" {
        /// The new piece, as JSON text.
        text,
    }
    /// A piece of an image.
    ///
    /// Spec: UPP-1.2 §11.1.
    ImageDelta = Image as "image_delta" {
        /// The new bytes.
        data,
    }
    /// A piece of audio.
    ///
    /// Spec: UPP-1.2 §11.1.
    AudioDelta = Audio as "audio_delta" {
        /// The new bytes.
        data,
    }
    /// A piece of video.
    ///
    /// Spec: UPP-1.2 §11.1.
    VideoDelta = Video as "video_delta" {
        /// The new bytes.
        data,
    }
    /// A piece of a tool call.
    ///
    /// Spec: UPP-1.2 §11.1.
    ToolCallDelta = ToolCall as "tool_call_delta" {
        /// Id of the call.
        tool_call_id,
        /// Name of the tool.
        tool_name,
        /// The new piece of the arguments, as JSON text.
        arguments_json,
    }
    /// A tool starts.
    ///
    /// Spec: UPP-1.2 §11.1.
    ToolExecutionStart = ToolExecutionStart as "tool_execution_start" {
        /// Id of the call.
        tool_call_id,
        /// Name of the tool.
        tool_name,
        /// The time in milliseconds since 1970.
        timestamp,
    }
    /// A tool has returned or failed.
    ///
    /// Spec: UPP-1.2 §11.1.
    ToolExecutionEnd = ToolExecutionEnd as "tool_execution_end" {
        /// Id of the call.
        tool_call_id,
        /// Name of the tool.
        tool_name,
        /// The result for the model, as JSON data.
        result,
        /// Whether the tool failed.
        is_error,
        /// The time in milliseconds since 1970.
        timestamp,
    }
    /// Code that a vendor ran for the model, and its output. UPP-1.2 does not define this event.
    CodeExecutionDelta = CodeExecution as "code_execution_delta" {
        /// The code or command; None if the vendor does not report it.
        code,
        /// The language, such as `python` or `bash`; None if it is not known.
        language,
        /// What the code wrote, errors included; None if the vendor does not report it.
        output,
        /// Whether the code failed; None if it did not.
        is_error,
    }
    /// A response starts.
    ///
    /// Spec: UPP-1.2 §11.1.
    MessageStart = MessageStart as "message_start" {}
    /// A response ends.
    ///
    /// Spec: UPP-1.2 §11.1.
    MessageStop = MessageStop as "message_stop" {}
    /// A content block starts.
    ///
    /// Spec: UPP-1.2 §11.1.
    ContentBlockStart = ContentBlockStart as "content_block_start" {}
    /// A content block ends.
    ///
    /// Spec: UPP-1.2 §11.1.
    ContentBlockStop = ContentBlockStop as "content_block_stop" {}
}

/// A report of a tool that runs: `ToolContext.report`.
///
/// Spec: UPP-1.2 §11.1.
#[pyclass(frozen, extends = StreamEvent, module = "turntree.upp")]
pub(crate) struct ToolExecutionProgress;

impl DataClass for ToolExecutionProgress {
    type Value = CoreEvent;

    fn wrap(py: Python<'_>, event: Arc<CoreEvent>) -> PyResult<Py<PyAny>> {
        wrap(py, event)
    }

    fn accept(event: &CoreEvent) -> Result<(), ParseError> {
        let kind = event.delta.kind();
        if kind == PROGRESS { Ok(()) } else { Err(wrong_kind("type", PROGRESS, kind)) }
    }
}

impl ToolExecutionProgress {
    /// A member of the report; `None` if it is missing.
    fn member<'py>(slf: &Bound<'py, Self>, name: &str) -> PyResult<Bound<'py, PyAny>> {
        let event = StreamEvent::of(slf.as_super())?;
        let Delta::Unknown { delta, .. } = &event.delta else {
            return Ok(slf.py().None().into_bound(slf.py()));
        };
        delta.get(name).to_python(slf.py())
    }
}

#[pymethods]
impl ToolExecutionProgress {
    #[new]
    fn build(index: u32, delta: &Bound<'_, PyDict>) -> PyResult<Py<PyAny>> {
        StreamEvent::build(PROGRESS, index, delta)
    }

    #[classattr]
    #[pyo3(name = "__match_args__")]
    const MATCH_ARGS: (&'static str, &'static str, &'static str, &'static str) =
        ("tool_call_id", "tool_name", "progress", "timestamp");

    /// Type of the event, such as `text_delta`.
    #[getter(r#type)]
    fn kind<'py>(slf: &Bound<'py, Self>) -> Bound<'py, PyString> {
        intern!(slf.py(), PROGRESS).clone()
    }

    /// Id of the call.
    #[getter]
    fn tool_call_id<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        Self::member(slf, "toolCallId")
    }

    /// Name of the tool.
    #[getter]
    fn tool_name<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        Self::member(slf, "toolName")
    }

    /// What the tool reported, as JSON data.
    #[getter]
    fn progress<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        Self::member(slf, "progress")
    }

    /// The time in milliseconds since 1970.
    #[getter]
    fn timestamp<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        Self::member(slf, "timestamp")
    }
}

/// A dict. The frequent kinds are built directly, because a stream has one for each token.
impl ToPython for Delta {
    fn to_python<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let dict = PyDict::new(py);
        match self {
            Self::Text(piece) | Self::Reasoning(piece) | Self::Object(piece) if piece.extra.is_empty() => {
                dict.set_item(intern!(py, "text"), &piece.text)?;
            }
            Self::Image(piece) | Self::Audio(piece) | Self::Video(piece) => {
                dict.set_item(intern!(py, "data"), piece.data.to_python(py)?)?;
            }
            Self::ToolCall(piece) if piece.extra.is_empty() => {
                dict.set_item(intern!(py, "toolCallId"), &*piece.tool_call_id)?;
                dict.set_item(intern!(py, "toolName"), &*piece.tool_name)?;
                dict.set_item(intern!(py, "argumentsJson"), &piece.arguments_json)?;
            }
            other => return source(py, &CoreEvent::new(0, other.clone()))?.get_item("delta"),
        }
        Ok(dict.into_any())
    }
}
