//! A dialect spoken over HTTP. UPP-1.2 §9, §12, §13.
//!
//! Keys and bodies are made where the caller polls; sockets, framing and the dialect's stream decoder run in the
//! background task that reads the body, so that only finished events change threads.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::{StreamExt as _, TryFutureExt as _};
use tokio_util::sync::CancellationToken;

use super::config::{ProviderConfig, endpoint};
use super::dialect::{Dialect, Framing, Sources, StreamDecoder};
use super::dialects::common::VendorError;
use super::error::{ErrorCode, UppError};
use super::provider::{Capabilities, Model, ModelEvent, ModelStream};
use super::request::{ModelRequest, ModelResponse};
use crate::core::http::{
    BodySink, Environment, Expect, Flow, HttpClient, HttpError, HttpRequest, KeyError, KeyStrategy as _,
    StatusError,
};
use crate::core::ids::{IdSource, RandomIds};
use crate::core::ndjson::{self, NdjsonError};
use crate::core::secret::Secret;
use crate::core::sse::{self, SseError};
use crate::core::time::{Clock, SystemClock};
use crate::message::StreamEvent;

/// Headers that carry a key: with one of them given, no other key is needed.
const KEY_HEADERS: [&str; 4] = ["authorization", "x-api-key", "api-key", "x-goog-api-key"];

/// Keys shorter than this are not looked for in the vendor's words: they would be words themselves.
const SHORTEST_HIDDEN_KEY: usize = 6;

/// What ends the data of a chat stream.
const END_OF_STREAM: &str = "[DONE]";

/// Largest answer of vectors or pictures: 2048 vectors of 3072 numbers take some 130 MB.
const MAX_VECTORS_OR_PICTURES: usize = 512 * 1024 * 1024;

/// A model behind a vendor's HTTP API. Cloning shares everything.
#[derive(Debug, Clone)]
pub struct HttpModel {
    dialect: Arc<dyn Dialect>,
    model_id: Arc<str>,
    config: Arc<ProviderConfig>,
    ids: Arc<dyn IdSource>,
    clock: Arc<dyn Clock>,
}

impl HttpModel {
    /// A model of this vendor, reached as the configuration says.
    pub fn new(dialect: Arc<dyn Dialect>, model_id: impl Into<Arc<str>>, config: ProviderConfig) -> Self {
        Self {
            dialect,
            model_id: model_id.into(),
            config: Arc::new(config),
            ids: Arc::new(RandomIds),
            clock: Arc::new(SystemClock),
        }
    }

    /// With other sources of ids and time, for tests and replays.
    #[must_use]
    pub fn with_sources(self, ids: Arc<dyn IdSource>, clock: Arc<dyn Clock>) -> Self {
        Self { ids, clock, ..self }
    }

    /// How it is reached.
    pub fn config(&self) -> &ProviderConfig {
        &self.config
    }

    /// The key of the next request; `None` where none is needed.
    async fn key(&self) -> Result<Option<Secret>, UppError> {
        let key = match &self.config.api_key {
            Some(keys) => keys.key().await,
            None if KEY_HEADERS.iter().any(|name| self.config.has_header(name)) => return Ok(None),
            None => Environment::new(self.dialect.key_variables().iter().copied()).key().await,
        };
        match key {
            // Keys that are read from files end with a line feed, which no header may hold.
            Ok(key) if !key.is_empty() => Ok(Some(Secret::from(key.expose().trim()))),
            Ok(_) | Err(KeyError::NotFound { .. }) if self.dialect.key_is_optional() => Ok(None),
            Ok(_) => {
                Err(self.error(ErrorCode::AuthenticationFailed, "the API key is empty; provide another one"))
            }
            Err(error) => {
                Err(self.error(ErrorCode::AuthenticationFailed, error.to_string()).with_cause(error))
            }
        }
    }

    /// The request as it is sent, and the keys in it.
    async fn prepare(
        &self,
        request: &ModelRequest,
        streaming: bool,
    ) -> Result<(HttpRequest, Keys), UppError> {
        let key = self.key().await?;
        let body = self.dialect.encode(&self.model_id, request, streaming)?;
        let expect = match (streaming, self.dialect.framing()) {
            (false, _) => Expect::Json,
            (true, Framing::ServerSentEvents) => Expect::EventStream,
            (true, Framing::Lines) => Expect::JsonLines,
        };
        let path = self.dialect.path(&self.model_id, streaming);
        Ok(self.address(key, Ask::json(path, body), expect))
    }

    /// A request to one of the vendor's APIs, with key and headers.
    fn address(&self, key: Option<Secret>, ask: Ask, expect: Expect) -> (HttpRequest, Keys) {
        let base_url = self.config.base_url.as_deref().unwrap_or_else(|| self.dialect.default_base_url());
        let mut http = HttpRequest::post(endpoint(base_url, &ask.path), ask.body)
            .header("Content-Type", ask.content_type)
            .expect(expect);
        for (name, value) in self.dialect.headers(key.as_ref()) {
            http = http.secret_header(name, &value);
        }
        for (name, value) in &self.config.headers {
            if let Some(value) = value {
                http = http.secret_header(name, value);
            }
        }
        (http, Keys::of(key, &self.config))
    }

    fn client(&self, max_body: Option<usize>) -> Result<HttpClient, UppError> {
        let mut config = self.config.http();
        config.max_body = max_body.unwrap_or(config.max_body);
        HttpClient::shared(&config).map_err(|error| self.http_error(error))
    }

    async fn call(self, request: ModelRequest) -> Result<ModelResponse, UppError> {
        let prepared = self.prepare(&request, false).await?;
        let decode = |body: &str| {
            self.dialect.decode(body, &request, Sources { ids: &*self.ids, clock: &*self.clock })
        };
        self.send(prepared, None, decode).await
    }

    /// Asks another API of the same vendor, reached in the same way: embeddings, images.
    pub(super) async fn exchange<T>(
        &self,
        ask: Ask,
        read: impl FnOnce(&str) -> Result<T, UppError>,
    ) -> Result<T, UppError> {
        let prepared = self.address(self.key().await?, ask, Expect::Json);
        self.send(prepared, Some(MAX_VECTORS_OR_PICTURES), read).await
    }

    /// As [`Self::exchange`], for an answer that comes as server-sent events.
    pub(super) async fn listen<S: BodySink<Error = StreamFailure>>(
        self,
        ask: Ask,
        sink: S,
    ) -> Result<impl futures_util::Stream<Item = Result<S::Item, UppError>> + Send, UppError> {
        let prepared = self.address(self.key().await?, ask, Expect::EventStream);
        self.receive(prepared, sink).await
    }

    async fn send<T>(
        &self,
        (http, keys): (HttpRequest, Keys),
        max_body: Option<usize>,
        read: impl FnOnce(&str) -> Result<T, UppError>,
    ) -> Result<T, UppError> {
        let cancel = CancellationToken::new();
        let response = self
            .client(max_body)?
            .send(http, &self.config.retries(), &cancel)
            .await
            .map_err(|error| keys.hide(self.http_error(error)))?;
        let answer = simdutf8::compat::from_utf8(&response.body)
            .map_err(|error| {
                UppError::invalid_response(self.dialect.provider(), "Failed to read response body: not UTF-8")
                    .with_cause(error)
            })
            .and_then(read);
        answer.map_err(|error| {
            let request_id = error.request_id.clone().or_else(|| response.request_id().map(str::to_owned));
            let status_code = error.status_code.or(Some(response.status.as_u16()));
            keys.hide(UppError { status_code, request_id, ..error })
        })
    }

    async fn open(
        self,
        request: ModelRequest,
    ) -> Result<impl futures_util::Stream<Item = Result<ModelEvent, UppError>> + Send, UppError> {
        let prepared = self.prepare(&request, true).await?;
        let reader = Reader {
            frames: Frames::new(self.dialect.framing()),
            decoder: Some(self.dialect.stream_decoder(&request)),
            events: Vec::new(),
            ids: Arc::clone(&self.ids),
            clock: Arc::clone(&self.clock),
        };
        self.receive(prepared, reader).await
    }

    async fn receive<S: BodySink<Error = StreamFailure>>(
        self,
        (http, keys): (HttpRequest, Keys),
        sink: S,
    ) -> Result<impl futures_util::Stream<Item = Result<S::Item, UppError>> + Send, UppError> {
        let body = self
            .client(None)?
            .stream(http, &self.config.retries(), &CancellationToken::new(), sink)
            .await
            .map_err(|error| keys.hide(self.http_error(error)))?;
        let (request_id, status) = (body.request_id().map(str::to_owned), body.status().as_u16());
        Ok(body.map(move |item| {
            item.map_err(|failure| {
                let error = self.stream_error(failure);
                let request_id = error.request_id.clone().or_else(|| request_id.clone());
                let status_code = error.status_code.or(Some(status));
                keys.hide(UppError { status_code, request_id, ..error })
            })
        }))
    }

    fn error(&self, code: ErrorCode, message: impl Into<String>) -> UppError {
        UppError::new(code, self.dialect.provider(), message)
    }

    fn http_error(&self, error: HttpError) -> UppError {
        let (code, message) = match &error {
            HttpError::Status(refusal) => return self.status_error(refusal).with_cause(error),
            HttpError::Request { .. } => (ErrorCode::InvalidRequest, error.to_string()),
            HttpError::Timeout { after, .. } => {
                (ErrorCode::Timeout, format!("Request timed out after {}ms: {error}", after.as_millis()))
            }
            HttpError::Network { address, message, .. } => {
                let remedy = "check the connection or try again";
                (ErrorCode::NetworkError, format!("Network error: {message} ({address}); {remedy}"))
            }
            HttpError::ContentType { .. } | HttpError::TooLarge { .. } => {
                (ErrorCode::InvalidResponse, error.to_string())
            }
            HttpError::Cancelled => (ErrorCode::Cancelled, "Request was cancelled".to_owned()),
            _ => (ErrorCode::NetworkError, error.to_string()),
        };
        self.error(code, message).with_cause(error)
    }

    fn status_error(&self, refusal: &StatusError) -> UppError {
        let status = refusal.status.as_u16();
        let body = String::from_utf8_lossy(&refusal.body);
        let told = self.dialect.error_of_body(status, &body);
        let (code, message) = told.unwrap_or_else(|| VendorError::of_status(status, &body));
        let longest = self.config.retries().retry_after_max;
        UppError {
            status_code: Some(status),
            retry_after: refusal
                .retry_after
                .map(|wait| wait.min(longest))
                .as_ref()
                .map(Duration::as_secs_f64),
            request_id: refusal.request_id.clone(),
            ..self.error(code, message)
        }
    }

    fn stream_error(&self, failure: StreamFailure) -> UppError {
        match failure {
            StreamFailure::Http(error) => self.http_error(error),
            StreamFailure::Model(error) => *error,
            StreamFailure::Framing(message) => self.error(ErrorCode::InvalidResponse, message),
        }
    }
}

/// What one of a vendor's APIs is asked.
#[derive(Debug)]
pub(super) struct Ask {
    /// The path under the prefix, with its leading slash.
    pub(super) path: String,
    /// The media type of the body.
    pub(super) content_type: String,
    pub(super) body: Bytes,
}

impl Ask {
    pub(super) fn json(path: String, body: Vec<u8>) -> Self {
        Self { path, content_type: "application/json".to_owned(), body: body.into() }
    }
}

impl Model for HttpModel {
    fn model_id(&self) -> &str {
        &self.model_id
    }

    fn provider(&self) -> &str {
        self.dialect.provider()
    }

    fn capabilities(&self) -> Capabilities {
        self.dialect.capabilities()
    }

    fn complete(&self, request: ModelRequest) -> BoxFuture<'static, Result<ModelResponse, UppError>> {
        Box::pin(self.clone().call(request))
    }

    fn stream(&self, request: ModelRequest) -> ModelStream {
        Box::pin(self.clone().open(request).try_flatten_stream())
    }
}

/// The keys of a request: some vendors quote them in their errors.
struct Keys(Vec<Secret>);

impl Keys {
    /// The key of the provider, and those that the caller put into headers.
    fn of(key: Option<Secret>, config: &ProviderConfig) -> Self {
        let headers = config.headers.iter().filter_map(|(name, value)| Some((name, value.as_ref()?)));
        // `Bearer sk-…`: the scheme is no secret, and vendors quote the rest alone.
        let in_headers = headers
            .filter(|(name, _)| KEY_HEADERS.iter().any(|known| name.eq_ignore_ascii_case(known)))
            .filter_map(|(_, value)| value.expose().split_whitespace().next_back().map(Secret::from));
        let mut keys: Vec<Secret> = key.into_iter().chain(in_headers).collect();
        keys.retain(|key| key.expose().len() >= SHORTEST_HIDDEN_KEY);
        Self(keys)
    }

    /// Takes them out of an error.
    fn hide(&self, error: UppError) -> UppError {
        let quoted = self.0.iter().map(Secret::expose).filter(|key| error.message.contains(*key));
        let hidden = quoted.fold(None, |message: Option<String>, key| {
            Some(message.as_deref().unwrap_or(&error.message).replace(key, "***"))
        });
        match hidden {
            Some(message) => UppError { message, cause: None, ..error },
            None => error,
        }
    }
}

/// What ends a stream early, before it is known whose stream it was.
#[derive(Debug)]
pub(super) enum StreamFailure {
    Http(HttpError),
    Model(Box<UppError>),
    Framing(String),
}

impl From<HttpError> for StreamFailure {
    fn from(error: HttpError) -> Self {
        Self::Http(error)
    }
}

impl From<UppError> for StreamFailure {
    fn from(error: UppError) -> Self {
        Self::Model(Box::new(error))
    }
}

impl From<SseError> for StreamFailure {
    fn from(error: SseError) -> Self {
        Self::Framing(error.to_string())
    }
}

impl From<NdjsonError> for StreamFailure {
    fn from(error: NdjsonError) -> Self {
        Self::Framing(error.to_string())
    }
}

enum Frames {
    Events(sse::Decoder),
    Lines(ndjson::Decoder),
}

impl Frames {
    fn new(framing: Framing) -> Self {
        match framing {
            Framing::ServerSentEvents => Self::Events(sse::Decoder::default()),
            Framing::Lines => Self::Lines(ndjson::Decoder::default()),
        }
    }

    /// Feeds the next bytes, or the end of them.
    fn feed(
        &mut self,
        bytes: Option<&[u8]>,
        mut visit: impl FnMut(Option<&str>, &str) -> Result<(), StreamFailure>,
    ) -> Result<(), StreamFailure> {
        match self {
            Self::Events(decoder) => {
                let visit = |event: sse::Event<'_>| visit(event.event.as_deref(), &event.data);
                match bytes {
                    Some(bytes) => decoder.push(bytes, visit),
                    None => decoder.finish(visit),
                }
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

/// Reads a body: bytes in, the model's events out.
struct Reader {
    frames: Frames,
    /// Gone when the answer is whole.
    decoder: Option<Box<dyn StreamDecoder>>,
    events: Vec<StreamEvent>,
    ids: Arc<dyn IdSource>,
    clock: Arc<dyn Clock>,
}

impl Reader {
    /// Feeds the decoder; tells whether the vendor said that this was all.
    fn read(&mut self, bytes: Option<&[u8]>, out: &mut Vec<ModelEvent>) -> Result<bool, StreamFailure> {
        let Self { frames, decoder, events, .. } = self;
        let Some(decoder) = decoder else { return Ok(true) };
        let mut is_over = false;
        let result = frames.feed(bytes, |event, data| {
            is_over = is_over || data.trim() == END_OF_STREAM;
            if is_over { Ok(()) } else { decoder.frame(event, data, events).map_err(StreamFailure::from) }
        });
        out.extend(events.drain(..).map(ModelEvent::Event));
        result.map(|()| is_over)
    }

    fn finish(&mut self, out: &mut Vec<ModelEvent>) -> Result<(), StreamFailure> {
        let Some(decoder) = self.decoder.take() else { return Ok(()) };
        let sources = Sources { ids: &*self.ids, clock: &*self.clock };
        let result = decoder.finish(sources, &mut self.events);
        out.extend(self.events.drain(..).map(ModelEvent::Event));
        out.push(ModelEvent::Done(result?));
        Ok(())
    }
}

impl BodySink for Reader {
    type Item = ModelEvent;
    type Error = StreamFailure;

    fn chunk(&mut self, bytes: &Bytes, out: &mut Vec<ModelEvent>) -> Result<Flow, StreamFailure> {
        if !self.read(Some(bytes), out)? {
            return Ok(Flow::Continue);
        }
        self.finish(out)?;
        Ok(Flow::Done)
    }

    fn end(&mut self, out: &mut Vec<ModelEvent>) -> Result<(), StreamFailure> {
        self.read(None, out)?;
        self.finish(out)
    }
}
