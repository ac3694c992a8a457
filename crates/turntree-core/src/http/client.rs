//! The client: one per configuration, shared by everybody who asks for the same.

use std::collections::HashMap;
use std::convert::Infallible;
use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::{Either, select};
use reqwest::header::HeaderMap;
use reqwest::{Request, StatusCode, redirect};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::body::{BodySink, BodyStream, connect};
use super::config::{Http2, HttpConfig, Proxy, Transport};
use super::error::{HttpError, TimeoutPhase, causes, request_id};
use super::exchange::{Attempt, Exchange};
use super::request::{HttpRequest, Prepared};
use super::retry::{Attempts, RetryPolicy};
use crate::runtime::{self, PerProcess};

/// Connection pools kept; whoever uses more different transports than this loses reuse, not function.
const MAX_POOLS: usize = 64;

/// Redirects followed within one origin.
const MAX_REDIRECTS: usize = 5;

/// HTTP/2 connections are asked for a sign of life this often, and given this long for it.
const PING_INTERVAL: Duration = Duration::from_secs(30);
const PING_TIMEOUT: Duration = Duration::from_secs(10);

/// Connection pools by transport, anew in each process: sockets must not be shared with a fork.
static POOLS: PerProcess<Mutex<HashMap<Transport, reqwest::Client>>> = PerProcess::new();

/// Sends requests. Cloning shares the connections.
///
/// Redirects are followed within one origin and only when they keep method and body (307, 308), so that
/// keys never travel to another host; others are an [`HttpError::Status`].
#[derive(Debug, Clone)]
pub struct HttpClient {
    client: reqwest::Client,
    config: Arc<HttpConfig>,
    /// Where the client was made. In a fork its sockets are the parent's.
    process: u32,
}

/// A whole response with a status of 2xx.
#[derive(Debug, Clone)]
pub struct HttpResponse {
    /// The status.
    pub status: StatusCode,
    /// The headers; cookies are marked as sensitive.
    pub headers: HeaderMap,
    /// The body, decompressed; it may be empty.
    pub body: Bytes,
}

impl HttpResponse {
    /// The server's name for the request.
    pub fn request_id(&self) -> Option<&str> {
        request_id(&self.headers)
    }
}

impl HttpClient {
    /// The client for a configuration. Configurations with the same transport share their connections.
    ///
    /// # Errors
    /// [`HttpError::Request`] when the configuration makes no client, for instance for a wrong proxy URL.
    pub fn shared(config: &HttpConfig) -> Result<Self, HttpError> {
        Ok(Self::new(pooled(config.transport())?, config))
    }

    /// A client with connections of its own; in a fork it uses the shared ones.
    ///
    /// # Errors
    /// As [`HttpClient::shared`].
    pub fn isolated(config: &HttpConfig) -> Result<Self, HttpError> {
        Ok(Self::new(build(&config.transport())?, config))
    }

    fn new(client: reqwest::Client, config: &HttpConfig) -> Self {
        Self { client, config: Arc::new(config.clone()), process: std::process::id() }
    }

    /// The configuration.
    pub fn config(&self) -> &HttpConfig {
        &self.config
    }

    /// Sends a request and reads the whole answer. May be polled on any thread.
    ///
    /// # Errors
    /// [`HttpError`], after the retries that the policy allows.
    ///
    /// # Cancel safety
    /// Dropping the future, or cancelling the token, aborts the request and closes its connection; the
    /// server may have acted on it.
    pub fn send(
        &self,
        request: HttpRequest,
        retry: &RetryPolicy,
        cancel: &CancellationToken,
    ) -> impl Future<Output = Result<HttpResponse, HttpError>> + Send + use<> {
        let (client, retry, cancel) = (self.clone(), retry.clone(), cancel.clone());
        async move {
            let mut call = client.call(request.prepare(false)?, &retry)?;
            let total = client.config.total_deadline;
            let exchange = Arc::clone(&call.exchange);
            let work = async move {
                loop {
                    let attempt = call.next_attempt().await?;
                    let task = runtime::spawn(Arc::clone(&call.exchange).fetch(attempt));
                    match task.await.map_err(HttpError::from).and_then(|result| result) {
                        Ok(response) => {
                            call.attempts.succeeded().await?;
                            return Ok(response);
                        }
                        Err(error) => call.attempts.after_failure(error).await?,
                    }
                }
            };
            bounded(work, total, &exchange, &cancel).await
        }
    }

    /// Sends a request and decodes its body where it is read. May be polled on any thread.
    ///
    /// Resolves when the first chunk is decoded, or when the body ended without one: until then a failure
    /// may be retried, from then on the stream reports it. At most 256 items wait for the consumer.
    ///
    /// # Errors
    /// [`HttpError`] up to the first byte of the body, after the retries that the policy allows.
    ///
    /// # Cancel safety
    /// Dropping the future or the stream, or cancelling the token, aborts the request and closes its
    /// connection.
    pub fn stream<S: BodySink>(
        &self,
        request: HttpRequest,
        retry: &RetryPolicy,
        cancel: &CancellationToken,
        sink: S,
    ) -> impl Future<Output = Result<BodyStream<S::Item, S::Error>, HttpError>> + Send + use<S> {
        let (client, retry, cancel) = (self.clone(), retry.clone(), cancel.clone());
        async move {
            let mut call = client.call(request.prepare(true)?, &retry)?;
            let total = client.config.total_deadline;
            let exchange = Arc::clone(&call.exchange);
            let token = cancel.clone();
            let work = async move {
                let mut sink = sink;
                loop {
                    let attempt = call.next_attempt().await?;
                    let (pump, connection) = connect(sink);
                    let pumping = pump.run(Arc::clone(&call.exchange), attempt);
                    let task = runtime::spawn(until_cancelled(token.clone(), pumping));
                    match connection.started(task, token.clone()).await {
                        Ok(stream) => {
                            call.attempts.succeeded().await?;
                            return Ok(stream);
                        }
                        Err((error, None)) => return Err(error),
                        Err((error, Some(unused))) => {
                            call.attempts.after_failure(error).await?;
                            sink = unused;
                        }
                    }
                }
            };
            bounded(work, total, &exchange, &cancel).await
        }
    }

    fn call(&self, prepared: Prepared, retry: &RetryPolicy) -> Result<Call, HttpError> {
        let Prepared { request, address, expect } = prepared;
        let client = if self.process == std::process::id() {
            self.client.clone()
        } else {
            pooled(self.config.transport())?
        };
        let deadline = self.config.total_deadline.and_then(|total| Instant::now().checked_add(total));
        let config = Arc::clone(&self.config);
        Ok(Call {
            exchange: Arc::new(Exchange { client, config, address, expect, deadline }),
            request: Some(request),
            attempts: retry.attempts(),
        })
    }
}

/// One request with all its attempts.
struct Call {
    exchange: Arc<Exchange>,
    request: Option<Request>,
    attempts: Attempts,
}

impl Call {
    /// Waits until the strategy and the host's limit let the next attempt go.
    ///
    /// What a recording has for it is decided here, on the polling thread: requests that run at once are
    /// recorded and played in the order in which they were made.
    async fn next_attempt(&mut self) -> Result<Attempt, HttpError> {
        self.attempts.before_request().await?;
        let request = self.next_request()?;
        self.exchange.admit(request).await
    }

    /// The request itself for the only attempt, a copy that shares the body when there may be more.
    fn next_request(&mut self) -> Result<Request, HttpError> {
        let request = if self.attempts.may_repeat() {
            self.request.as_ref().and_then(Request::try_clone)
        } else {
            self.request.take()
        };
        request.ok_or_else(|| HttpError::Request { message: "its body can be sent only once".to_owned() })
    }
}

/// Ends the work when the deadline of the whole operation passes or the token is cancelled.
async fn bounded<T>(
    work: impl Future<Output = Result<T, HttpError>>,
    total: Option<Duration>,
    exchange: &Exchange,
    cancel: &CancellationToken,
) -> Result<T, HttpError> {
    let work = async {
        let Some(total) = total else { return work.await };
        match select(pin!(work), pin!(runtime::sleep(total))).await {
            Either::Left((result, _)) => result,
            Either::Right(_) => Err(exchange.timed_out(TimeoutPhase::Total, total)),
        }
    };
    cancel.run_until_cancelled(work).await.unwrap_or(Err(HttpError::Cancelled))
}

async fn until_cancelled(cancel: CancellationToken, work: impl Future<Output = ()>) {
    // The consumer looks at the token itself.
    let _ = cancel.run_until_cancelled(work).await;
}

/// This process's client for a transport, made at first use.
fn pooled(transport: Transport) -> Result<reqwest::Client, HttpError> {
    let Ok(pools) = POOLS.get_or_try_create(|| Ok::<_, Infallible>(Mutex::default()));
    let mut pools = pools.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = pools.get(&transport) {
        return Ok(known.clone());
    }
    let made = build(&transport)?;
    if pools.len() >= MAX_POOLS {
        pools.clear();
    }
    pools.insert(transport, made.clone());
    Ok(made)
}

fn build(transport: &Transport) -> Result<reqwest::Client, HttpError> {
    install_tls();
    let builder = reqwest::Client::builder()
        .connect_timeout(transport.connect_timeout)
        .user_agent(&transport.user_agent)
        .tcp_nodelay(true)
        .http2_keep_alive_interval(PING_INTERVAL)
        .http2_keep_alive_timeout(PING_TIMEOUT)
        .redirect(redirect::Policy::custom(within_origin));
    let builder = match transport.http2 {
        Http2::Negotiated => builder,
        Http2::Disabled => builder.http1_only(),
        Http2::PriorKnowledge => builder.http2_prior_knowledge(),
    };
    let builder = match &transport.proxy {
        Proxy::Environment => builder,
        Proxy::Direct => builder.no_proxy(),
        Proxy::Url(url) => builder.proxy(reqwest::Proxy::all(url.expose()).map_err(|_| wrong_proxy())?),
    };
    let builder = match &transport.ca_certificates {
        Some(authorities) => builder.tls_certs_merge(authorities.certificates()?),
        None => builder,
    };
    builder.build().map_err(|error| HttpError::Request {
        message: format!(
            "the HTTP client does not start ({}); check the user agent, and that CA certificates are \
             installed or SSL_CERT_FILE names them",
            causes(&error.without_url())
        ),
    })
}

pub(super) fn install_tls() {
    // Fails when the process has a provider already, and then that one is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
}

/// The URL itself may hold a password, so it is not repeated.
fn wrong_proxy() -> HttpError {
    HttpError::Request {
        message: "the proxy URL does not parse; give one such as http://host:port".to_owned(),
    }
}

fn within_origin(attempt: redirect::Attempt<'_>) -> redirect::Action {
    let keeps_method =
        matches!(attempt.status(), StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT);
    let same_origin = attempt.previous().last().is_some_and(|from| from.origin() == attempt.url().origin());
    let is_short = attempt.previous().len() <= MAX_REDIRECTS;
    if keeps_method && same_origin && is_short { attempt.follow() } else { attempt.stop() }
}
