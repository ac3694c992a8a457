//! A vendor's request and response format, without I/O.
//!
//! Dialects are plain functions over text, so they can be tested, measured and fuzzed without sockets.
//! [`super::http_model::HttpModel`] adds the HTTP client.

use std::fmt;
use std::sync::Arc;

use super::endpoint::Endpoint;
use super::error::{ErrorCode, UppError};
use super::provider::Capabilities;
use super::request::{ModelRequest, ModelResponse};
use super::settings::SettingsTable;
use super::structured_output::SchemaRules;
use turntree_core::http::TransportLayer;
use turntree_core::ids::IdSource;
use turntree_core::message::StreamEvent;
use turntree_core::time::Clock;

/// How a vendor frames the events of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// Server-sent events.
    ServerSentEvents,
    /// One JSON document on each line.
    Lines,
    /// Messages of an event stream of Amazon.
    AmazonEventStream,
}

/// Sources of ids and timestamps that the vendor does not send.
#[derive(Debug, Clone, Copy)]
pub struct Sources<'a> {
    /// Creates ids.
    pub ids: &'a dyn IdSource,
    /// Provides the time of arrival.
    pub clock: &'a dyn Clock,
}

/// One vendor's API for text and tools.
pub trait Dialect: Send + Sync + fmt::Debug + 'static {
    /// Where the API is, and how requests authenticate.
    fn endpoint(&self) -> &Endpoint;

    /// The provider's name: in errors, and as the namespace of metadata.
    fn provider(&self) -> &str {
        &self.endpoint().provider
    }

    /// What the API supports.
    fn capabilities(&self) -> Capabilities;

    /// The path under the prefix, with its leading slash.
    fn path(&self, model_id: &str, streaming: bool) -> String;

    /// True if the vendor runs tools of its own, which are requested in `params.tools`.
    fn takes_native_tools(&self) -> bool {
        false
    }

    /// True if the vendor counts cached tokens in addition to the input tokens, not as part of them.
    fn counts_cache_apart(&self) -> bool {
        false
    }

    /// The schemas that the vendor enforces as structured output of this model; `None` if it enforces none, or any.
    fn schema_rules(&self, _model_id: &str) -> Option<&'static SchemaRules> {
        None
    }

    /// The vendor's words for the common settings.
    fn settings(&self) -> &'static SettingsTable {
        &SettingsTable::CHAT
    }

    /// A parameter that the vendor requires, with its value for callers that leave it out.
    fn required_param(&self, _model_id: &str) -> Option<(&'static str, u64)> {
        None
    }

    /// Signs requests, for vendors that take signatures instead of a key.
    fn signing(&self) -> Option<&Arc<dyn TransportLayer>> {
        None
    }

    /// How streams are framed.
    fn framing(&self) -> Framing {
        Framing::ServerSentEvents
    }

    /// The data of the frame that ends every stream; `None` if the end is one of the vendor's events.
    ///
    /// A stream that ends without this frame is reported as truncated.
    fn end_marker(&self) -> Option<&'static str> {
        None
    }

    /// Writes the body of a request.
    ///
    /// # Errors
    /// [`ErrorCode::InvalidRequest`] for content that the API does not support.
    fn encode(&self, model_id: &str, request: &ModelRequest, streaming: bool) -> Result<Vec<u8>, UppError>;

    /// Reads the body of a whole response.
    ///
    /// # Errors
    /// [`ErrorCode::InvalidResponse`] if the body does not follow the vendor's format; the vendor's own error if the
    /// body reports one.
    fn decode(
        &self,
        body: &str,
        request: &ModelRequest,
        sources: Sources<'_>,
    ) -> Result<ModelResponse, UppError>;

    /// Creates the decoder of one stream.
    fn stream_decoder(&self, request: &ModelRequest) -> Box<dyn StreamDecoder>;

    /// Code and message of an error body; `None` if the status decides.
    fn error_of_body(&self, status: u16, body: &str) -> Option<(ErrorCode, String)>;
}

/// Decodes one stream: frames in, events out, and the whole response at the end.
pub trait StreamDecoder: Send {
    /// Decodes one frame (the `data` of a server-sent event and its `event` name, or one line) and appends its events.
    ///
    /// # Errors
    /// An error that the vendor reports inside the stream; [`ErrorCode::InvalidResponse`] for a frame that does not
    /// follow the vendor's format.
    fn frame(
        &mut self,
        event: Option<&str>,
        data: &str,
        events: &mut Vec<StreamEvent>,
    ) -> Result<(), UppError>;

    /// True if the vendor has marked the end of the response, as with `message_stop`.
    ///
    /// The stream then finishes without waiting for the host to close the connection, which some hosts never do. Stays
    /// `false` for formats without such a mark.
    fn is_over(&self) -> bool {
        false
    }

    /// Called when the host has sent `[DONE]`, before [`StreamDecoder::finish`].
    fn marked_end(&mut self) {}

    /// Ends the stream and returns the whole response. May append missing last events, such as `message_stop`.
    ///
    /// # Errors
    /// [`ErrorCode::InvalidResponse`] if the stream ended before the vendor marked the end of the response.
    fn finish(
        self: Box<Self>,
        sources: Sources<'_>,
        events: &mut Vec<StreamEvent>,
    ) -> Result<ModelResponse, UppError>;
}
