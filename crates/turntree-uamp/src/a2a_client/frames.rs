//! Bodies of responses: server-sent events whose data are responses of JSON-RPC, or one response.

use bytes::Bytes;
use serde_json::Value;
use turntree_core::http::EventOrDocument;
use turntree_core::sse::Event;

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

impl EventOrDocument for Frame {
    fn from_event(event: &Event<'_>) -> Option<Self> {
        let id = event.id.as_deref().filter(|id| !id.is_empty()).map(str::to_owned);
        (!event.data.is_empty()).then(|| Self { id, body: Bytes::copy_from_slice(event.data.as_bytes()) })
    }

    fn from_document(document: Bytes) -> Self {
        Self { id: None, body: document }
    }
}
