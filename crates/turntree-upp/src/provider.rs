//! Anything that serves a model: a vendor over HTTP, a script, a stranger's implementation.

use std::fmt;
use std::pin::Pin;

use futures_util::Stream;
use futures_util::future::BoxFuture;

use super::error::UppError;
use super::request::{ModelRequest, ModelResponse};
use turntree_core::message::StreamEvent;

/// What a model can take and do. Static facts of a provider. UPP-1.2 §10.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capabilities {
    /// Answers piece by piece.
    pub streaming: bool,
    /// Calls tools.
    pub tools: bool,
    /// Answers by a schema.
    pub structured_output: bool,
    /// Reads images.
    pub image_input: bool,
    /// Reads documents.
    pub document_input: bool,
    /// Watches films.
    pub video_input: bool,
    /// Hears sound.
    pub audio_input: bool,
}

impl Capabilities {
    /// Text, tools, streams and structured answers, no media.
    pub const TEXT: Self = Self {
        streaming: true,
        tools: true,
        structured_output: true,
        image_input: false,
        document_input: false,
        video_input: false,
        audio_input: false,
    };
    /// Everything.
    pub const ALL: Self =
        Self { image_input: true, document_input: true, video_input: true, audio_input: true, ..Self::TEXT };
}

/// One step of a streamed call.
#[derive(Debug, Clone, PartialEq)]
pub enum ModelEvent {
    /// A piece arrived.
    Event(StreamEvent),
    /// The answer is whole; the last item of every stream that does not fail.
    Done(ModelResponse),
}

/// A streamed call: events, then [`ModelEvent::Done`]; or an error, which is the last item.
///
/// Lazy: nothing is sent before the first poll. Dropping it stops the call. May be polled on any thread.
pub type ModelStream = Pin<Box<dyn Stream<Item = Result<ModelEvent, UppError>> + Send>>;

/// A model that can be called: a provider bound to a model id and a configuration.
pub trait Model: Send + Sync + fmt::Debug {
    /// The vendor's name for it.
    fn model_id(&self) -> &str;

    /// The provider's name; also the namespace of its metadata.
    fn provider(&self) -> &str;

    /// What it can take and do.
    fn capabilities(&self) -> Capabilities;

    /// Calls the model and waits for the whole answer.
    ///
    /// # Cancel safety
    /// Dropping the future stops the call: its connection is given up.
    fn complete(&self, request: ModelRequest) -> BoxFuture<'static, Result<ModelResponse, UppError>>;

    /// Calls the model and gives its answer piece by piece.
    fn stream(&self, request: ModelRequest) -> ModelStream;
}
