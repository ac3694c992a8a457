//! Bodies of responses: server-sent events whose data are responses of JSON-RPC, or one response.

use bytes::Bytes;
use serde_json::Value;
use turntree_core::http::{BodyDecoder, Flow, HttpError};
use turntree_core::limits::Limits;
use turntree_core::sse::{Decoder, Event, SseError};

use super::error::A2aClientError;

/// One response of JSON-RPC.
#[derive(Debug)]
pub(crate) struct Frame {
    /// The id of the event.
    pub(crate) id: Option<String>,
    body: Bytes,
}

impl Frame {
    /// The result.
    pub(crate) fn result(&self) -> Result<Value, A2aClientError> {
        result_of(&self.body)
    }
}

/// The result of a response of JSON-RPC.
///
/// # Errors
/// The response has an error, or is not one of JSON-RPC.
pub(crate) fn result_of(body: &[u8]) -> Result<Value, A2aClientError> {
    let protocol = |reason: String| A2aClientError::Protocol { reason };
    let mut value: Value = serde_json::from_slice(body)
        .map_err(|error| protocol(format!("the response is not JSON: {error}")))?;
    if let Some(error) = value.get_mut("error").filter(|error| error.is_object()) {
        let message = error.get("message").and_then(Value::as_str).unwrap_or("the agent has refused");
        return Err(A2aClientError::Refused {
            code: error.get("code").and_then(Value::as_i64).unwrap_or_default(),
            message: message.to_owned(),
            data: error.get_mut("data").map(Value::take).unwrap_or_default(),
        });
    }
    let result = value.get_mut("result").map(Value::take);
    result.ok_or_else(|| protocol("the response has neither result nor error".to_owned()))
}

/// Why a body cannot be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FrameError {
    /// The connection.
    #[error(transparent)]
    Http(#[from] HttpError),
    /// The events.
    #[error(transparent)]
    Events(#[from] SseError),
    /// The body is too large.
    #[error("the response is larger than {limit} bytes")]
    TooLarge {
        /// The limit.
        limit: usize,
    },
}

/// Decodes a body of either kind.
#[derive(Debug, Default)]
pub(crate) struct Frames {
    kind: Kind,
}

#[derive(Debug, Default)]
enum Kind {
    /// Nothing was read.
    #[default]
    Unknown,
    Events(Decoder),
    Json(Vec<u8>),
}

impl BodyDecoder for Frames {
    type Item = Frame;
    type Error = FrameError;

    fn decode(&mut self, bytes: &Bytes, out: &mut Vec<Frame>) -> Result<Flow, FrameError> {
        if let Kind::Unknown = self.kind
            && let Some(first) = bytes.iter().find(|byte| !byte.is_ascii_whitespace())
        {
            self.kind =
                if *first == b'{' { Kind::Json(Vec::new()) } else { Kind::Events(Decoder::default()) };
        }
        match &mut self.kind {
            Kind::Unknown => {}
            Kind::Json(body) => {
                let limit = Limits::PAYLOAD.bytes;
                if body.len().saturating_add(bytes.len()) > limit {
                    return Err(FrameError::TooLarge { limit });
                }
                body.extend_from_slice(bytes);
            }
            Kind::Events(decoder) => decoder.push(bytes, |event| {
                out.extend(frame(&event));
                Ok::<_, FrameError>(())
            })?,
        }
        Ok(Flow::Continue)
    }

    fn finish(&mut self, out: &mut Vec<Frame>) -> Result<(), FrameError> {
        if let Kind::Json(body) = &mut self.kind {
            out.push(Frame { id: None, body: std::mem::take(body).into() });
        }
        Ok(())
    }
}

fn frame(event: &Event<'_>) -> Option<Frame> {
    let id = event.id.as_deref().filter(|id| !id.is_empty()).map(str::to_owned);
    (!event.data.is_empty()).then(|| Frame { id, body: Bytes::copy_from_slice(event.data.as_bytes()) })
}
