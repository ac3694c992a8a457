//! The classes of Pydantic AI's messages and the types of their members, as far as its validation checks them.
//!
//! Members are in the order of `dump_json`, followed by older names. Members that are not listed are not checked,
//! because later versions add members.

/// The type of a member.
#[derive(Debug, Clone, Copy)]
pub(super) enum FieldType {
    /// Any value.
    Anything,
    /// A string.
    Text,
    /// A string with a few known values; later versions may have more.
    Word,
    /// A point in time.
    Time,
    /// A duration.
    Duration,
    /// An integer.
    Integer,
    /// A number.
    Number,
    /// A decimal number.
    Decimal,
    /// A boolean.
    Boolean,
    /// Bytes in base64.
    Base64,
    /// An object.
    Fields,
    /// An object with integers.
    Counts,
    /// The download mode of a file.
    Download,
    /// An item of a user prompt: a string, or an object whose `kind` names its class.
    Item,
    /// An object whose `kind` names its class.
    Kinds(&'static [(&'static str, &'static Class)]),
    /// An object of a class.
    Object(&'static Class),
    /// A list.
    List(&'static Self),
    /// A non-empty list.
    Some(&'static Self),
    /// The value or `null`.
    OrNull(&'static Self),
    /// A string or the value.
    TextOr(&'static Self),
    /// An integer or a string.
    Step,
    /// A list of strings; other values are ignored.
    Digests,
    /// An instruction or its digest.
    Instruction,
}

impl FieldType {
    /// The description for error messages.
    pub(super) fn description(&self) -> String {
        match self {
            Self::TextOr(field_type) => format!("a string or {}", field_type.description()),
            Self::OrNull(field_type) => format!("{} or null", field_type.description()),
            Self::Anything => "a value".to_owned(),
            Self::Text | Self::Word => "a string".to_owned(),
            Self::Time => "a time, for example \"2026-01-31T12:00:00Z\"".to_owned(),
            Self::Duration => "a duration, for example \"PT1.5S\"".to_owned(),
            Self::Integer => "an integer".to_owned(),
            Self::Number => "a number".to_owned(),
            Self::Decimal => "a decimal number".to_owned(),
            Self::Boolean => "true or false".to_owned(),
            Self::Base64 => "base64 in one alphabet, the standard or the URL-safe one".to_owned(),
            Self::Download => "true, false or a string".to_owned(),
            Self::Item => "a string or an object".to_owned(),
            Self::Step => "a string or an integer".to_owned(),
            Self::List(_) | Self::Digests => "a list".to_owned(),
            Self::Some(_) => "a list of one or more".to_owned(),
            Self::Fields | Self::Counts | Self::Kinds(_) | Self::Object(_) | Self::Instruction => {
                "an object".to_owned()
            }
        }
    }

    /// True if its values start with this bracket.
    pub(super) const fn opens_with(&self, first: u8) -> bool {
        matches!(self, Self::List(_)) == (first == b'[')
    }
}

/// A member of a class.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) key: &'static str,
    pub(super) field_type: FieldType,
    /// True if it is required.
    pub(super) required: bool,
}

/// A class of objects.
#[derive(Debug)]
pub(super) struct Class {
    /// The name in error messages.
    pub(super) name: &'static str,
    pub(super) members: &'static [Member],
    /// A condition on several members.
    pub(super) rule: Option<Rule>,
}

/// Checks an object, given as JSON, whose members are valid one by one. Returns the problem, if there is one.
pub(super) type Rule = fn(&str) -> Option<&'static str>;

const fn class(name: &'static str, members: &'static [Member]) -> Class {
    Class { name, members, rule: None }
}

const fn ruled(name: &'static str, members: &'static [Member], rule: Rule) -> Class {
    Class { name, members, rule: Some(rule) }
}

const fn must(key: &'static str, field_type: FieldType) -> Member {
    Member { key, field_type, required: true }
}

const fn may(key: &'static str, field_type: FieldType) -> Member {
    Member { key, field_type, required: false }
}

use super::rules;

use FieldType::{
    Anything, Base64, Boolean, Counts, Decimal, Digests, Download, Duration, Fields, Instruction, Integer,
    Item, Kinds, List, Number, Object, OrNull, Step, Text, TextOr, Time, Word,
};

const TEXT: FieldType = OrNull(&Text);
const WORD: FieldType = OrNull(&Word);
const WHOLE: FieldType = OrNull(&Integer);
const FIELDS: FieldType = OrNull(&Fields);
/// Versions before 0.1 wrote `null` for unknown ids.
const CALL_ID: FieldType = OrNull(&Text);

/// The class of a message with this kind.
pub(super) fn of_message(kind: &str) -> Option<&'static Class> {
    match kind {
        "request" => Some(&REQUEST),
        "response" => Some(&RESPONSE),
        _ => None,
    }
}

/// The class of a part; `tool_kind` is that of a call or of a successful return.
pub(super) fn of_part(part_kind: &str, tool_kind: Option<&str>) -> Option<&'static Class> {
    Some(match (part_kind, tool_kind) {
        ("tool-return" | "builtin-tool-return", Some("tool-search")) => &SEARCH_RETURN,
        ("tool-return", Some("capability-load")) => &LOAD_RETURN,
        ("tool-call" | "builtin-tool-call", Some("tool-search")) => &SEARCH_CALL,
        ("tool-call", Some("capability-load")) => &LOAD_CALL,
        ("system-prompt", _) => &SYSTEM_PROMPT,
        ("user-prompt", _) => &USER_PROMPT,
        ("tool-return" | "builtin-tool-return", _) => &TOOL_RETURN,
        ("retry-prompt", _) => &RETRY_PROMPT,
        ("retry-feedback", _) => &RETRY_FEEDBACK,
        ("tool-availability-delta", _) => &TOOL_AVAILABILITY_DELTA,
        ("capability-load-delta", _) => &CAPABILITY_LOAD_DELTA,
        ("model-settings-delta", _) => &MODEL_SETTINGS_DELTA,
        ("instruction-delta", _) => &INSTRUCTION_DELTA,
        ("instruction-baseline", _) => &INSTRUCTION_BASELINE,
        ("text", _) => &TEXT_PART,
        ("thinking", _) => &THINKING,
        ("tool-call" | "builtin-tool-call", _) => &TOOL_CALL,
        ("file", _) => &FILE,
        ("compaction", _) => &COMPACTION,
        ("speech", _) => &SPEECH,
        _ => return None,
    })
}

/// The class of an item of a user prompt.
pub(super) fn of_item(kind: &str) -> Option<&'static Class> {
    Some(match kind {
        "image-url" | "audio-url" | "video-url" | "document-url" => &URL,
        "binary" => &BINARY,
        "uploaded-file" => &UPLOADED_FILE,
        "text-content" => &TEXT_CONTENT,
        "structured-content" => &STRUCTURED_CONTENT,
        "cache-point" => &CACHE_POINT,
        _ => return None,
    })
}

static REQUEST: Class = class(
    "a request",
    &[
        may("timestamp", OrNull(&Time)),
        may("instructions", TEXT),
        may("run_id", TEXT),
        may("conversation_id", TEXT),
        may("metadata", FIELDS),
        may("state", Word),
    ],
);

static RESPONSE: Class = class(
    "a response",
    &[
        // The first versions wrote `null`.
        may("usage", OrNull(&Fields)),
        may("model_name", TEXT),
        may("model_id", TEXT),
        may("timestamp", Time),
        may("provider_name", TEXT),
        may("provider_url", TEXT),
        may("canonical_system", TEXT),
        may("provider_details", FIELDS),
        may("provider_response_id", TEXT),
        may("finish_reason", WORD),
        may("run_id", TEXT),
        may("conversation_id", TEXT),
        may("metadata", FIELDS),
        may("workspace_ref", OrNull(&Object(&WORKSPACE))),
        may("history_digest", TEXT),
        may("failed_attempts", OrNull(&List(&Object(&ATTEMPT)))),
        may("state", Word),
        may("vendor_details", FIELDS),
        may("vendor_id", TEXT),
    ],
);

pub(super) static USAGE: Class = class(
    "a usage",
    &[
        may("input_tokens", Integer),
        may("cache_write_tokens", Integer),
        may("cache_write_1h_tokens", Integer),
        may("cache_read_tokens", Integer),
        may("output_tokens", Integer),
        may("unmeasured_requests", Integer),
        may("output_reasoning_tokens", Integer),
        may("input_audio_tokens", Integer),
        may("cache_audio_read_tokens", Integer),
        may("output_audio_tokens", Integer),
        may("audio_seconds", Number),
        may("details", Counts),
        may("cost", OrNull(&Decimal)),
        // The names before version 0.7, which wrote `null` for unknown counts.
        may("request_tokens", WHOLE),
        may("response_tokens", WHOLE),
    ],
);

static WORKSPACE: Class = class("a workspace reference", &[must("provider", Text), must("id", Text)]);

static ATTEMPT: Class = class(
    "a failed attempt",
    &[
        must("model_name", Text),
        may("provider_name", TEXT),
        must("outcome", Word),
        may("error", TEXT),
        must("timestamp", Time),
        must("duration", Duration),
        may("usage", OrNull(&Object(&USAGE))),
    ],
);

static SYSTEM_PROMPT: Class = class(
    "a system prompt",
    &[
        must("content", Text),
        may("timestamp", Time),
        may("dynamic_ref", TEXT),
        may("context_id", TEXT),
        may("scope", Word),
        may("metadata", FIELDS),
    ],
);

static USER_PROMPT: Class =
    class("a user prompt", &[must("content", TextOr(&List(&Item))), may("timestamp", Time)]);

static RETRY: Class =
    class("a retry", &[must("cause", Word), may("attempt", WHOLE), may("max_retries", WHOLE)]);

macro_rules! tool_return {
    ($name:literal, $tool_name:expr, $content:expr) => {
        class(
            $name,
            &[
                $tool_name,
                must("content", $content),
                may("tool_call_id", CALL_ID),
                may("tool_kind", TEXT),
                may("timestamp", Time),
                may("outcome", Word),
                may("retry", OrNull(&Object(&RETRY))),
                may("provider_name", TEXT),
                may("provider_details", FIELDS),
                may("content_file_digests", Digests),
            ],
        )
    };
}

static TOOL_RETURN: Class = tool_return!("a tool return", must("tool_name", Text), Anything);
static SEARCH_RETURN: Class =
    tool_return!("the return of a tool search", may("tool_name", Word), Object(&SEARCH_RESULT));
static LOAD_RETURN: Class =
    tool_return!("the return of a capability load", may("tool_name", Word), Object(&LOADED));

static SEARCH_RESULT: Class = class(
    "the result of a tool search",
    &[must("discovered_tools", List(&Object(&MATCH))), may("message", Text)],
);
static MATCH: Class = class("a tool of a search result", &[must("name", Text)]);
static LOADED: Class =
    class("a capability that was loaded", &[may("message", Text), may("instructions", Text)]);

macro_rules! tool_call {
    ($name:literal, $tool_name:expr, $arguments:expr) => {
        class(
            $name,
            &[
                $tool_name,
                may("args", OrNull(&TextOr($arguments))),
                may("tool_call_id", CALL_ID),
                may("tool_kind", TEXT),
                may("id", TEXT),
                may("provider_name", TEXT),
                may("provider_details", FIELDS),
            ],
        )
    };
}

static TOOL_CALL: Class = tool_call!("a tool call", must("tool_name", Text), &Fields);
static SEARCH_CALL: Class = tool_call!("a tool search", may("tool_name", Word), &Object(&SEARCH));
static LOAD_CALL: Class = tool_call!("a capability load", may("tool_name", Word), &Object(&LOAD));
static SEARCH: Class = class("the query of a tool search", &[must("queries", List(&Text))]);
static LOAD: Class = class("the capability to load", &[must("id", Text)]);

static RETRY_PROMPT: Class = class(
    "a retry prompt",
    &[must("content", ERRORS), may("tool_name", TEXT), may("tool_call_id", CALL_ID), may("timestamp", Time)],
);

static RETRY_FEEDBACK: Class = class(
    "a retry feedback",
    &[must("content", ERRORS), must("retry", Object(&RETRY)), may("timestamp", Time)],
);

pub(super) const ERRORS: FieldType = TextOr(&List(&Object(&ERROR)));
static ERROR: Class = class(
    "the details of an error",
    &[
        must("type", Text),
        must("loc", List(&Step)),
        must("msg", Text),
        must("input", Anything),
        may("ctx", Fields),
        may("url", Text),
    ],
);

static TOOL_AVAILABILITY_DELTA: Class = class(
    "a change of tools",
    &[may("tools_added", List(&Text)), may("tool_call_id", TEXT), may("added", List(&Text))],
);

static CAPABILITY_LOAD_DELTA: Class =
    class("a change of capabilities", &[may("loaded", List(&Text)), may("tool_call_id", TEXT)]);

static MODEL_SETTINGS_DELTA: Class =
    class("a change of settings", &[must("settings", Object(&SETTINGS)), may("top_level", Boolean)]);
static SETTINGS: Class = class("the settings of a model", &[may("thinking", WORD)]);

/// An id is a string or the object that it is derived from.
const INSTRUCTION_ID: FieldType = OrNull(&TextOr(&Object(&INSTRUCTION_SOURCE)));
static INSTRUCTION_SOURCE: Class =
    class("the id of an instruction", &[must("source", Fields), may("name", TEXT)]);

static INSTRUCTION_DELTA: Class = class(
    "a change of instructions",
    &[must("id", INSTRUCTION_ID), must("content", TEXT), may("base_hash", TEXT)],
);

static INSTRUCTION_BASELINE: Class =
    class("the instructions of a request", &[must("instructions", List(&Instruction))]);

pub(super) static INSTRUCTION: Class = class(
    "an instruction",
    &[
        must("content", Text),
        may("dynamic", Boolean),
        may("on_change", Word),
        may("name", TEXT),
        may("id", INSTRUCTION_ID),
    ],
);

pub(super) static INSTRUCTION_DIGEST: Class = class(
    "the digest of an instruction",
    &[may("id", INSTRUCTION_ID), may("dynamic", Boolean), must("content_hash", Text)],
);

static TEXT_PART: Class = class(
    "a text",
    &[
        must("content", Text),
        may("id", TEXT),
        may("provider_name", TEXT),
        may("provider_details", FIELDS),
        may("citations", OrNull(&List(&Object(&CITATION)))),
    ],
);

static CITATION: Class = class(
    "a citation",
    &[must("sources", FieldType::Some(&Kinds(SOURCES))), may("anchor", OrNull(&Kinds(ANCHORS)))],
);
const SOURCES: &[(&str, &Class)] = &[("web", &WEB_SOURCE), ("document", &DOCUMENT_SOURCE)];
const ANCHORS: &[(&str, &Class)] = &[("content", &ANCHOR), ("marker", &ANCHOR)];
static WEB_SOURCE: Class =
    class("a web source", &[must("url", Text), may("title", TEXT), may("excerpts", List(&Text))]);
static DOCUMENT_SOURCE: Class = ruled(
    "a document source",
    &[may("document_id", TEXT), may("title", TEXT), may("excerpts", List(&Text))],
    rules::document_source,
);
static ANCHOR: Class =
    ruled("the anchor of a citation", &[must("start", Integer), must("end", Integer)], rules::anchor);

static THINKING: Class = class(
    "a thought",
    &[
        must("content", Text),
        may("id", TEXT),
        may("signature", TEXT),
        may("provider_name", TEXT),
        may("provider_details", FIELDS),
    ],
);

static FILE: Class = class(
    "a file",
    &[
        must("content", Object(&BINARY)),
        may("id", TEXT),
        may("provider_name", TEXT),
        may("provider_details", FIELDS),
    ],
);

static COMPACTION: Class = class(
    "a compaction",
    &[
        may("content", TEXT),
        may("id", TEXT),
        may("provider_name", TEXT),
        may("provider_details", FIELDS),
        may("metadata", FIELDS),
    ],
);

static SPEECH: Class = class(
    "a speech",
    &[
        must("speaker", Word),
        may("transcript", TEXT),
        may("audio", OrNull(&Object(&BINARY))),
        may("interrupted_at_ms", WHOLE),
        may("timestamps", OrNull(&List(&Object(&SPEECH_TIMESTAMP)))),
        may("id", TEXT),
        may("provider_name", TEXT),
        may("provider_details", FIELDS),
    ],
);
static SPEECH_TIMESTAMP: Class = class(
    "the time of a word",
    &[must("text", Text), must("start_ms", Integer), must("duration_ms", Integer), may("granularity", Word)],
);

static URL: Class = class(
    "a file at a URL",
    &[
        must("url", Text),
        may("force_download", Download),
        may("vendor_metadata", FIELDS),
        may("media_type", TEXT),
        may("identifier", TEXT),
    ],
);

static BINARY: Class = class(
    "a binary content",
    &[
        must("data", Base64),
        must("media_type", Text),
        may("vendor_metadata", FIELDS),
        may("kind", Word),
        may("identifier", TEXT),
    ],
);

static UPLOADED_FILE: Class = class(
    "an uploaded file",
    &[
        must("file_id", Text),
        must("provider_name", Word),
        may("vendor_metadata", FIELDS),
        may("media_type", TEXT),
        may("identifier", TEXT),
    ],
);

static TEXT_CONTENT: Class = class("a text content", &[must("content", Text)]);

static STRUCTURED_CONTENT: Class = class(
    "a structured content",
    &[
        may("content", Text),
        must("value", Anything),
        may("format", WORD),
        may("tag", TEXT),
        may("description", TEXT),
    ],
);

static CACHE_POINT: Class = class("a cache point", &[may("ttl", Word)]);
