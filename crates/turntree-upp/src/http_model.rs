//! Runs a dialect over HTTP.
//!
//! Keys and bodies are created where the caller polls. The socket, the framing and the stream decoder run in the
//! background task that reads the body, so only finished events cross threads.
//!
//! Spec: UPP-1.2 §9, §12, §13

mod api_call;

use std::borrow::Cow;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::{StreamExt as _, TryFutureExt as _};
use tokio_util::sync::CancellationToken;

pub use api_call::ApiCall;

use super::config::{ProviderConfig, request_url};
use super::dialect::{Dialect, Framing, Sources};
use super::dialects::common::VendorError;
use super::error::{ErrorCode, UppError, VendorReport};
use super::omissions;
use super::pricing::{self, Prices};
use super::provenance::{self, ModelIdentity};
use super::provider::{Capabilities, Model, ModelEvent, ModelStream};
use super::provider_tools;
use super::request::{ModelRequest, ModelResponse};
use super::response_reader::ResponseReader;
use super::settings;
use super::stop_reason;
use super::structured_output;
use turntree_core::http::{
    BodyDecoder, Credentials, EnvironmentKey, Flow, HttpClient, HttpError, HttpRequest, KeyError,
    KeyStrategy as _, ResponseType, StatusError, TransportLayer,
};
use turntree_core::ids::{IdSource, RandomIds};
use turntree_core::secret::Secret;
use turntree_core::time::{Clock, SystemClock};

/// Headers that carry a key. If the configuration sets one of them, no other key is required.
const KEY_HEADERS: [&str; 4] = ["authorization", "x-api-key", "api-key", "x-goog-api-key"];

/// Shorter keys and header values are not removed from error messages: they could be ordinary words.
const SHORTEST_HIDDEN_KEY: usize = 6;

/// Largest response of an embedding or image model: 2048 vectors of 3072 numbers take about 130 MB.
const MAX_VECTORS_OR_PICTURES: usize = 512 * 1024 * 1024;

/// A language model behind a vendor's HTTP API. Clones share everything.
#[derive(Debug, Clone)]
pub struct HttpModel {
    dialect: Arc<dyn Dialect>,
    model_id: Arc<str>,
    config: Arc<ProviderConfig>,
    /// The client over the network, created for the first request.
    client: Arc<OnceLock<HttpClient>>,
    /// Prices of this model; default: those of the process.
    prices: Option<Arc<Prices>>,
    ids: Arc<dyn IdSource>,
    clock: Arc<dyn Clock>,
}

impl HttpModel {
    /// Creates a model of a vendor.
    pub fn new(dialect: Arc<dyn Dialect>, model_id: impl Into<Arc<str>>, config: ProviderConfig) -> Self {
        Self {
            dialect,
            model_id: model_id.into(),
            config: Arc::new(config),
            client: Arc::default(),
            prices: None,
            ids: Arc::new(RandomIds),
            clock: Arc::new(SystemClock),
        }
    }

    /// Sets the sources of ids and time, for tests and replays.
    #[must_use]
    pub fn with_sources(self, ids: Arc<dyn IdSource>, clock: Arc<dyn Clock>) -> Self {
        Self { ids, clock, ..self }
    }

    /// Wraps or replaces the HTTP transport.
    #[must_use]
    pub fn with_transport(mut self, transport: Arc<dyn TransportLayer>) -> Self {
        Arc::make_mut(&mut self.config).transport = Some(transport);
        self
    }

    /// Sets the prices of this model, instead of those of the process.
    #[must_use]
    pub fn with_prices(self, prices: Arc<Prices>) -> Self {
        Self { prices: Some(prices), ..self }
    }

    /// The configuration.
    pub fn config(&self) -> &ProviderConfig {
        &self.config
    }

    /// The key of the next request; `None` if no key is required.
    async fn key(&self) -> Result<Option<Secret>, UppError> {
        let key = match &self.config.api_key {
            Some(keys) => keys.key().await,
            None if KEY_HEADERS.iter().any(|name| self.config.has_header(name)) => return Ok(None),
            None => EnvironmentKey::new(self.dialect.endpoint().key_variables.iter().copied()).key().await,
        };
        match key {
            // Keys from files end with a line feed, which headers cannot contain.
            Ok(key) if !key.is_empty() => Ok(Some(Secret::from(key.expose().trim()))),
            Ok(_) | Err(KeyError::NotFound { .. }) if self.dialect.endpoint().key_is_optional => Ok(None),
            Ok(_) => {
                Err(self.error(ErrorCode::AuthenticationFailed, "the API key is empty; provide another one"))
            }
            Err(error) => {
                Err(self.error(ErrorCode::AuthenticationFailed, error.to_string()).with_cause(error))
            }
        }
    }

    /// The request in the words of the vendor: its own tools as parameters, schemas in the form that it enforces.
    fn settled<'a>(&self, request: &'a ModelRequest) -> Result<Cow<'a, ModelRequest>, UppError> {
        let (dialect, provider) = (&self.dialect, self.dialect.provider());
        let request = settings::settle(request, provider, &self.model_id, dialect.settings())?;
        let request = match request {
            Cow::Borrowed(request) => {
                provider_tools::settle(request, provider, dialect.takes_native_tools())?
            }
            Cow::Owned(request) => {
                let settled = provider_tools::settle(&request, provider, dialect.takes_native_tools())?;
                Cow::Owned(settled.into_owned())
            }
        };
        let rules = dialect.schema_rules(&self.model_id);
        structured_output::settle(request, provider, rules, self.config.strict_schemas)
    }

    /// Builds the request, and collects the keys in it.
    async fn prepare(
        &self,
        request: &ModelRequest,
        streaming: bool,
    ) -> Result<(HttpRequest, Keys), UppError> {
        omissions::report(&request.messages, self.identity());
        let body = self.dialect.encode(&self.model_id, request, streaming)?;
        let expect = match (streaming, self.dialect.framing()) {
            (false, _) => ResponseType::Json,
            (true, Framing::ServerSentEvents) => ResponseType::EventStream,
            (true, Framing::Lines) => ResponseType::JsonLines,
        };
        let path = self.dialect.path(&self.model_id, streaming);
        self.address(ApiRequest::json(path, body), expect).await
    }

    /// Builds a request to one of the vendor's APIs, with key and headers.
    async fn address(
        &self,
        request: ApiRequest,
        expect: ResponseType,
    ) -> Result<(HttpRequest, Keys), UppError> {
        let endpoint = self.dialect.endpoint();
        let base_url = self.config.base_url.as_deref().unwrap_or(&endpoint.base_url);
        let mut http = HttpRequest::post(request_url(base_url, &request.path), request.body)
            .header("Content-Type", request.content_type)
            .response_type(expect);
        // A recorded exchange needs no key, and a key strategy may use the network.
        let credentials = match &self.config.transport {
            Some(layer) if layer.is_active() => self.client(None)?.credentials(&http),
            _ => Credentials::Required,
        };
        let key = match credentials {
            Credentials::Unused => None,
            Credentials::Optional => self.key().await.unwrap_or_default(),
            Credentials::Required => self.key().await?,
        };
        let is_removed = |name: &str| {
            let mut headers = self.config.headers.iter();
            headers.any(|(known, value)| value.is_none() && known.eq_ignore_ascii_case(name))
        };
        for (name, value) in endpoint.headers(key.as_ref()) {
            if is_removed(name) {
                continue;
            }
            http = http.secret_header(name, &value);
        }
        for (name, value) in &self.config.headers {
            if let Some(value) = value {
                http = http.secret_header(name, value);
            }
        }
        Ok((http, Keys::of(key, &self.config)))
    }

    fn identity(&self) -> ModelIdentity<'_> {
        ModelIdentity { provider: self.dialect.provider(), model_id: &self.model_id }
    }

    /// Adds what the response does not contain: the requested model and the cost of the call.
    fn complete_response(&self, request: &ModelRequest, response: &mut ModelResponse) {
        if let (Some(structure), Some(data)) = (&request.structure, response.data.take()) {
            response.data = Some(structured_output::output(structure, data));
        }
        if response.usage.cost.is_none() {
            let prices = self.prices.clone().unwrap_or_else(Prices::current);
            response.usage.cost = pricing::cost_of(
                &prices,
                self.identity(),
                self.dialect.counts_cache_apart(),
                request,
                response,
            );
        }
        provenance::record_requested_model(response, self.identity());
        stop_reason::record(response, "refusal");
    }

    fn client(&self, max_body: Option<usize>) -> Result<HttpClient, UppError> {
        let client = self.network_client()?.clone();
        let client = match max_body {
            Some(limit) => client.with_max_body(limit),
            None => client,
        };
        Ok(match &self.config.transport {
            Some(transport) => client.layer(&**transport),
            None => client,
        })
    }

    /// The client without the transport of the configuration.
    fn network_client(&self) -> Result<&HttpClient, UppError> {
        if let Some(client) = self.client.get() {
            return Ok(client);
        }
        let client = HttpClient::shared(&self.config.http()).map_err(|error| self.http_error(error))?;
        Ok(self.client.get_or_init(|| client))
    }

    async fn call(self, request: ModelRequest) -> Result<ModelResponse, UppError> {
        let settled = self.settled(&request)?;
        let model = self.for_call(&request);
        let prepared = model.prepare(&settled, false).await?;
        let decode = |body: &str| {
            self.dialect.decode(body, &settled, Sources { ids: &*self.ids, clock: &*self.clock })
        };
        let mut response = model.send(prepared, None, decode).await?;
        self.complete_response(&request, &mut response);
        Ok(response)
    }

    /// The model with the timeout of one call.
    fn for_call(&self, request: &ModelRequest) -> Self {
        let seconds = settings::timeout(&request.params);
        let Some(timeout) = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()) else {
            return self.clone();
        };
        let mut config = ProviderConfig::clone(&self.config);
        config.timeout = Some(timeout);
        Self { config: Arc::new(config), client: Arc::default(), ..self.clone() }
    }

    /// Sends a request to another API of the vendor (embeddings, images).
    pub(super) async fn exchange<T>(
        &self,
        request: ApiRequest,
        read: impl FnOnce(&str) -> Result<T, UppError>,
    ) -> Result<T, UppError> {
        let prepared = self.address(request, ResponseType::Json).await?;
        self.send(prepared, Some(MAX_VECTORS_OR_PICTURES), read).await
    }

    /// As [`Self::exchange`], for a response of server-sent events.
    pub(super) async fn listen<S: BodyDecoder<Error = StreamError>>(
        self,
        request: ApiRequest,
        sink: S,
    ) -> Result<impl futures_util::Stream<Item = Result<S::Item, UppError>> + Send, UppError> {
        let prepared = self.address(request, ResponseType::EventStream).await?;
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
        let value = simdutf8::compat::from_utf8(&response.body)
            .map_err(|error| {
                UppError::invalid_response(self.dialect.provider(), "Failed to read response body: not UTF-8")
                    .with_cause(error)
            })
            .and_then(read);
        value.map_err(|error| {
            let request_id = error.request_id.clone().or_else(|| response.request_id().map(str::to_owned));
            let status_code = error.status_code.or(Some(response.status.as_u16()));
            keys.hide(UppError { status_code, request_id, ..error })
        })
    }

    async fn open(
        self,
        request: ModelRequest,
    ) -> Result<impl futures_util::Stream<Item = Result<ModelEvent, UppError>> + Send, UppError> {
        let settled = self.settled(&request)?;
        let of_call = self.for_call(&request);
        let prepared = of_call.prepare(&settled, true).await?;
        let (ids, clock) = (Arc::clone(&self.ids), Arc::clone(&self.clock));
        let sink = ResponseSink(ResponseReader::new(&*self.dialect, &settled, ids, clock));
        drop(settled);
        let model = self.clone();
        Ok(of_call.receive(prepared, sink).await?.map(move |mut item| {
            if let Ok(ModelEvent::Done(value)) = &mut item {
                model.complete_response(&request, value);
            }
            item
        }))
    }

    async fn receive<S: BodyDecoder<Error = StreamError>>(
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
        let described = match &error {
            HttpError::Status(refusal) => self.status_error(refusal),
            other => describe(self.dialect.provider(), other),
        };
        described.with_cause(error)
    }

    fn status_error(&self, refusal: &StatusError) -> UppError {
        let body = String::from_utf8_lossy(&refusal.body);
        let reported =
            self.dialect.error_of_body(refusal.status.as_u16(), &body).map(|reported| match reported {
                (ErrorCode::ModelNotFound, message) if VendorError::is_about_address(&body) => {
                    let message = format!("{message} ({}); is the base URL right?", refusal.address);
                    (ErrorCode::InvalidRequest, message)
                }
                reported => reported,
            });
        let longest = self.config.retries().retry_after_max;
        let error = of_status(self.dialect.provider(), refusal, reported);
        UppError { retry_after: error.retry_after.map(|wait| wait.min(longest.as_secs_f64())), ..error }
    }

    fn stream_error(&self, failure: StreamError) -> UppError {
        match failure {
            StreamError::Http(error) => self.http_error(error),
            StreamError::Model(error) => *error,
        }
    }
}

/// Converts an HTTP error into one of the twelve codes, without its cause.
///
/// Spec: UPP-1.2 §12
pub fn describe(provider: &str, error: &HttpError) -> UppError {
    let (code, message) = match error {
        HttpError::Status(refusal) => return of_status(provider, refusal, None),
        HttpError::Request { .. } | HttpError::Rejected { .. } => {
            (ErrorCode::InvalidRequest, error.to_string())
        }
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
        HttpError::Host(_) => {
            (ErrorCode::ProviderError, format!("the code of the application failed: {error}"))
        }
        _ => (ErrorCode::NetworkError, error.to_string()),
    };
    UppError::new(code, provider, message)
}

/// Converts an error status; `reported` is the error that the dialect read from the body.
fn of_status(provider: &str, refusal: &StatusError, reported: Option<(ErrorCode, String)>) -> UppError {
    let status = refusal.status.as_u16();
    let reported =
        reported.unwrap_or_else(|| VendorError::of_status(status, &String::from_utf8_lossy(&refusal.body)));
    UppError {
        status_code: Some(status),
        retry_after: refusal.retry_after.as_ref().map(Duration::as_secs_f64),
        request_id: refusal.request_id.clone(),
        report: Some(Arc::new(report_of(refusal))),
        ..UppError::new(reported.0, provider, reported.1)
    }
}

/// What a response with an error status says.
fn report_of(refusal: &StatusError) -> VendorReport {
    let body = String::from_utf8_lossy(&refusal.body).into_owned();
    let vendor = VendorError::of_body(&body);
    let headers = refusal.headers.iter().map(|(name, value)| {
        let is_secret = value.is_sensitive();
        let shown = if is_secret { "***".into() } else { String::from_utf8_lossy(value.as_bytes()) };
        (name.to_string(), shown.into_owned())
    });
    VendorReport {
        headers: headers.collect(),
        vendor_code: vendor.vendor_code(),
        param: vendor.param,
        body: (!body.is_empty()).then_some(body),
    }
}

/// A request to one of the vendor's APIs.
#[derive(Debug)]
pub(super) struct ApiRequest {
    /// The path under the prefix, with its leading slash.
    pub(super) path: String,
    /// The media type of the body.
    pub(super) content_type: String,
    pub(super) body: Bytes,
}

impl ApiRequest {
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
        // The outer box keeps only the open stream, which is a third of the size of the opening future.
        Box::pin(Box::pin(self.clone().open(request)).try_flatten_stream())
    }
}

/// The keys of a request, to be removed from errors: some vendors quote them. Decision U31.
struct Keys(Vec<Secret>);

impl Keys {
    /// The provider's key, and the values of all headers of the configuration.
    fn of(key: Option<Secret>, config: &ProviderConfig) -> Self {
        let values = config.headers.iter().filter_map(|(_, value)| value.as_ref());
        // Of `Bearer sk-…` vendors quote only the second word.
        let last_word = |value: &Secret| value.expose().split_whitespace().next_back().map(Secret::from);
        let in_headers = values
            .flat_map(|value| [Secret::from(value.expose().trim())].into_iter().chain(last_word(value)));
        let mut keys: Vec<Secret> = key.into_iter().chain(in_headers).collect();
        keys.retain(|key| key.expose().len() >= SHORTEST_HIDDEN_KEY);
        // A value may contain another one.
        keys.sort_by_key(|key| std::cmp::Reverse(key.expose().len()));
        Self(keys)
    }

    /// Replaces the keys in an error's message. A cause whose text contains one is removed.
    fn hide(&self, mut error: UppError) -> UppError {
        for key in self.0.iter().map(Secret::expose) {
            let is_quoted = error.message.contains(key);
            if is_quoted {
                error.message = error.message.replace(key, "***");
            }
            if is_quoted || error.cause.as_deref().is_some_and(|cause| quotes(cause, key)) {
                error.cause = None;
            }
            error.request_id = error.request_id.map(|id| id.replace(key, "***"));
            if let Some(report) = &mut error.report {
                hide_in_report(Arc::make_mut(report), key);
            }
        }
        error
    }
}

fn hide_in_report(report: &mut VendorReport, key: &str) {
    let values = report.headers.iter_mut().map(|(_, value)| value);
    let texts = [&mut report.body, &mut report.vendor_code, &mut report.param].into_iter().flatten();
    for text in values.chain(texts).filter(|text| text.contains(key)) {
        *text = text.replace(key, "***");
    }
}

/// True if the text of an error or of one of its sources contains a key.
fn quotes(error: &(dyn std::error::Error + 'static), key: &str) -> bool {
    std::iter::successors(Some(error), |error| error.source()).any(|error| error.to_string().contains(key))
}

/// The error that ends a stream.
#[derive(Debug)]
pub(super) enum StreamError {
    Http(HttpError),
    Model(Box<UppError>),
}

impl From<HttpError> for StreamError {
    fn from(error: HttpError) -> Self {
        Self::Http(error)
    }
}

impl From<UppError> for StreamError {
    fn from(error: UppError) -> Self {
        Self::Model(Box::new(error))
    }
}

/// Feeds the response reader in the task that reads the socket.
struct ResponseSink(ResponseReader);

impl BodyDecoder for ResponseSink {
    type Item = ModelEvent;
    type Error = StreamError;

    fn decode(&mut self, bytes: &Bytes, out: &mut Vec<ModelEvent>) -> Result<Flow, StreamError> {
        let is_whole = self.0.push(bytes, out)?;
        Ok(if is_whole { Flow::Done } else { Flow::Continue })
    }

    fn finish(&mut self, out: &mut Vec<ModelEvent>) -> Result<(), StreamError> {
        Ok(self.0.end(out)?)
    }
}
