//! Decodes the body of a streamed response: bytes in, in chunks of any size; model events out.
//!
//! Combines the framing and the dialect's stream decoder without I/O. The task that reads a socket runs it, and so do
//! benchmarks and replays of recorded bodies.
//!
//! Spec: UPP-1.2 §13.4

use std::fmt;
use std::sync::Arc;

use super::dialect::{Dialect, Framing, Sources, StreamDecoder};
use super::dialects::common::{END_OF_STREAM, cut_short};
use super::error::UppError;
use super::provider::ModelEvent;
use super::raw_response::RawEvents;
use super::reported_error::LastFrame;
use super::request::ModelRequest;
use turntree_core::event_stream::{self, EventStreamError};
use turntree_core::ids::IdSource;
use turntree_core::message::StreamEvent;
use turntree_core::ndjson::{self, NdjsonError};
use turntree_core::sse::{self, SseError};
use turntree_core::time::Clock;

/// JSON is UTF-8 (RFC 8259 §8.1). Replacing invalid bytes would change what the model wrote, so they are an error.
const NOT_UTF8: &str = "an event of the stream is not UTF-8; send the request again";

/// Capacity that the event buffer keeps between frames. Larger buffers are freed, since a process may read a thousand
/// streams.
const KEPT_EVENTS: usize = 8;

/// Decodes one streamed response.
///
/// # Cancel safety
/// All methods are synchronous. Dropping the reader loses only the unfinished response.
pub struct ResponseReader {
    provider: Box<str>,
    frames: Frames,
    /// `None` after the end of the response.
    decoder: Option<Box<dyn StreamDecoder>>,
    /// True if the response ends only with the dialect's end marker.
    needs_marker: bool,
    events: Vec<StreamEvent>,
    last_frame: LastFrame,
    /// The events as they arrived, if they are kept.
    raw: Option<RawEvents>,
    ids: Arc<dyn IdSource>,
    clock: Arc<dyn Clock>,
}

impl fmt::Debug for ResponseReader {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_whole = self.decoder.is_none();
        let mut shown = formatter.debug_struct("ResponseReader");
        shown.field("provider", &self.provider).field("is_whole", &is_whole).finish_non_exhaustive()
    }
}

impl ResponseReader {
    /// Creates a reader of the response to `request`. The sources provide ids and times that the vendor does not send.
    pub fn new(
        dialect: &dyn Dialect,
        request: &ModelRequest,
        ids: Arc<dyn IdSource>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        Self {
            provider: dialect.provider().into(),
            frames: Frames::new(dialect.framing()),
            decoder: Some(dialect.stream_decoder(request)),
            needs_marker: dialect.end_marker().is_some(),
            events: Vec::new(),
            last_frame: LastFrame::default(),
            raw: None,
            ids,
            clock,
        }
    }

    /// Keeps the events as they arrived in the metadata of the message.
    #[must_use]
    pub fn keeping_raw(self, framing: Framing) -> Self {
        Self { raw: Some(RawEvents::new(framing)), ..self }
    }

    /// Decodes the next bytes and appends their events. Returns true when the response is complete, even if more bytes
    /// follow.
    ///
    /// # Errors
    /// Those of [`StreamDecoder::frame`] and [`StreamDecoder::finish`], and
    /// [`ErrorCode::InvalidResponse`](super::ErrorCode::InvalidResponse) for bytes that break the framing. Events
    /// before the error are in `out`.
    pub fn push(&mut self, bytes: &[u8], out: &mut Vec<ModelEvent>) -> Result<bool, UppError> {
        let result = self.feed(Some(bytes), out).and_then(|is_over| {
            if is_over {
                self.finish(out)?;
            }
            Ok(is_over)
        });
        result.map_err(|error| self.last_frame.reported(error))
    }

    /// Ends the body: appends the last events and the response.
    ///
    /// # Errors
    /// As [`Self::push`].
    pub fn end(&mut self, out: &mut Vec<ModelEvent>) -> Result<(), UppError> {
        let result = self.feed(None, out).and_then(|is_over| {
            if !is_over && self.needs_marker {
                return Err(cut_short(&self.provider));
            }
            self.finish(out)
        });
        result.map_err(|error| self.last_frame.reported(error))
    }

    /// Feeds the decoder. Returns true if the vendor marked the end of the response.
    fn feed(&mut self, bytes: Option<&[u8]>, out: &mut Vec<ModelEvent>) -> Result<bool, UppError> {
        let Self { frames, decoder, events, last_frame, raw, .. } = self;
        let Some(decoder) = decoder else { return Ok(true) };
        let mut is_over = false;
        let result = frames.feed(bytes, |event, data| {
            if is_over || data.trim() == END_OF_STREAM {
                if !is_over {
                    decoder.marked_end();
                }
                is_over = true;
                return Ok(());
            }
            if let Some(raw) = raw {
                raw.push(event, data);
            }
            last_frame.record(data);
            let read = decoder.frame(event, data, events);
            // Events are moved after each frame, so the buffer stays small in a burst.
            out.extend(events.drain(..).map(ModelEvent::Event));
            read?;
            is_over = decoder.is_over();
            Ok(())
        });
        events.shrink_to(KEPT_EVENTS);
        result.map(|()| is_over).map_err(|failure| failure.of(&self.provider))
    }

    fn finish(&mut self, out: &mut Vec<ModelEvent>) -> Result<(), UppError> {
        let Some(decoder) = self.decoder.take() else { return Ok(()) };
        let sources = Sources { ids: &*self.ids, clock: &*self.clock };
        let result = decoder.finish(sources, &mut self.events);
        out.extend(self.events.drain(..).map(ModelEvent::Event));
        let mut response = result?;
        if let Some(raw) = self.raw.take() {
            raw.record(&mut response);
        }
        out.push(ModelEvent::Done(response));
        Ok(())
    }
}

/// Splits a body into server-sent events, lines or messages.
pub(super) enum Frames {
    Events(sse::Decoder),
    Lines(ndjson::Decoder),
    Messages(event_stream::Decoder),
}

impl Frames {
    pub(super) fn new(framing: Framing) -> Self {
        match framing {
            Framing::ServerSentEvents => Self::Events(sse::Decoder::default()),
            Framing::Lines => Self::Lines(ndjson::Decoder::default()),
            Framing::AmazonEventStream => Self::Messages(event_stream::Decoder::default()),
        }
    }

    /// Feeds the next bytes, or the end of the body.
    pub(super) fn feed(
        &mut self,
        bytes: Option<&[u8]>,
        mut visit: impl FnMut(Option<&str>, &str) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        match self {
            Self::Events(decoder) => {
                let visit = |event: sse::Event<'_>| {
                    if event.is_damaged {
                        return Err(Failure::Framing(NOT_UTF8.to_owned()));
                    }
                    visit(event.event.as_deref(), &event.data)
                };
                match bytes {
                    Some(bytes) => decoder.push(bytes, visit),
                    None => decoder.finish(visit),
                }
            }
            Self::Messages(decoder) => {
                // An unfinished message at the end has no meaning; the dialect reports what is missing.
                let Some(bytes) = bytes else { return Ok(()) };
                decoder.push(bytes, |message| match std::str::from_utf8(message.payload) {
                    Ok(_) => visit(Some(message.name()), &message.text()),
                    Err(_) => Err(Failure::Framing(NOT_UTF8.to_owned())),
                })
            }
            Self::Lines(decoder) => {
                let visit = |line: &str| visit(None, line);
                match bytes {
                    Some(bytes) => decoder.push(bytes, visit),
                    None => decoder.finish(visit),
                }
            }
        }
    }
}

/// The error of a stream before its provider is known.
pub(super) enum Failure {
    Model(Box<UppError>),
    Framing(String),
}

impl Failure {
    /// Converts it into the error of a provider.
    pub(super) fn of(self, provider: &str) -> UppError {
        match self {
            Self::Model(error) => *error,
            Self::Framing(message) => UppError::invalid_response(provider, message),
        }
    }
}

impl From<UppError> for Failure {
    fn from(error: UppError) -> Self {
        Self::Model(Box::new(error))
    }
}

impl From<SseError> for Failure {
    fn from(error: SseError) -> Self {
        Self::Framing(error.to_string())
    }
}

impl From<EventStreamError> for Failure {
    fn from(error: EventStreamError) -> Self {
        Self::Framing(error.to_string())
    }
}

impl From<NdjsonError> for Failure {
    fn from(error: NdjsonError) -> Self {
        Self::Framing(error.to_string())
    }
}
