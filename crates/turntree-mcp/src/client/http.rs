//! rmcp's HTTP client port over a [`Transport`] of turntree.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::stream::{self, BoxStream};
use futures_util::{StreamExt as _, TryStreamExt as _};
use http::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_TYPE, WWW_AUTHENTICATE};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use rmcp::model::{ClientJsonRpcMessage, JsonRpcMessage, ServerJsonRpcMessage};
use rmcp::transport::streamable_http_client::{
    AuthRequiredError, SseError, StreamableHttpClient, StreamableHttpClientTransportConfig,
    StreamableHttpError, StreamableHttpPostResponse,
};
use sse_stream::Sse;
use turntree_core::http::{PreparedRequest, ResponseBody, Transport, TransportError};
use turntree_core::secret::Secret;
use turntree_core::sse::{Decoder, SseError as DecodeError};
use url::Url;

use crate::error::McpError;

const SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// Maximum size in bytes of a response in one piece, and of one event.
pub(super) const MAX_MESSAGE: usize = 64 * 1024 * 1024;

/// How much of the body of an error is read.
const MAX_ERROR_TEXT: usize = 1000;

type Failure = StreamableHttpError<TransportError>;

/// Where a server is, and how it is reached.
#[derive(Clone)]
pub struct HttpEndpoint {
    url: Url,
    headers: HeaderMap,
    transport: Arc<dyn Transport>,
}

/// Hides the headers and the query of the URL, which may contain keys.
impl fmt::Debug for HttpEndpoint {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("HttpEndpoint").field("host", &self.url.host_str()).finish_non_exhaustive()
    }
}

impl HttpEndpoint {
    /// An address with headers for every request. `token` is sent as `Authorization: Bearer`.
    ///
    /// # Errors
    /// [`McpError::Invalid`] for an invalid URL or header.
    pub fn new(
        url: &str,
        headers: &[(String, String)],
        token: Option<&Secret>,
        transport: Arc<dyn Transport>,
    ) -> Result<Self, McpError> {
        let invalid = |message: String| McpError::Invalid { message };
        let url = Url::parse(url).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
        let url = url.ok_or_else(|| {
            invalid("url: not an address; pass one such as \"https://example.com/mcp\"".to_owned())
        })?;
        let mut map = HeaderMap::with_capacity(headers.len() + 1);
        let bearer = token.map(|token| ("authorization".to_owned(), format!("Bearer {}", token.expose())));
        for (name, value) in headers.iter().cloned().chain(bearer) {
            let parsed = HeaderName::from_bytes(name.as_bytes())
                .map_err(|_| invalid(format!("headers: {name:?} is not the name of a header")))?;
            let mut value = HeaderValue::try_from(value)
                .map_err(|_| invalid(format!("headers[{name:?}]: the value is not printable text")))?;
            value.set_sensitive(true);
            map.insert(parsed, value);
        }
        Ok(Self { url, headers: map, transport })
    }

    /// The transport of rmcp. Needs the tokio runtime.
    pub(super) fn streamable(self) -> impl rmcp::transport::Transport<rmcp::RoleClient> {
        let mut config = StreamableHttpClientTransportConfig::with_uri(self.url.as_str());
        config.max_sse_event_size = MAX_MESSAGE;
        config.max_json_response_size = MAX_MESSAGE;
        let client = TransportClient { endpoint: self };
        rmcp::transport::StreamableHttpClientTransport::with_client(client, config)
    }

    pub(super) const fn url(&self) -> &Url {
        &self.url
    }

    /// Sends a request.
    pub(super) async fn send(
        &self,
        method: Method,
        url: Url,
        extra: HeaderMap,
        body: Bytes,
    ) -> Result<http::Response<ResponseBody>, TransportError> {
        let mut headers = self.headers.clone();
        headers.extend(extra);
        // A compressed stream delivers events only when a block is full.
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        self.transport.send(PreparedRequest::new(method, url, headers, body)).await
    }
}

/// The client of rmcp's worker.
#[derive(Clone)]
struct TransportClient {
    endpoint: HttpEndpoint,
}

impl TransportClient {
    async fn request(
        &self,
        method: Method,
        uri: &str,
        session: Option<&str>,
        custom: HashMap<HeaderName, HeaderValue>,
        extra: &[(HeaderName, &str)],
        body: Bytes,
    ) -> Result<http::Response<ResponseBody>, Failure> {
        let url = Url::parse(uri).map_err(|error| unexpected(error.to_string()))?;
        let mut headers: HeaderMap = custom.into_iter().collect();
        let session = session.map(|id| (SESSION_ID, id));
        for (name, value) in extra.iter().cloned().chain(session) {
            let value = HeaderValue::from_str(value).map_err(|error| unexpected(error.to_string()))?;
            headers.insert(name, value);
        }
        let sent = self.endpoint.send(method, url, headers, body).await;
        let response = sent.map_err(StreamableHttpError::Client)?;
        match (response.status(), text_of(response.headers(), &WWW_AUTHENTICATE)) {
            (StatusCode::UNAUTHORIZED, challenge) => {
                let challenge = challenge.unwrap_or("no challenge");
                Err(StreamableHttpError::AuthRequired(AuthRequiredError::new(challenge.to_owned())))
            }
            _ => Ok(response),
        }
    }
}

impl StreamableHttpClient for TransportClient {
    type Error = TransportError;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        _auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<StreamableHttpPostResponse, Failure> {
        let body = Bytes::from(serde_json::to_vec(&message)?);
        let extra = [(ACCEPT, "application/json, text/event-stream"), (CONTENT_TYPE, "application/json")];
        let had_session = session_id.is_some();
        let response =
            self.request(Method::POST, &uri, session_id.as_deref(), custom_headers, &extra, body).await?;
        let status = response.status();
        let session = text_of(response.headers(), &SESSION_ID).map(str::to_owned);
        let media_type = text_of(response.headers(), &CONTENT_TYPE).unwrap_or_default().to_ascii_lowercase();
        if matches!(status, StatusCode::ACCEPTED | StatusCode::NO_CONTENT) {
            return Ok(StreamableHttpPostResponse::Accepted);
        }
        if status == StatusCode::NOT_FOUND && had_session {
            return Err(StreamableHttpError::SessionExpired);
        }
        if status.is_success() && media_type.starts_with("text/event-stream") {
            return Ok(StreamableHttpPostResponse::Sse(events(response.into_body()), session));
        }
        let text = whole(response.into_body(), MAX_MESSAGE).await?;
        let is_request = matches!(message, JsonRpcMessage::Request(_));
        if status.is_success() && (text.is_empty() || !is_request) {
            return Ok(StreamableHttpPostResponse::Accepted);
        }
        match serde_json::from_slice::<ServerJsonRpcMessage>(&text) {
            Ok(answer) if status.is_success() => Ok(StreamableHttpPostResponse::Json(answer, session)),
            Ok(answer @ JsonRpcMessage::Error(_)) => Ok(StreamableHttpPostResponse::Json(answer, session)),
            _ => Err(unexpected(describe(status, &text))),
        }
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session_id: Arc<str>,
        _auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<(), Failure> {
        let response =
            self.request(Method::DELETE, &uri, Some(&session_id), custom_headers, &[], Bytes::new()).await?;
        match response.status() {
            StatusCode::METHOD_NOT_ALLOWED | StatusCode::NOT_FOUND => Ok(()),
            status if status.is_success() => Ok(()),
            status => Err(unexpected(format!("status {status}"))),
        }
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session_id: Option<Arc<str>>,
        last_event_id: Option<String>,
        _auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, Failure> {
        let mut extra = vec![(ACCEPT, "text/event-stream")];
        extra.extend(last_event_id.as_deref().map(|id| (LAST_EVENT_ID, id)));
        let session = session_id.as_deref();
        let response = self.request(Method::GET, &uri, session, custom_headers, &extra, Bytes::new()).await?;
        match response.status() {
            StatusCode::METHOD_NOT_ALLOWED => Err(StreamableHttpError::ServerDoesNotSupportSse),
            status if status.is_success() => Ok(events(response.into_body())),
            status => Err(unexpected(format!("status {status}"))),
        }
    }
}

/// The events of a body, as rmcp takes them.
pub(super) fn events(body: ResponseBody) -> BoxStream<'static, Result<Sse, SseError>> {
    let decoder = Decoder::with_limit(MAX_MESSAGE);
    let batches = body.map_err(|error| SseError::Body(Box::new(error))).scan(decoder, |decoder, chunk| {
        let decoded = chunk.and_then(|bytes| decode(decoder, &bytes));
        std::future::ready(Some(decoded))
    });
    batches.map_ok(|batch| stream::iter(batch).map(Ok)).try_flatten().boxed()
}

fn decode(decoder: &mut Decoder, bytes: &[u8]) -> Result<Vec<Sse>, SseError> {
    let mut found = Vec::new();
    let decoded = decoder.push(bytes, |event| {
        found.push((event.event.map(Cow::into_owned), event.data.into_owned()));
        Ok::<_, DecodeError>(())
    });
    decoded.map_err(|error| SseError::Body(Box::new(error)))?;
    let id = Some(decoder.last_event_id()).filter(|id| !id.is_empty());
    let retry = decoder.retry().and_then(|wait| u64::try_from(wait.as_millis()).ok());
    let event = |(event, data)| Sse { event, data: Some(data), id: id.map(str::to_owned), retry };
    Ok(found.into_iter().map(event).collect())
}

/// The body in one piece.
pub(super) async fn whole(mut body: ResponseBody, limit: usize) -> Result<Vec<u8>, Failure> {
    let mut text = Vec::new();
    while let Some(chunk) = body.try_next().await.map_err(StreamableHttpError::Client)? {
        if text.len() + chunk.len() > limit {
            return Err(StreamableHttpError::ResponseBodyTooLarge { max_size: limit });
        }
        text.extend_from_slice(&chunk);
    }
    Ok(text)
}

fn text_of<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

fn describe(status: StatusCode, text: &[u8]) -> String {
    let text: String = String::from_utf8_lossy(text).chars().take(MAX_ERROR_TEXT).collect();
    format!("status {status}: {text}")
}

fn unexpected(reason: String) -> Failure {
    StreamableHttpError::UnexpectedServerResponse(reason.into())
}
