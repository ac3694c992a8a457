//! The differences between Chat Completions hosts, as data.

use std::borrow::Cow;

use crate::endpoint::Endpoint;
use crate::provider::Capabilities;
use crate::structured_output::SchemaRules;

/// The differences of one host.
#[derive(Debug, Clone)]
pub struct ChatOptions {
    /// Where the API is, and how requests authenticate.
    pub endpoint: Endpoint,
    /// What the API supports.
    pub capabilities: Capabilities,
    /// Which documents the host supports.
    pub documents: Documents,
    /// How reasoning is sent back with assistant messages.
    pub reasoning: Replay,
    /// The metadata member in which reasoning is also stored (UPP-1.2 §14).
    pub reasoning_metadata_member: Option<&'static str>,
    /// True if responses have `reasoning_details`, which are sent back unchanged.
    pub reasoning_details: bool,
    /// Other members of a response that are stored in the metadata.
    pub metadata_members: &'static [Member],
    /// True if texts and tools may have cache marks. The system prompt is then sent as blocks.
    pub cache_control: bool,
    /// True if provider tools from `params.tools` are sent before the functions.
    pub native_tools: bool,
    /// True if images of the assistant are sent back with its message.
    pub images_in_answers: bool,
    /// How structured output is requested.
    pub structure: StructureForm,
    /// The schemas that the host enforces.
    pub schema_rules: &'static SchemaRules,
    /// Which call ids the host accepts.
    pub call_ids: CallIds,
    /// The assistant message to insert between tool results and a user message, for hosts that require one.
    pub after_results: Option<&'static str>,
    /// True if the usage contains the cost, in US dollars.
    pub reports_cost: bool,
    /// True if reasoning tokens are not part of the completion tokens.
    pub reasoning_apart: bool,
    /// True if the host supports `stream_options`, without which its streams report no usage.
    pub stream_options: bool,
    /// True if every stream ends with `[DONE]`. For unknown hosts a finish reason is enough.
    pub ends_with_done: bool,
}

/// Which documents a host supports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Documents {
    /// None.
    None,
    /// PDF as data.
    PdfData,
    /// Any type as data or URL; plain text is sent as text.
    Any,
    /// Any type, each as a `document_url`.
    Links,
}

/// How reasoning is sent back with the assistant's message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Replay {
    /// Not at all.
    Dropped,
    /// As a member of this name, if there is any.
    Member(&'static str),
    /// As a member of this name. Messages with tool calls always have it, even if it is empty.
    RequiredWithCalls(&'static str),
    /// As parts of the content, of type `thinking`.
    Parts,
}

/// A member of a response that is stored in the metadata under its own name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Member {
    /// The duration.
    TimeInfo,
    /// Sources.
    Citations,
    /// Sources with their positions in the text.
    InlineCitations,
    /// The vendor behind a gateway.
    Provider,
    /// Provider tools that were run.
    ExecutedTools,
    /// Annotations of the text, or of files.
    Annotations,
    /// The stop reason of the vendor behind a gateway.
    NativeFinishReason,
}

impl Member {
    /// The name in JSON and in the metadata.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::TimeInfo => "time_info",
            Self::Citations => "citations",
            Self::InlineCitations => "inline_citations",
            Self::Provider => "provider",
            Self::ExecutedTools => "executed_tools",
            Self::Annotations => "annotations",
            Self::NativeFinishReason => "native_finish_reason",
        }
    }
}

/// How structured output is requested.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StructureForm {
    /// With a JSON Schema, which the host enforces.
    JsonSchema,
    /// With `json_object`; the schema is added to the system prompt.
    JsonObject,
}

/// Which call ids a host accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallIds {
    /// Any.
    Any,
    /// Nine letters or digits; other ids are replaced by a hash of that form.
    NineCharacters,
}

impl ChatOptions {
    /// An unknown host: everything that is common to the format.
    pub fn new(provider: impl Into<Cow<'static, str>>, base_url: impl Into<Cow<'static, str>>) -> Self {
        Self {
            endpoint: Endpoint::host(provider, base_url),
            capabilities: Capabilities::ALL,
            documents: Documents::Any,
            reasoning: Replay::Dropped,
            reasoning_metadata_member: None,
            reasoning_details: false,
            metadata_members: &[],
            cache_control: false,
            native_tools: false,
            images_in_answers: false,
            structure: StructureForm::JsonSchema,
            schema_rules: &SchemaRules::OPENAI,
            call_ids: CallIds::Any,
            after_results: None,
            reports_cost: false,
            reasoning_apart: false,
            stream_options: true,
            ends_with_done: false,
        }
    }

    /// A vendor: a key is required; supports text only unless its options say otherwise.
    pub fn vendor(
        provider: &'static str,
        base_url: &'static str,
        key_variables: &'static [&'static str],
    ) -> Self {
        Self {
            endpoint: Endpoint::vendor(provider, base_url, key_variables),
            capabilities: Capabilities::TEXT,
            documents: Documents::None,
            ends_with_done: true,
            ..Self::new(provider, base_url)
        }
    }
}
