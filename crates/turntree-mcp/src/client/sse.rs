//! The HTTP transport of protocol version 2024-11-05, which rmcp does not have.
//!
//! The client opens an event stream. Its first event, `endpoint`, is the address for requests; each later event is a
//! message of the server.

use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::stream::BoxStream;
use http::header::{ACCEPT, CONTENT_TYPE, WWW_AUTHENTICATE};
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use rmcp::RoleClient;
use rmcp::model::{ClientJsonRpcMessage, ServerJsonRpcMessage};
use rmcp::transport::Transport;
use sse_stream::Sse;
use url::Url;

use super::http::{HttpEndpoint, events};
use crate::error::McpError;

/// A connection over two addresses.
pub(super) struct SseTransport {
    endpoint: HttpEndpoint,
    messages: Option<BoxStream<'static, Result<Sse, rmcp::transport::streamable_http_client::SseError>>>,
    post: Url,
}

impl SseTransport {
    /// Opens the event stream and reads the address for requests.
    pub(super) async fn open(endpoint: &HttpEndpoint) -> Result<Self, McpError> {
        let failed = |reason: String| McpError::Connect { reason };
        let headers = HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static("text/event-stream"))]);
        let url = endpoint.url().clone();
        let response = endpoint.send(Method::GET, url, headers, Bytes::new()).await;
        let response = response.map_err(|error| failed(error.to_string()))?;
        if response.status() == StatusCode::UNAUTHORIZED {
            let challenge = response.headers().get(WWW_AUTHENTICATE).and_then(|value| value.to_str().ok());
            return Err(McpError::Unauthorized { challenge: challenge.unwrap_or("no challenge").to_owned() });
        }
        if !response.status().is_success() {
            return Err(failed(format!("status {}", response.status())));
        }
        let mut messages = events(response.into_body());
        while let Some(event) = messages.next().await {
            let event = event.map_err(|error| failed(error.to_string()))?;
            if event.event.as_deref() != Some("endpoint") {
                continue;
            }
            let address = event.data.unwrap_or_default();
            let post = endpoint.url().join(address.trim()).map_err(|error| failed(error.to_string()))?;
            if post.origin() != endpoint.url().origin() {
                return Err(failed("it names an address for requests on another host".to_owned()));
            }
            return Ok(Self { endpoint: endpoint.clone(), messages: Some(messages), post });
        }
        Err(failed(
            "its event stream ended without an event \"endpoint\"; use mcp.http for newer servers".to_owned(),
        ))
    }
}

/// A message could not be sent.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct SendError(String);

impl Transport<RoleClient> for SseTransport {
    type Error = SendError;

    fn send(
        &mut self,
        message: ClientJsonRpcMessage,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let (endpoint, url) = (self.endpoint.clone(), self.post.clone());
        async move {
            let body = serde_json::to_vec(&message).map_err(|error| SendError(error.to_string()))?;
            let headers =
                HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static("application/json"))]);
            let sent = endpoint.send(Method::POST, url, headers, Bytes::from(body)).await;
            let status = sent.map_err(|error| SendError(error.to_string()))?.status();
            if status.is_success() { Ok(()) } else { Err(SendError(format!("status {status}"))) }
        }
    }

    async fn receive(&mut self) -> Option<ServerJsonRpcMessage> {
        loop {
            let event = self.messages.as_mut()?.next().await?.ok()?;
            let data = event.data.unwrap_or_default();
            match serde_json::from_str(&data) {
                Ok(message) => return Some(message),
                Err(error) => {
                    log::warn!(target: "turntree.mcp", "a message of the server is not valid: {error}")
                }
            }
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.messages = None;
        Ok(())
    }
}
