//! Requests over the network. The only file that names `reqwest`.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ::http::StatusCode;
use futures_util::TryStreamExt as _;
use reqwest::redirect;

use super::{ResponseBody, Transport, TransportError, TransportFuture, TransportResponse};
use crate::http::config::{ConnectionConfig, Http2, HttpConfig, Proxy};
use crate::http::error::{HttpError, causes};
use crate::http::request::PreparedRequest;
use crate::http::tls;
use crate::runtime::PerProcess;

/// Maximum number of shared connection pools. Above it all pools are replaced, which costs connections, not function.
const MAX_POOLS: usize = 64;

/// Maximum number of redirects within one origin.
const MAX_REDIRECTS: usize = 5;

/// Interval of HTTP/2 pings, and how long an answer may take.
const PING_INTERVAL: Duration = Duration::from_secs(30);
const PING_TIMEOUT: Duration = Duration::from_secs(10);

/// Transports by connection settings, per process: a fork must not share sockets with its parent.
static POOLS: PerProcess<Mutex<HashMap<ConnectionConfig, Arc<ReqwestTransport>>>> = PerProcess::new();

/// Sends requests over the network and pools connections.
///
/// Redirects are followed within one origin and only if they preserve method and body (307, 308), so that keys never
/// reach another host.
#[derive(Debug)]
pub struct ReqwestTransport {
    client: reqwest::Client,
    connection: ConnectionConfig,
    /// The process that created the client. A fork has the same sockets and must not use them.
    process: u32,
}

impl ReqwestTransport {
    /// The transport that all clients of this process with the same connection settings share.
    ///
    /// # Errors
    /// [`HttpError::Request`] if the settings are invalid, for example a proxy URL that does not parse.
    pub fn shared(config: &HttpConfig) -> Result<Arc<Self>, HttpError> {
        Self::pooled(config.connection())
    }

    /// A transport with connections of its own. In a fork it uses the shared ones.
    ///
    /// # Errors
    /// As [`ReqwestTransport::shared`].
    pub fn isolated(config: &HttpConfig) -> Result<Self, HttpError> {
        Self::new(config.connection())
    }

    fn pooled(connection: ConnectionConfig) -> Result<Arc<Self>, HttpError> {
        let Ok(pools) = POOLS.get_or_try_create(|| Ok::<_, Infallible>(Mutex::default()));
        let mut pools = pools.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(shared) = pools.get(&connection) {
            return Ok(Arc::clone(shared));
        }
        let created = Arc::new(Self::new(connection.clone())?);
        if pools.len() >= MAX_POOLS {
            pools.clear();
        }
        pools.insert(connection, Arc::clone(&created));
        Ok(created)
    }

    fn new(connection: ConnectionConfig) -> Result<Self, HttpError> {
        let client = build(&connection)?;
        Ok(Self { client, connection, process: std::process::id() })
    }

    fn client(&self) -> Result<reqwest::Client, HttpError> {
        if self.process == std::process::id() {
            return Ok(self.client.clone());
        }
        Ok(Self::pooled(self.connection.clone())?.client.clone())
    }
}

impl Transport for ReqwestTransport {
    fn send(&self, request: PreparedRequest) -> TransportFuture {
        let client = self.client();
        Box::pin(async move {
            let client = client.map_err(|error| TransportError::Rejected { message: error.to_string() })?;
            let PreparedRequest { method, url, headers, body, .. } = request;
            let mut request = reqwest::Request::new(method, url);
            *request.headers_mut() = headers;
            if !body.is_empty() {
                *request.body_mut() = Some(body.into());
            }
            let mut response = client.execute(request).await.map_err(transport_error)?;
            let (status, length) = (response.status(), response.content_length());
            let headers = std::mem::take(response.headers_mut());
            let body =
                ResponseBody::new(response.bytes_stream().map_err(transport_error)).with_length(length);
            let mut response = TransportResponse::new(body);
            *response.status_mut() = status;
            *response.headers_mut() = headers;
            Ok(response)
        })
    }
}

fn transport_error(error: reqwest::Error) -> TransportError {
    if error.is_timeout() && error.is_connect() {
        return TransportError::ConnectTimeout;
    }
    // The URL may contain a key in its query.
    let error = error.without_url();
    TransportError::Network { message: causes(&error), source: Some(Box::new(error)) }
}

fn build(connection: &ConnectionConfig) -> Result<reqwest::Client, HttpError> {
    tls::install_provider();
    let builder = reqwest::Client::builder()
        .connect_timeout(connection.connect_timeout)
        .user_agent(&connection.user_agent)
        .tcp_nodelay(true)
        .http2_keep_alive_interval(PING_INTERVAL)
        .http2_keep_alive_timeout(PING_TIMEOUT)
        .redirect(redirect::Policy::custom(within_origin));
    let builder = match connection.http2 {
        Http2::Negotiated => builder,
        Http2::Disabled => builder.http1_only(),
        Http2::PriorKnowledge => builder.http2_prior_knowledge(),
    };
    let builder = match &connection.proxy {
        Proxy::Environment => builder,
        Proxy::Direct => builder.no_proxy(),
        Proxy::Url(url) => builder.proxy(reqwest::Proxy::all(url.expose()).map_err(|_| invalid_proxy())?),
    };
    let builder = match &connection.ca_certificates {
        Some(authorities) => builder.tls_certs_merge(certificates(authorities.pem())?),
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

fn certificates(pem: &[u8]) -> Result<Vec<reqwest::Certificate>, HttpError> {
    reqwest::Certificate::from_pem_bundle(pem).map_err(|_| tls::invalid("do not parse; give them in PEM"))
}

/// The URL may contain a password, so the message does not repeat it.
fn invalid_proxy() -> HttpError {
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
