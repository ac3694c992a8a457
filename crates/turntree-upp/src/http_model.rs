//! Runs a dialect over HTTP.
//!
//! Keys and bodies are created where the caller polls. The socket, the framing and the stream decoder run in the
//! background task that reads the body, so only finished events cross threads.
//!
//! Spec: UPP-1.2 §9, §12, §13

mod api_call;
mod keys;

use std::borrow::Cow;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::{StreamExt as _, TryFutureExt as _};
use tokio_util::sync::CancellationToken;

pub use api_call::ApiCall;
use keys::Keys;

use super::code_execution;
use super::config::{ProviderConfig, request_url};
use super::dialect::{Dialect, Framing, Sources};
use super::dialects::common::{VendorError, without_byte_order_mark};
use super::error::{ErrorCode, UppError, VendorReport};
use super::omissions;
use super::pricing::{self, Prices};
use super::provenance::{self, ModelIdentity};
use super::provider::{Capabilities, Model, ModelEvent, ModelStream};
use super::provider_tools;
use super::raw_response;
use super::reported_error;
use super::request::{ModelRequest, ModelResponse};
use super::response_reader::ResponseReader;
use super::retries;
use super::settings;
use super::stop_reason;
use super::structured_output;
use turntree_core::http::{
    BodyDecoder, Credentials, EnvironmentKey, Flow, HttpClient, HttpError, HttpRequest, KeyError,
    KeyStrategy as _, ResponseType, RetryPolicy, StatusError, TransportLayer,
};
use turntree_core::ids::{IdSource, RandomIds};
use turntree_core::secret::Secret;
use turntree_core::time::{Clock, SystemClock};

/// Headers that carry a key. If the configuration sets one of them, no other key is required.
const KEY_HEADERS: [&str; 4] = ["authorization", "x-api-key", "api-key", "x-goog-api-key"];

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
        let key = match self.config.auth.as_ref().or(self.config.api_key.as_ref()) {
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
        let request = settings::with_required(request, dialect.required_param(&self.model_id));
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
        let request = structured_output::settle(request, provider, rules, self.config.strict_schemas)?;
        Ok(code_execution::as_texts(request))
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
            (true, Framing::AmazonEventStream) => ResponseType::AmazonEventStream,
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
        let is_layered = self.config.signer.is_some()
            || self.config.transport.as_ref().is_some_and(|layer| layer.is_active());
        let credentials =
            if is_layered { self.client(None)?.credentials(&http) } else { Credentials::Required };
        let key = match credentials {
            Credentials::Unused => None,
            Credentials::Optional => self.key().await.unwrap_or_default(),
            Credentials::IfFound => match self.key().await {
                Err(error) if is_missing_key(&error) => None,
                found => found?,
            },
            Credentials::Required => self.key().await?,
        };
        let is_removed = |name: &str| {
            let mut headers = self.config.headers.iter();
            headers.any(|(known, value)| value.is_none() && known.eq_ignore_ascii_case(name))
        };
        for (name, value) in self.own_headers(key.as_ref()) {
            if is_removed(name) {
                continue;
            }
            http = http.secret_header(name, &value);
        }
        for (name, value) in &self.config.headers {
            http = match value {
                Some(value) => http.secret_header(name, value),
                None => http.without_header(name),
            };
        }
        Ok((http, Keys::of(key, &self.config)))
    }

    /// The headers of the vendor: the key, or the token that replaces it, and those that the API requires.
    fn own_headers(&self, key: Option<&Secret>) -> Vec<(&'static str, Secret)> {
        let endpoint = self.dialect.endpoint();
        match (&self.config.auth, key) {
            (Some(_), Some(token)) => {
                let bearer = Secret::from(format!("Bearer {}", token.expose()));
                std::iter::once(("authorization", bearer)).chain(endpoint.headers(None)).collect()
            }
            _ => endpoint.headers(key),
        }
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
        let layers = [&self.config.transport, &self.config.signer];
        Ok(layers.into_iter().flatten().fold(client, |client, layer| client.layer(&**layer)))
    }

    /// The client without the transport of the configuration.
    fn network_client(&self) -> Result<&HttpClient, UppError> {
        if let Some(client) = self.client.get() {
            return Ok(client);
        }
        let client = HttpClient::shared(&self.config.http()).map_err(|error| self.http_error(error))?;
        // Innermost, so that recordings contain no signatures and played requests need no credentials.
        let client = match self.dialect.signing() {
            Some(signing) => client.layer(&**signing),
            None => client,
        };
        Ok(self.client.get_or_init(|| client))
    }

    async fn call(self, request: ModelRequest) -> Result<ModelResponse, UppError> {
        let settled = self.settled(&request)?;
        let model = self.for_call(&request);
        let prepared = model.prepare(&settled, false).await?;
        let decode = |body: &str| {
            let sources = Sources { ids: &*self.ids, clock: &*self.clock };
            let mut response = self.dialect.decode(body, &settled, sources)?;
            raw_response::keep(&request.params, body, &mut response);
            Ok(response)
        };
        let retries = prepared.1.retries.clone();
        let mut response = model.send(prepared, None, decode).await?;
        self.complete_response(&request, &mut response);
        retries::record(&mut response, &retries);
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

    fn retries(&self, keys: &Keys) -> RetryPolicy {
        RetryPolicy { log: keys.retries.clone(), ..self.config.retries() }
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
            .send(http, &self.retries(&keys), &cancel)
            .await
            .map_err(|error| keys.hide(self.http_error(error)))?;
        let value = simdutf8::compat::from_utf8(&response.body)
            .map_err(|error| {
                UppError::invalid_response(self.dialect.provider(), "Failed to read response body: not UTF-8")
                    .with_cause(error)
            })
            .map(without_byte_order_mark)
            .and_then(|body| read(body).map_err(|error| reported_error::of_body(error, body)));
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
        let reader = ResponseReader::new(&*self.dialect, &settled, ids, clock);
        let is_raw = raw_response::is_requested(&request.params);
        let sink = ResponseSink(if is_raw { reader.keeping_raw(self.dialect.framing()) } else { reader });
        drop(settled);
        let (model, retries) = (self.clone(), prepared.1.retries.clone());
        Ok(of_call.receive(prepared, sink).await?.map(move |mut item| {
            if let Ok(ModelEvent::Done(value)) = &mut item {
                model.complete_response(&request, value);
                retries::record(value, &retries);
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
            .stream(http, &self.retries(&keys), &CancellationToken::new(), sink)
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
            // A server that refuses a stream may say why in a body of another type.
            HttpError::ContentType { beginning, .. } => reported_error::of_body(
                describe(self.dialect.provider(), &error),
                &String::from_utf8_lossy(beginning),
            ),
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
        HttpError::Unsigned { .. } => (ErrorCode::AuthenticationFailed, error.to_string()),
        HttpError::Timeout { after, .. } => {
            (ErrorCode::Timeout, format!("Request timed out after {}ms: {error}", after.as_millis()))
        }
        HttpError::Network { address, message, .. } => {
            let remedy = "check the connection or try again";
            (ErrorCode::NetworkError, format!("Network error: {message} ({address}); {remedy}"))
        }
        HttpError::ContentType { .. } | HttpError::Encoding { .. } | HttpError::TooLarge { .. } => {
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

/// True if the error is that no key is configured.
fn is_missing_key(error: &UppError) -> bool {
    let key_error = error.cause.as_deref().and_then(|cause| cause.downcast_ref());
    matches!(key_error, Some(KeyError::NotFound { .. }))
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
