//! The trait of all language models: over HTTP, scripted, or implemented by the application.

use std::fmt;
use std::pin::Pin;

use futures_util::Stream;
use futures_util::future::BoxFuture;

use super::error::UppError;
use super::request::{ModelRequest, ModelResponse};
use turntree_core::message::StreamEvent;

/// What a model supports. The same for all models of a provider.
///
/// Spec: UPP-1.2 §10
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capabilities {
    /// Streamed responses.
    pub streaming: bool,
    /// Tool calls.
    pub tools: bool,
    /// Structured output by a JSON Schema.
    pub structured_output: bool,
    /// Images as input.
    pub image_input: bool,
    /// Documents as input.
    pub document_input: bool,
    /// Video as input.
    pub video_input: bool,
    /// Audio as input.
    pub audio_input: bool,
}

impl Capabilities {
    /// Text, tools, streams and structured output; no media.
    pub const TEXT: Self = Self {
        streaming: true,
        tools: true,
        structured_output: true,
        image_input: false,
        document_input: false,
        video_input: false,
        audio_input: false,
    };
    /// Nothing but whole responses to text.
    pub const NONE: Self = Self { streaming: false, tools: false, structured_output: false, ..Self::TEXT };
    /// Everything.
    pub const ALL: Self =
        Self { image_input: true, document_input: true, video_input: true, audio_input: true, ..Self::TEXT };

    /// What at least one of these supports.
    pub fn any_of(all: impl IntoIterator<Item = Self>) -> Self {
        all.into_iter().fold(Self::NONE, |one, other| Self {
            streaming: one.streaming | other.streaming,
            tools: one.tools | other.tools,
            structured_output: one.structured_output | other.structured_output,
            image_input: one.image_input | other.image_input,
            document_input: one.document_input | other.document_input,
            video_input: one.video_input | other.video_input,
            audio_input: one.audio_input | other.audio_input,
        })
    }

    /// The flags with their names.
    pub const fn flags(self) -> [(&'static str, bool); 7] {
        [
            ("streaming", self.streaming),
            ("tools", self.tools),
            ("structured_output", self.structured_output),
            ("image_input", self.image_input),
            ("document_input", self.document_input),
            ("video_input", self.video_input),
            ("audio_input", self.audio_input),
        ]
    }

    /// Reads each flag by its name.
    ///
    /// # Errors
    /// Those of `flag`.
    pub fn from_flags<E>(flag: impl Fn(&str) -> Result<bool, E>) -> Result<Self, E> {
        Ok(Self {
            streaming: flag("streaming")?,
            tools: flag("tools")?,
            structured_output: flag("structured_output")?,
            image_input: flag("image_input")?,
            document_input: flag("document_input")?,
            video_input: flag("video_input")?,
            audio_input: flag("audio_input")?,
        })
    }
}

/// One item of a streamed call.
#[derive(Debug, Clone, PartialEq)]
pub enum ModelEvent {
    /// An event of the stream.
    Event(StreamEvent),
    /// The whole response; the last item of every stream that does not fail.
    Done(ModelResponse),
}

/// A streamed call: events, then [`ModelEvent::Done`] or an error.
///
/// Lazy: nothing is sent before the first poll. Dropping the stream cancels the call. It may be polled on any thread.
pub type ModelStream = Pin<Box<dyn Stream<Item = Result<ModelEvent, UppError>> + Send>>;

/// A model that can be called: provider, model id and configuration.
pub trait Model: Send + Sync + fmt::Debug {
    /// The vendor's name of the model.
    fn model_id(&self) -> &str;

    /// The provider's name; also the namespace of its metadata.
    fn provider(&self) -> &str;

    /// What the model supports.
    fn capabilities(&self) -> Capabilities;

    /// Calls the model and returns the whole response.
    ///
    /// # Cancel safety
    /// Dropping the future cancels the call and closes its connection.
    fn complete(&self, request: ModelRequest) -> BoxFuture<'static, Result<ModelResponse, UppError>>;

    /// Calls the model and streams the response.
    fn stream(&self, request: ModelRequest) -> ModelStream;
}
