//! In what hosts of the wire differ, as data.

use std::borrow::Cow;

use crate::endpoint::Endpoint;
use crate::provider::Capabilities;

/// In what a host of this wire differs from the others.
#[derive(Debug, Clone)]
pub struct ChatOptions {
    /// Where the API is, and how requests authenticate.
    pub endpoint: Endpoint,
    /// What it can take and do.
    pub capabilities: Capabilities,
    /// Which documents it takes.
    pub documents: Documents,
    /// How reasoning goes back with assistant messages.
    pub reasoning: Replay,
    /// Under which name reasoning is also kept in the metadata (UPP-1.2 §14).
    pub reasoning_is_kept_as: Option<&'static str>,
    /// Whether it gives `reasoning_details` and wants them back as they were.
    pub reasoning_details: bool,
    /// What else of an answer is kept in the metadata.
    pub kept_members: &'static [Member],
    /// Whether texts and tools may be marked for its cache; the system prompt then keeps its blocks.
    pub cache_control: bool,
    /// Whether its own tools, from `params.tools`, may stand before ours.
    pub native_tools: bool,
    /// Whether an assistant's own images go back with its message.
    pub images_in_answers: bool,
    /// How it is asked for a structured answer.
    pub structure: StructureForm,
    /// Which ids of calls it takes.
    pub call_ids: CallIds,
    /// What stands for the assistant where a user speaks right after tool results, which some hosts refuse.
    pub after_results: Option<&'static str>,
    /// Whether its usage tells the cost, in US dollars.
    pub reports_cost: bool,
    /// Whether it knows `stream_options`, without which a stream does not tell its usage.
    pub stream_options: bool,
    /// Whether each of its streams ends with `[DONE]`; of a host that is not known the reason to finish is enough.
    pub ends_with_done: bool,
}

/// Which documents a host takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Documents {
    /// None.
    None,
    /// PDF as data.
    PdfData,
    /// Any type as data or URL; plain text is put among the texts.
    Any,
    /// The same, each as a `document_url`.
    Links,
}

/// How reasoning goes back with the assistant's message it came with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Replay {
    /// Not at all.
    Dropped,
    /// As a member of this name, where there is some.
    Member(&'static str),
    /// As a member of this name; a message with calls has it even when it is empty.
    RequiredWithCalls(&'static str),
    /// As parts of the content that are of the type `thinking`.
    Parts,
}

/// A member of an answer that is kept in the metadata under its own name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Member {
    /// How long it took.
    TimeInfo,
    /// Sources of the answer.
    Citations,
    /// Sources, with their places in the text.
    InlineCitations,
    /// Who served it, where the host only forwards.
    Provider,
    /// The host's own tools that were run.
    ExecutedTools,
    /// What the host notes on the text, or on files that it read.
    Annotations,
    /// Why the model stopped, in the words of who served it.
    NativeFinishReason,
}

impl Member {
    /// Its name, on the wire and in the metadata.
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

/// How a host is asked for a structured answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StructureForm {
    /// By its schema, which the host enforces.
    JsonSchema,
    /// By `json_object`; the schema is told in the system prompt.
    JsonObject,
}

/// Which ids of calls a host takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallIds {
    /// Any.
    Any,
    /// Nine letters or digits; others are sent under a name made of them.
    NineCharacters,
}

impl ChatOptions {
    /// A host of which nothing more is known than that it speaks this wire.
    pub fn new(provider: impl Into<Cow<'static, str>>, base_url: impl Into<Cow<'static, str>>) -> Self {
        Self {
            endpoint: Endpoint::host(provider, base_url),
            capabilities: Capabilities::ALL,
            documents: Documents::Any,
            reasoning: Replay::Dropped,
            reasoning_is_kept_as: None,
            reasoning_details: false,
            kept_members: &[],
            cache_control: false,
            native_tools: false,
            images_in_answers: false,
            structure: StructureForm::JsonSchema,
            call_ids: CallIds::Any,
            after_results: None,
            reports_cost: false,
            stream_options: true,
            ends_with_done: false,
        }
    }

    /// A vendor: its key is needed, and it takes text alone until its data say more.
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
