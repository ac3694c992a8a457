//! Bodies of servers that answer either with server-sent events or with one JSON document.

use bytes::Bytes;

use super::body::{BodyDecoder, Flow};
use super::error::HttpError;
use crate::limits::Limits;
use crate::sse::{Decoder, Event, SseError};

/// Why a body of either kind cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EventsOrDocumentError {
    /// The connection.
    #[error(transparent)]
    Http(#[from] HttpError),
    /// The events.
    #[error(transparent)]
    Events(#[from] SseError),
    /// The document is too large.
    #[error("the response is larger than {limit} bytes")]
    TooLarge {
        /// The limit.
        limit: usize,
    },
}

/// What a caller reads from a body of either kind.
pub trait EventOrDocument: Sized + Send + 'static {
    /// Reads an event; `None` for events that the caller does not know.
    fn from_event(event: &Event<'_>) -> Option<Self>;

    /// Reads the document that is the whole body.
    fn from_document(document: Bytes) -> Self;

    /// Returns whether nothing that matters follows.
    fn is_last(&self) -> bool {
        false
    }
}

/// Decodes a body of either kind. Its first byte that is not white space tells which: `{` starts a document.
#[derive(Debug)]
pub struct EventsOrDocument<T> {
    content: Content,
    item: std::marker::PhantomData<fn() -> T>,
}

#[derive(Debug, Default)]
enum Content {
    /// Nothing was read.
    #[default]
    Unknown,
    Events(Decoder),
    Document(Vec<u8>),
}

impl Content {
    fn starting_with(first: u8) -> Self {
        if first == b'{' { Self::Document(Vec::new()) } else { Self::Events(Decoder::default()) }
    }
}

impl<T> Default for EventsOrDocument<T> {
    fn default() -> Self {
        Self { content: Content::default(), item: std::marker::PhantomData }
    }
}

impl<T: EventOrDocument> BodyDecoder for EventsOrDocument<T> {
    type Item = T;
    type Error = EventsOrDocumentError;

    fn decode(&mut self, bytes: &Bytes, out: &mut Vec<T>) -> Result<Flow, EventsOrDocumentError> {
        if let Content::Unknown = self.content
            && let Some(first) = bytes.iter().find(|byte| !byte.is_ascii_whitespace())
        {
            self.content = Content::starting_with(*first);
        }
        match &mut self.content {
            Content::Unknown => {}
            Content::Document(document) => {
                let limit = Limits::PAYLOAD.bytes;
                if document.len().saturating_add(bytes.len()) > limit {
                    return Err(EventsOrDocumentError::TooLarge { limit });
                }
                document.extend_from_slice(bytes);
            }
            Content::Events(decoder) => decoder.push(bytes, |event| {
                out.extend(T::from_event(&event));
                Ok::<_, EventsOrDocumentError>(())
            })?,
        }
        Ok(if out.last().is_some_and(T::is_last) { Flow::Done } else { Flow::Continue })
    }

    fn finish(&mut self, out: &mut Vec<T>) -> Result<(), EventsOrDocumentError> {
        if let Content::Document(document) = &mut self.content {
            out.push(T::from_document(std::mem::take(document).into()));
        }
        Ok(())
    }
}
