//! The classes of Pydantic AI that are known, their members in the order of their JSON, and what values those take.

use std::sync::atomic::{AtomicU64, Ordering};

use pyo3::exceptions::PyImportError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyList, PyString, PyType};

use turntree_thread_protocol::convert::pydantic_ai::Kind;

/// Type of a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Holds {
    /// The name of its class: always this.
    Name(&'static str),
    /// A string.
    Text,
    /// A string or nothing.
    MaybeText,
    /// One of these strings, or nothing.
    OneOf(&'static [&'static str]),
    /// A point in time.
    Time,
    /// A point in time or nothing.
    MaybeTime,
    /// Any JSON.
    Plain,
    /// A dict or nothing.
    MaybeObject,
    /// A dict, a string or nothing.
    Arguments,
    /// Nothing; what else it may hold is left to Pydantic.
    Nothing,
    /// The parts of a message.
    Parts,
    /// Usage of a response.
    Usage,
    /// Content of a user prompt: a string, or a list of strings and items.
    Prompt,
    /// Result of a tool: any JSON, possibly with files.
    Returned,
    /// Which files that holds; a member of the JSON only.
    Digests,
    /// Why a call is made again, or nothing.
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
    /// A decimal number or nothing.
    Cost,
}

use Holds::{
    Arguments, Bytes, Cost, Count, Counts, Digests, MaybeObject, MaybeText, MaybeTime, Name, Nothing, Number,
    OneOf, Parts, Plain, Prompt, RareCount, Retry, Returned, Text, Time, Usage,
};

/// Module, name and members of a class.
type Known = (&'static str, &'static str, &'static [(&'static str, Holds)]);

const MESSAGES: &str = "pydantic_ai.messages";

const FILE_URL: &[(&str, Holds)] = &[
    ("url", Text),
    ("force_download", Plain),
    ("vendor_metadata", MaybeObject),
    ("kind", Text),
    ("media_type", MaybeText),
    ("identifier", MaybeText),
];

const BINARY: &[(&str, Holds)] = &[
    ("data", Bytes),
    ("media_type", Text),
    ("vendor_metadata", MaybeObject),
    ("kind", Name("binary")),
    ("identifier", MaybeText),
];

const TOOL_CALL: &[(&str, Holds)] = &[
    ("tool_name", Text),
    ("args", Arguments),
    ("tool_call_id", Text),
    ("tool_kind", MaybeText),
    ("id", MaybeText),
    ("provider_name", MaybeText),
    ("provider_details", MaybeObject),
    ("part_kind", Text),
];

const OUTCOMES: &[&str] = &["success", "failed", "denied", "interrupted", "retried"];

/// The shapes of 2.68. An older version lacks some members, which is fine; a member that is not here makes its class
/// unknown.
const KNOWN: &[Known] = &[
    (
        MESSAGES,
        "ModelRequest",
        &[
            ("parts", Parts),
            ("timestamp", MaybeTime),
            ("instructions", MaybeText),
            ("kind", Name("request")),
            ("run_id", MaybeText),
            ("conversation_id", MaybeText),
            ("metadata", MaybeObject),
            ("state", OneOf(&["complete", "interrupted"])),
        ],
    ),
    (
        MESSAGES,
        "ModelResponse",
        &[
            ("parts", Parts),
            ("usage", Usage),
            ("model_name", MaybeText),
            ("model_id", MaybeText),
            ("timestamp", Time),
            ("kind", Name("response")),
            ("provider_name", MaybeText),
            ("provider_url", MaybeText),
            ("canonical_system", MaybeText),
            ("provider_details", MaybeObject),
            ("provider_response_id", MaybeText),
            ("finish_reason", OneOf(&["stop", "length", "content_filter", "tool_call", "error"])),
            ("run_id", MaybeText),
            ("conversation_id", MaybeText),
            ("metadata", MaybeObject),
            ("workspace_ref", Nothing),
            ("history_digest", MaybeText),
            ("failed_attempts", Nothing),
            ("state", OneOf(&["complete", "incomplete", "suspended", "interrupted"])),
        ],
    ),
    (
        "pydantic_ai.usage",
        "RequestUsage",
        &[
            ("input_tokens", Count),
            ("cache_write_tokens", Count),
            ("cache_write_1h_tokens", Count),
            ("cache_read_tokens", Count),
            ("output_tokens", Count),
            ("unmeasured_requests", RareCount),
            ("output_reasoning_tokens", Count),
            ("input_audio_tokens", Count),
            ("cache_audio_read_tokens", Count),
            ("output_audio_tokens", Count),
            ("audio_seconds", Number),
            ("details", Counts),
            ("cost", Cost),
        ],
    ),
    (
        MESSAGES,
        "RetryInfo",
        &[
            (
                "cause",
                OneOf(&["validation_error", "model_retry", "unknown_tool", "unavailable_tool", "no_output"]),
            ),
            ("attempt", Plain),
            ("max_retries", Plain),
        ],
    ),
    (
        MESSAGES,
        "TextPart",
        &[
            ("content", Text),
            ("id", MaybeText),
            ("provider_name", MaybeText),
            ("provider_details", MaybeObject),
            ("citations", Nothing),
            ("part_kind", Name("text")),
        ],
    ),
    (
        MESSAGES,
        "ThinkingPart",
        &[
            ("content", Text),
            ("id", MaybeText),
            ("signature", MaybeText),
            ("provider_name", MaybeText),
            ("provider_details", MaybeObject),
            ("part_kind", Name("thinking")),
        ],
    ),
    (MESSAGES, "ToolCallPart", TOOL_CALL),
    (
        MESSAGES,
        "ToolReturnPart",
        &[
            ("tool_name", Text),
            ("content", Returned),
            ("tool_call_id", Text),
            ("tool_kind", MaybeText),
            ("metadata", Plain),
            ("timestamp", Time),
            ("outcome", OneOf(OUTCOMES)),
            ("retry", Retry),
            ("part_kind", Name("tool-return")),
            ("content_file_digests", Digests),
        ],
    ),
    (
        MESSAGES,
        "UserPromptPart",
        &[("content", Prompt), ("timestamp", Time), ("part_kind", Name("user-prompt"))],
    ),
    (
        MESSAGES,
        "SystemPromptPart",
        &[
            ("content", Text),
            ("timestamp", Time),
            ("dynamic_ref", MaybeText),
            ("context_id", MaybeText),
            ("scope", OneOf(&["conversation", "request"])),
            ("metadata", MaybeObject),
            ("part_kind", Name("system-prompt")),
        ],
    ),
    (
        MESSAGES,
        "RetryFeedbackPart",
        &[("content", Text), ("retry", Retry), ("timestamp", Time), ("part_kind", Name("retry-feedback"))],
    ),
    (MESSAGES, "NativeToolCallPart", TOOL_CALL),
    (
        MESSAGES,
        "NativeToolReturnPart",
        &[
            ("tool_name", Text),
            ("content", Returned),
            ("tool_call_id", Text),
            ("tool_kind", MaybeText),
            ("metadata", Plain),
            ("timestamp", Time),
            ("outcome", OneOf(OUTCOMES)),
            ("provider_name", MaybeText),
            ("provider_details", MaybeObject),
            ("part_kind", Name("builtin-tool-return")),
            ("content_file_digests", Digests),
        ],
    ),
    (MESSAGES, "ImageUrl", FILE_URL),
    (MESSAGES, "AudioUrl", FILE_URL),
    (MESSAGES, "VideoUrl", FILE_URL),
    (MESSAGES, "DocumentUrl", FILE_URL),
    (MESSAGES, "BinaryContent", BINARY),
    (MESSAGES, "BinaryImage", BINARY),
    (MESSAGES, "TextContent", &[("content", Text), ("metadata", Plain), ("kind", Name("text-content"))]),
    (MESSAGES, "CachePoint", &[("kind", Name("cache-point")), ("ttl", OneOf(&["5m", "1h"]))]),
];

pub(super) const REQUEST: usize = 0;
pub(super) const RESPONSE: usize = 1;
pub(super) const USAGE: usize = 2;
pub(super) const RETRY: usize = 3;

/// The class of a part or an item when it is built, by its `part_kind` or `kind`.
pub(super) fn class_of(kind: &str) -> Option<&'static str> {
    Some(match kind {
        "text" => "TextPart",
        "thinking" => "ThinkingPart",
        "tool-call" => "ToolCallPart",
        "tool-return" => "ToolReturnPart",
        "user-prompt" => "UserPromptPart",
        "system-prompt" => "SystemPromptPart",
        "retry-feedback" => "RetryFeedbackPart",
        "builtin-tool-call" => "NativeToolCallPart",
        "builtin-tool-return" => "NativeToolReturnPart",
        "image-url" => "ImageUrl",
        "audio-url" => "AudioUrl",
        "video-url" => "VideoUrl",
        "document-url" => "DocumentUrl",
        "binary" => "BinaryContent",
        "text-content" => "TextContent",
        "cache-point" => "CachePoint",
        _ => return None,
    })
}

/// Whether messages of this kind can contain a part of this class.
pub(super) fn stands_in(part_kind: &str, kind: &Kind) -> bool {
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
    pub(super) holds: Holds,
    /// Default value.
    pub(super) default: Option<Py<PyAny>>,
    /// Whether that is `None`.
    pub(super) none_by_default: bool,
    /// That, if it is a string.
    pub(super) text_by_default: Option<String>,
}

/// A class that is known.
pub(super) struct Shape {
    pub(super) class_name: &'static str,
    pub(super) class: Py<PyType>,
    /// The address of the class, for comparing.
    pub(super) pointer: usize,
    pub(super) members: Vec<Member>,
}

/// The classes of the pydantic-ai that is installed.
pub(super) struct Shapes {
    known: Vec<Option<Shape>>,
    pub(super) adapter: Py<PyAny>,
    pub(super) message_classes: [Py<PyAny>; 2],
    pub(super) datetime: Py<PyType>,
    pub(super) decimal: Py<PyType>,
    /// `datetime.fromisoformat`.
    pub(super) from_isoformat: Py<PyAny>,
    /// `pydantic_core.to_json`.
    pub(super) to_json: Py<PyAny>,
    /// Shapes whose walk gave what `dump_json` gives, as bits.
    pub(super) walk_trusted: AtomicU64,
    /// Shapes whose objects were what `validate_json` makes, as bits.
    pub(super) build_trusted: AtomicU64,
}

static SHAPES: PyOnceLock<Shapes> = PyOnceLock::new();

impl Shapes {
    /// The shapes, looked up once.
    ///
    /// # Errors
    /// `ImportError` that names the extra.
    pub(super) fn get(py: Python<'_>) -> PyResult<&'static Self> {
        SHAPES.get_or_try_init(py, || Self::look_up(py))
    }

    fn look_up(py: Python<'_>) -> PyResult<Self> {
        let messages = py.import(intern!(py, "pydantic_ai.messages")).map_err(|error| {
            let missing = PyImportError::new_err(
                "live Pydantic AI messages need pydantic-ai: pip install 'turntree[pydantic-ai]'; \
                 without it, use their JSON",
            );
            missing.set_cause(py, Some(error));
            missing
        })?;
        let datetime = py.import(intern!(py, "datetime"))?.getattr(intern!(py, "datetime"))?;
        let decimal = py.import(intern!(py, "decimal"))?.getattr(intern!(py, "Decimal"))?;
        Ok(Self {
            known: KNOWN.iter().map(|known| Shape::look_up(py, known).ok().flatten()).collect(),
            adapter: messages.getattr(intern!(py, "ModelMessagesTypeAdapter"))?.unbind(),
            message_classes: [
                messages.getattr(intern!(py, "ModelRequest"))?.unbind(),
                messages.getattr(intern!(py, "ModelResponse"))?.unbind(),
            ],
            from_isoformat: datetime.getattr(intern!(py, "fromisoformat"))?.unbind(),
            datetime: datetime.cast_into()?.unbind(),
            decimal: decimal.cast_into()?.unbind(),
            to_json: py.import(intern!(py, "pydantic_core"))?.getattr(intern!(py, "to_json"))?.unbind(),
            walk_trusted: AtomicU64::new(0),
            build_trusted: AtomicU64::new(0),
        })
    }

    /// The shape at a place.
    pub(super) fn at(&self, place: usize) -> Option<&Shape> {
        self.known.get(place)?.as_ref()
    }

    /// The shape of exactly this class.
    pub(super) fn of(&self, class: usize) -> Option<(usize, &Shape)> {
        let mut known = self.known.iter().enumerate();
        known.find_map(|(place, shape)| {
            let shape = shape.as_ref()?;
            (shape.pointer == class).then_some((place, shape))
        })
    }

    /// The shape of the class with this name.
    pub(super) fn named(&self, class_name: &str) -> Option<(usize, &Shape)> {
        let mut known = self.known.iter().enumerate();
        known.find_map(|(place, shape)| {
            let shape = shape.as_ref()?;
            (shape.class_name == class_name).then_some((place, shape))
        })
    }
}

impl Shape {
    /// A class of the installed version; `None` if it has members that are not known.
    fn look_up(py: Python<'_>, (module, class_name, members): &Known) -> PyResult<Option<Self>> {
        let class = py.import(*module)?.getattr(*class_name)?.cast_into::<PyType>()?;
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
        let mut found = Vec::with_capacity(members.len());
        for (key, holds) in *members {
            let default = match fields.iter().position(|(name, _)| name == key) {
                Some(place) => Some(fields.swap_remove(place).1),
                None if *holds == Digests && records_files => None,
                // Computed by the class, as the identifier of a file.
                None if class.hasattr(*key)? => None,
                None => continue,
            };
            found.push(Member {
                key,
                name: PyString::intern(py, key).unbind(),
                holds: *holds,
                none_by_default: default.as_ref().is_some_and(Bound::is_none),
                text_by_default: default.as_ref().and_then(|default| default.extract().ok()),
                default: default.map(Bound::unbind),
            });
        }
        if !fields.is_empty() {
            return Ok(None);
        }
        let pointer = class.as_type_ptr() as usize;
        Ok(Some(Self { class_name, class: class.unbind(), pointer, members: found }))
    }
}

/// Whether all of these shapes are trusted.
pub(super) fn trusts(trusted: &AtomicU64, shapes: u64) -> bool {
    shapes & !trusted.load(Ordering::Relaxed) == 0
}

/// Trusts these shapes from now on.
pub(super) fn trust(trusted: &AtomicU64, shapes: u64) {
    trusted.fetch_or(shapes, Ordering::Relaxed);
}

/// The bit of a shape, or of what is checked apart from it: structured returns of tools, which have a member more, and
/// bytes of a class that is not listed.
pub(super) const fn bit(shape: usize, apart: bool) -> u64 {
    let place = if apart { shape + 32 } else { shape };
    1 << (place % 64)
}

impl Shapes {
    /// `dump_json` of one message.
    ///
    /// # Errors
    /// What Pydantic raises.
    pub(super) fn dump_json<'py>(&self, message: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let py = message.py();
        let list = PyList::new(py, [message])?;
        self.adapter.bind(py).call_method1(intern!(py, "dump_json"), (list,))
    }

    /// The message that `validate_json` makes of a list of one.
    ///
    /// # Errors
    /// What Pydantic raises.
    pub(super) fn validate_json<'py>(&self, py: Python<'py>, json: &[u8]) -> PyResult<Bound<'py, PyAny>> {
        let json = pyo3::types::PyBytes::new(py, json);
        self.adapter.bind(py).call_method1(intern!(py, "validate_json"), (json,))?.get_item(0)
    }
}
