//! What every face does around an application: authentication, limits, health endpoints, access log.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::{FutureExt as _, Stream, StreamExt as _};
use http::request::Parts;
use http::{Method, StatusCode, header};
use serde_json::json;
use turntree_core::runtime;

use crate::access_log::{AccessLog, PendingRecord};
use crate::application::{Access, Application, Connection, Request, RequestContext, Response};
use crate::authentication::{Authenticator, Principal};
use crate::body::Body;
use crate::error::ServerError;
use crate::websocket::WebSocketUpgrade;

/// Answers 200 while the server runs.
const LIVE_PATH: &str = "/healthz";

/// Answers 200 while the application can answer requests, otherwise 503.
const READY_PATH: &str = "/readyz";

/// The limits of requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The largest body in bytes: 8 MiB by default. A larger one is refused with 413.
    pub body: usize,
    /// How long the whole body may take: 30 s by default. A slower one is refused with 408.
    pub body_timeout: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self { body: 8 * 1024 * 1024, body_timeout: Duration::from_secs(30) }
    }
}

/// An application with its authenticator and limits. Faces call this; the application sees only requests that passed.
#[derive(Debug, Clone)]
pub struct Service {
    application: Arc<dyn Application>,
    authenticator: Option<Arc<dyn Authenticator>>,
    limits: Limits,
    access_log: Option<Arc<dyn AccessLog>>,
}

impl Service {
    /// A service without an authenticator, with the default limits.
    pub fn new(application: impl Application) -> Self {
        Self {
            application: Arc::new(application),
            authenticator: None,
            limits: Limits::default(),
            access_log: None,
        }
    }

    /// Requires valid credentials for all requests that are not public.
    #[must_use]
    pub fn with_authenticator(self, authenticator: impl Authenticator) -> Self {
        Self { authenticator: Some(Arc::new(authenticator)), ..self }
    }

    /// Sets the limits.
    #[must_use]
    pub fn with_limits(self, limits: Limits) -> Self {
        Self { limits, ..self }
    }

    /// Writes a record of each answered request.
    #[must_use]
    pub fn with_access_log(self, log: impl AccessLog) -> Self {
        Self { access_log: Some(Arc::new(log)), ..self }
    }

    /// Whether requests need credentials.
    pub fn has_authenticator(&self) -> bool {
        self.authenticator.is_some()
    }

    /// The limits.
    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// The application.
    pub fn application(&self) -> &Arc<dyn Application> {
        &self.application
    }

    /// Answers a request.
    pub async fn call(&self, request: Request, connection: Connection) -> Response {
        let (parts, body) = request.into_parts();
        let record = self.access_log.as_ref().and_then(|log| PendingRecord::begin(log, &parts, &connection));
        let response = self.answer(parts, body, connection).await;
        let Some(record) = record else { return response };
        let status = response.status();
        response.map(|body| record.watch(status, body))
    }

    async fn answer(&self, parts: Parts, body: Body, connection: Connection) -> Response {
        if let Some(health) = self.health(&parts).await {
            return health;
        }
        let principal = match self.admit(&parts, body.length()).await {
            Ok(principal) => principal,
            Err(error) => return self.refuse(&parts, &error),
        };
        let body = match body.length() {
            Some(0) => body,
            _ => body.map_chunks(|body| LimitedBody::new(body, self.limits)),
        };
        let context = RequestContext { connection, principal };
        self.application.call(http::Request::from_parts(parts, body), context).await
    }

    /// Serves a WebSocket connection: checks the credentials, then calls the application.
    pub async fn websocket(
        &self,
        request: http::Request<()>,
        connection: Connection,
        upgrade: WebSocketUpgrade,
    ) {
        let (parts, ()) = request.into_parts();
        match self.authenticate(&parts).await {
            Ok(principal) => {
                let context = RequestContext { connection, principal };
                self.application.websocket(http::Request::from_parts(parts, ()), context, upgrade).await;
            }
            Err(error) => upgrade.reject(self.refuse(&parts, &error)),
        }
    }

    /// The response of a health endpoint; None for other requests.
    async fn health(&self, parts: &Parts) -> Option<Response> {
        if parts.method != Method::GET && parts.method != Method::HEAD {
            return None;
        }
        let ready = match parts.uri.path() {
            LIVE_PATH => Ok(()),
            READY_PATH => self.application.ready().await,
            _ => return None,
        };
        Some(match ready {
            Ok(()) => Body::json(&json!({"status": "ok"})).into_response(StatusCode::OK),
            Err(reason) => Body::json(&json!({"status": "unavailable", "reason": reason}))
                .into_response(StatusCode::SERVICE_UNAVAILABLE),
        })
    }

    /// The checks that need only the head of the request.
    async fn admit(&self, parts: &Parts, length: Option<u64>) -> Result<Option<Principal>, ServerError> {
        let limit = self.limits.body;
        if length.is_some_and(|length| length > limit as u64) {
            return Err(ServerError::BodyTooLarge { limit });
        }
        self.authenticate(parts).await
    }

    /// The principal of a request.
    ///
    /// # Errors
    /// The request needs a principal and has none.
    pub async fn authenticate(&self, parts: &Parts) -> Result<Option<Principal>, ServerError> {
        let Some(authenticator) = &self.authenticator else { return Ok(None) };
        if self.application.access(parts) == Access::Public {
            return Ok(None);
        }
        let token = bearer_token(parts).ok_or(ServerError::MissingToken)?;
        authenticator.authenticate(token).await?.map(Some).ok_or(ServerError::InvalidToken)
    }

    /// The application's response for a request that the server layer refuses.
    pub fn refuse(&self, parts: &Parts, error: &ServerError) -> Response {
        let mut response = self.application.refuse(parts, error);
        error.add_headers(&mut response);
        response
    }
}

/// The token of the header `Authorization`; the scheme's case does not matter (RFC 9110 §11.1).
fn bearer_token(parts: &Parts) -> Option<&str> {
    let value = parts.headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

/// A body that ends with an error above the limits.
struct LimitedBody {
    body: Option<Body>,
    limits: Limits,
    remaining: usize,
    deadline: Option<BoxFuture<'static, ()>>,
}

impl LimitedBody {
    fn new(body: Body, limits: Limits) -> Self {
        Self { body: Some(body), limits, remaining: limits.body, deadline: None }
    }

    fn fail(&mut self, error: ServerError) -> Poll<Option<Result<Bytes, ServerError>>> {
        self.body = None;
        Poll::Ready(Some(Err(error)))
    }
}

impl Stream for LimitedBody {
    type Item = Result<Bytes, ServerError>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        let Some(body) = &mut this.body else { return Poll::Ready(None) };
        match body.poll_next_unpin(context) {
            Poll::Ready(Some(Ok(chunk))) => match this.remaining.checked_sub(chunk.len()) {
                Some(remaining) => {
                    this.remaining = remaining;
                    Poll::Ready(Some(Ok(chunk)))
                }
                None => this.fail(ServerError::BodyTooLarge { limit: this.limits.body }),
            },
            Poll::Ready(other) => {
                this.body = None;
                Poll::Ready(other)
            }
            Poll::Pending => {
                let limit = this.limits.body_timeout;
                let deadline = this.deadline.get_or_insert_with(|| runtime::sleep(limit).boxed());
                match deadline.poll_unpin(context) {
                    Poll::Ready(()) => this.fail(ServerError::BodyTimeout { limit }),
                    Poll::Pending => Poll::Pending,
                }
            }
        }
    }
}
