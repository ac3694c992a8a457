//! The classes of Pydantic AI that are converted attribute by attribute, and the types of their members.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::prelude::*;
use pyo3::exceptions::PyImportError;
use pyo3::intern;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyList, PyString, PyType};

use super::caused_by;
use crate::bridge::gil;
use turntree_thread_protocol::convert::pydantic_ai::{Kind, class_members};

/// Type of a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MemberType {
    /// `kind` or `part_kind`: the name of the class in JSON.
    ClassName,
    /// A string or `None`.
    Text,
    /// One of these strings, or `None`.
    OneOf(&'static [&'static str]),
    /// A point in time or `None`.
    Time,
    /// Any JSON.
    Plain,
    /// A dict or `None`.
    Object,
    /// A dict, a string or `None`.
    Arguments,
    /// `None`; Pydantic converts other values.
    AlwaysNone,
    /// The parts of a message.
    Parts,
    /// Usage of a response.
    Usage,
    /// Content of a user prompt: a string, or a list of strings and items.
    Prompt,
    /// Result of a tool: any JSON, possibly with files.
    ToolResult,
    /// Digests of the files in the result of a tool; a member of the JSON only.
    FileDigests,
    /// The reason of a retry, or `None`.
    Retry,
    /// Bytes.
    Bytes,
    /// A count of tokens.
    Count,
    /// A count that is not written when it is zero.
    RareCount,
    /// A number.
    Number,
    /// Counts by name.
    Counts,
    /// A decimal number or `None`.
    Cost,
}

impl MemberType {
    /// The type of a member of a class, which is given by its name in JSON.
    fn of(class: &str, member: &str) -> Self {
        match (class, member) {
            (_, "kind" | "part_kind") => Self::ClassName,
            ("user-prompt", "content") => Self::Prompt,
            ("tool-return" | "builtin-tool-return", "content") => Self::ToolResult,
            ("request" | "response" | "system-prompt", "metadata")
            | (_, "provider_details" | "vendor_metadata") => Self::Object,
            (_, "metadata" | "force_download" | "attempt" | "max_retries") => Self::Plain,
            ("request", "state") => Self::OneOf(&["complete", "interrupted"]),
            (_, "state") => Self::OneOf(&["complete", "incomplete", "suspended", "interrupted"]),
            (_, "finish_reason") => Self::OneOf(&["stop", "length", "content_filter", "tool_call", "error"]),
            (_, "outcome") => Self::OneOf(&["success", "failed", "denied", "interrupted", "retried"]),
            (_, "cause") => Self::OneOf(&[
                "validation_error",
                "model_retry",
                "unknown_tool",
                "unavailable_tool",
                "no_output",
            ]),
            (_, "scope") => Self::OneOf(&["conversation", "request"]),
            (_, "ttl") => Self::OneOf(&["5m", "1h"]),
            (_, "timestamp") => Self::Time,
            (_, "args") => Self::Arguments,
            (_, "citations" | "workspace_ref" | "failed_attempts") => Self::AlwaysNone,
            (_, "parts") => Self::Parts,
            (_, "usage") => Self::Usage,
            (_, "retry") => Self::Retry,
            (_, "content_file_digests") => Self::FileDigests,
            (_, "data") => Self::Bytes,
            ("usage", "unmeasured_requests") => Self::RareCount,
            ("usage", "audio_seconds") => Self::Number,
            ("usage", "details") => Self::Counts,
            ("usage", "cost") => Self::Cost,
            ("usage", _) => Self::Count,
            _ => Self::Text,
        }
    }
}

/// The classes and their names in JSON. An older version lacks some classes and members; a class with a member that
/// [`class_members`] does not list is left to Pydantic.
const CLASSES: &[(&str, &str)] = &[
    ("ModelRequest", "request"),
    ("ModelResponse", "response"),
    ("RequestUsage", "usage"),
    ("RetryInfo", "retry"),
    ("TextPart", "text"),
    ("ThinkingPart", "thinking"),
    ("ToolCallPart", "tool-call"),
    ("ToolReturnPart", "tool-return"),
    ("UserPromptPart", "user-prompt"),
    ("SystemPromptPart", "system-prompt"),
    ("RetryFeedbackPart", "retry-feedback"),
    ("NativeToolCallPart", "builtin-tool-call"),
    ("NativeToolReturnPart", "builtin-tool-return"),
    ("ImageUrl", "image-url"),
    ("AudioUrl", "audio-url"),
    ("VideoUrl", "video-url"),
    ("DocumentUrl", "document-url"),
    // Objects are built from the first class of a name.
    ("BinaryContent", "binary"),
    ("BinaryImage", "binary"),
    ("TextContent", "text-content"),
    ("CachePoint", "cache-point"),
];

/// Indexes of classes that are neither parts nor items; those follow.
pub(super) const REQUEST: usize = 0;
pub(super) const RESPONSE: usize = 1;
pub(super) const USAGE: usize = 2;
pub(super) const RETRY: usize = 3;

/// True if messages of this kind can contain a part of this class.
pub(super) fn is_part_of(part_kind: &str, kind: &Kind) -> bool {
    let is_of_request =
        matches!(part_kind, "tool-return" | "user-prompt" | "system-prompt" | "retry-feedback");
    is_of_request == (*kind == Kind::Request)
}

/// A member of a class.
pub(super) struct Member {
    /// Its name in JSON.
    pub(super) key: &'static str,
    /// Its name in Python.
    pub(super) name: Py<PyString>,
    pub(super) value_type: MemberType,
    /// Default value.
    pub(super) default: Option<Py<PyAny>>,
    /// True if the default is `None`.
    pub(super) none_by_default: bool,
    /// The default if it is a string.
    pub(super) text_by_default: Option<String>,
}

/// A class of the installed version.
pub(super) struct Class {
    /// Its name in JSON.
    pub(super) name: &'static str,
    pub(super) python_type: Py<PyType>,
    /// The address of the class, for comparing.
    pointer: usize,
    pub(super) members: Vec<Member>,
}

/// Classes whose conversion was compared with Pydantic's, as bits.
#[derive(Default)]
pub(super) struct TrustedClasses(AtomicU64);

impl TrustedClasses {
    /// True if all of these classes are trusted.
    pub(super) fn contain(&self, classes: u64) -> bool {
        classes & !self.0.load(Ordering::Relaxed) == 0
    }

    /// Trusts these classes from now on.
    pub(super) fn add(&self, classes: u64) {
        self.0.fetch_or(classes, Ordering::Relaxed);
    }
}

/// The bit of a class. What is verified separately has a bit of its own: structured returns of tools, which have
/// another member, and bytes of a class that is not listed.
pub(super) const fn bit(class: usize, separate: bool) -> u64 {
    let index = if separate { class + 32 } else { class };
    1 << (index % 64)
}

/// The pydantic-ai that is installed.
pub(super) struct Installation {
    classes: Vec<Option<Class>>,
    adapter: Py<PyAny>,
    pub(super) message_classes: [Py<PyAny>; 2],
    pub(super) datetime: Py<PyType>,
    pub(super) decimal: Py<PyType>,
    /// `datetime.fromisoformat`.
    pub(super) from_isoformat: Py<PyAny>,
    /// `pydantic_core.to_json`.
    pub(super) to_json: Py<PyAny>,
    /// Classes that are read as `dump_json` writes them.
    pub(super) trusted_to_read: TrustedClasses,
    /// Classes that are built as `validate_json` builds them.
    pub(super) trusted_to_build: TrustedClasses,
}

static INSTALLED: PyOnceLock<Installation> = PyOnceLock::new();

impl Installation {
    /// The classes, imported once.
    ///
    /// # Errors
    /// `ImportError` that names the extra.
    pub(super) fn get(py: Python<'_>) -> PyResult<&'static Self> {
        gil::protect_thread();
        INSTALLED.get_or_try_init(py, || Self::import(py))
    }

    fn import(py: Python<'_>) -> PyResult<Self> {
        let messages = py.import(intern!(py, "pydantic_ai.messages")).map_err(|error| {
            let missing = PyImportError::new_err(
                "live Pydantic AI messages need pydantic-ai: pip install 'turntree[pydantic-ai]'; \
                 without it, use their JSON",
            );
            caused_by(py, missing, error)
        })?;
        let datetime = py.import(intern!(py, "datetime"))?.getattr(intern!(py, "datetime"))?;
        let decimal = py.import(intern!(py, "decimal"))?.getattr(intern!(py, "Decimal"))?;
        Ok(Self {
            classes: CLASSES.iter().map(|class| Class::import(py, class).ok().flatten()).collect(),
            adapter: messages.getattr(intern!(py, "ModelMessagesTypeAdapter"))?.unbind(),
            message_classes: [
                messages.getattr(intern!(py, "ModelRequest"))?.unbind(),
                messages.getattr(intern!(py, "ModelResponse"))?.unbind(),
            ],
            from_isoformat: datetime.getattr(intern!(py, "fromisoformat"))?.unbind(),
            datetime: datetime.cast_into()?.unbind(),
            decimal: decimal.cast_into()?.unbind(),
            to_json: py.import(intern!(py, "pydantic_core"))?.getattr(intern!(py, "to_json"))?.unbind(),
            trusted_to_read: TrustedClasses::default(),
            trusted_to_build: TrustedClasses::default(),
        })
    }

    /// The class at an index.
    pub(super) fn at(&self, index: usize) -> Option<&Class> {
        self.classes.get(index)?.as_ref()
    }

    /// The first class, with its index, that fulfils a condition.
    fn find(&self, condition: impl Fn(&Class) -> bool) -> Option<(usize, &Class)> {
        let mut classes = self.classes.iter().enumerate();
        classes.find_map(|(index, class)| Some((index, class.as_ref().filter(|class| condition(class))?)))
    }

    /// The class of an object; not a base of it.
    pub(super) fn of(&self, object: &Bound<'_, PyAny>) -> Option<(usize, &Class)> {
        let pointer = object.get_type_ptr() as usize;
        self.find(|class| class.pointer == pointer)
    }

    /// The class of a part or an item by its name in JSON.
    pub(super) fn named(&self, name: &str) -> Option<(usize, &Class)> {
        self.find(|class| class.name == name).filter(|(index, _)| *index > RETRY)
    }

    /// `dump_json` of one message.
    ///
    /// # Errors
    /// What Pydantic raises.
    pub(super) fn dump_json<'py>(&self, message: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyBytes>> {
        let py = message.py();
        let list = PyList::new(py, [message])?;
        let bytes = self.adapter.bind(py).call_method1(intern!(py, "dump_json"), (list,))?;
        Ok(bytes.cast_into()?)
    }

    /// The message that `validate_json` builds from a list of one.
    ///
    /// # Errors
    /// What Pydantic raises.
    pub(super) fn validate_json<'py>(&self, py: Python<'py>, json: &[u8]) -> PyResult<Bound<'py, PyAny>> {
        let json = PyBytes::new(py, json);
        self.adapter.bind(py).call_method1(intern!(py, "validate_json"), (json,))?.get_item(0)
    }
}

impl Class {
    /// A class of the installed version; `None` if it has unknown members.
    fn import(py: Python<'_>, (class_name, name): &(&'static str, &'static str)) -> PyResult<Option<Self>> {
        let module = if *name == "usage" { "pydantic_ai.usage" } else { "pydantic_ai.messages" };
        let class = py.import(module)?.getattr(*class_name)?.cast_into::<PyType>()?;
        let fields = py.import(intern!(py, "dataclasses"))?.call_method1(intern!(py, "fields"), (&class,))?;
        let mut fields: Vec<(String, Bound<'_, PyAny>)> = fields
            .try_iter()?
            .map(|field| {
                let field = field?;
                let name: String = field.getattr(intern!(py, "name"))?.extract()?;
                Ok((name.trim_start_matches('_').to_owned(), field.getattr(intern!(py, "default"))?))
            })
            .collect::<PyResult<_>>()?;
        let records_files = class.hasattr(intern!(py, "_content_field"))?;
        let mut members = Vec::new();
        for key in class_members(name) {
            let value_type = MemberType::of(name, key);
            let default = match fields.iter().position(|(name, _)| name == key) {
                Some(index) => Some(fields.swap_remove(index).1),
                None if value_type == MemberType::FileDigests && records_files => None,
                // Computed by the class, as the identifier of a file.
                None if class.hasattr(key)? => None,
                None => continue,
            };
            members.push(Member {
                key,
                name: PyString::intern(py, key).unbind(),
                value_type,
                none_by_default: default.as_ref().is_some_and(Bound::is_none),
                text_by_default: default.as_ref().and_then(|default| default.extract().ok()),
                default: default.map(Bound::unbind),
            });
        }
        if !fields.is_empty() {
            return Ok(None);
        }
        let pointer = class.as_type_ptr() as usize;
        Ok(Some(Self { name, python_type: class.unbind(), pointer, members }))
    }
}
