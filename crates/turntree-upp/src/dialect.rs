//! A vendor's wire, without any I/O: how a request is written, how an answer and its stream are read.
//!
//! Everything here is plain functions over text, so that each rule has a test without sockets and the stream decoders
//! can be measured and fuzzed alone. [`super::http_model::HttpModel`] adds the sockets.

use std::fmt;

use super::endpoint::Endpoint;
use super::error::{ErrorCode, UppError};
use super::provider::Capabilities;
use super::request::{ModelRequest, ModelResponse};
use turntree_core::ids::IdSource;
use turntree_core::message::StreamEvent;
use turntree_core::time::Clock;

/// How a vendor frames the events of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// Server-sent events.
    ServerSentEvents,
    /// One JSON a line.
    Lines,
}

/// The sources of what the wire does not give: message ids and times.
#[derive(Debug, Clone, Copy)]
pub struct Sources<'a> {
    /// Mints ids where the vendor gives none.
    pub ids: &'a dyn IdSource,
    /// Tells when the answer arrived.
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

    /// What the API can take and do.
    fn capabilities(&self) -> Capabilities;

    /// The path under the prefix, with its leading slash.
    fn path(&self, model_id: &str, streaming: bool) -> String;

    /// Whether the API has tools of its own, which may be asked for in `params.tools` beside functions.
    fn takes_native_tools(&self) -> bool {
        false
    }

    /// Whether the tokens of a cache are counted beside the input, not as part of it.
    fn counts_cache_apart(&self) -> bool {
        false
    }

    /// How its streams are framed.
    fn framing(&self) -> Framing {
        Framing::ServerSentEvents
    }

    /// The data of the frame that ends every stream of the vendor; `None` where one of its events says so.
    ///
    /// A stream that ends without it was cut off, whatever it said before.
    fn end_marker(&self) -> Option<&'static str> {
        None
    }

    /// Writes the body of a request.
    ///
    /// # Errors
    /// [`ErrorCode::InvalidRequest`] for content that the API cannot take.
    fn encode(&self, model_id: &str, request: &ModelRequest, streaming: bool) -> Result<Vec<u8>, UppError>;

    /// Reads the body of a whole answer.
    ///
    /// # Errors
    /// [`ErrorCode::InvalidResponse`] when it is not the vendor's format; the vendor's own error when it tells one.
    fn decode(
        &self,
        body: &str,
        request: &ModelRequest,
        sources: Sources<'_>,
    ) -> Result<ModelResponse, UppError>;

    /// Starts to read a stream.
    fn stream_decoder(&self, request: &ModelRequest) -> Box<dyn StreamDecoder>;

    /// The code and the words of an error body; `None` leaves the status to decide.
    fn error_of_body(&self, status: u16, body: &str) -> Option<(ErrorCode, String)>;
}

/// Reads one stream: frames in, events out, at the end the whole answer.
pub trait StreamDecoder: Send {
    /// Reads one frame (`data` of a server-sent event with its `event` name, or a line) and appends what it brings.
    ///
    /// # Errors
    /// An error that the vendor tells inside the stream; a frame that is not the vendor's format.
    fn frame(
        &mut self,
        event: Option<&str>,
        data: &str,
        events: &mut Vec<StreamEvent>,
    ) -> Result<(), UppError>;

    /// Whether the vendor has said that nothing more will come, as `message_stop` does.
    ///
    /// The stream is then finished without waiting for the host to close the connection, which some never do. A wire
    /// without such a word leaves it `false`.
    fn is_over(&self) -> bool {
        false
    }

    /// The stream has ended: the whole answer. May append last events (as a missing `message_stop`).
    ///
    /// # Errors
    /// [`ErrorCode::InvalidResponse`] when the stream stopped before the vendor said that the answer was whole.
    fn finish(
        self: Box<Self>,
        sources: Sources<'_>,
        events: &mut Vec<StreamEvent>,
    ) -> Result<ModelResponse, UppError>;
}
