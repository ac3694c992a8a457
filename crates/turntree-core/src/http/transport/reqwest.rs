//! Requests over the network. The only file that names `reqwest`.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use ::http::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_LENGTH, LOCATION, USER_AGENT};
use ::http::{HeaderValue, Request, StatusCode};
use bytes::Bytes;
use futures_util::{Stream, StreamExt as _, future};
use http_body_util::BodyDataStream;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::redirect;
use tower_http::decompression::Decompression;
use tower_service::Service;
use url::Url;

use super::channel::{BoxError, Channel, ChannelBody, Failure, open};
use super::connecting::{TakeConnections, Visit};
use super::connections::{Host, Place, Version};
use super::{ResponseBody, Transport, TransportError, TransportFuture, TransportResponse};
use crate::http::config::{ConnectionConfig, Destinations, Http2, HttpConfig, Proxy};
use crate::http::destinations::{PublicNames, check_host};
use crate::http::error::{HttpError, causes};
use crate::http::request::PreparedRequest;
use crate::http::tls;
use crate::runtime::PerProcess;

/// Maximum number of shared connection pools. Above it all pools are replaced, which costs connections, not function.
const MAX_POOLS: usize = 64;

/// Maximum number of redirects within one origin.
const MAX_REDIRECTS: usize = 5;

/// Maximum number of hosts whose connections are counted, before unused ones are removed.
const MAX_HOSTS: usize = 1024;

/// How often a request is sent again that a server has not processed.
const MAX_REPEATS: usize = 10;

/// Transports by connection settings, per process: a fork must not share sockets with its parent.
static POOLS: PerProcess<Mutex<HashMap<ConnectionConfig, Arc<ReqwestTransport>>>> = PerProcess::new();

/// Sends requests over the network and pools connections.
///
/// Redirects are followed within one origin and only if they preserve method and body (307, 308), so that keys never
/// reach another host. More HTTP/2 connections are opened when one is full; see [`connections`](super::connections).
#[derive(Debug)]
pub struct ReqwestTransport {
    pool: Arc<Pool>,
    connection: ConnectionConfig,
    /// The process that created the pool. A fork has the same sockets and must not use them.
    process: u32,
}

/// The connections of a transport.
#[derive(Debug)]
struct Pool {
    /// Makes connections.
    client: reqwest::Client,
    user_agent: HeaderValue,
    hosts: Mutex<HashMap<String, Arc<Host>>>,
    connection: ConnectionConfig,
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
        let user_agent = HeaderValue::from_str(&connection.user_agent)
            .map_err(|error| HttpError::Request { message: format!("the user agent: {error}") })?;
        let pool = Pool { client, user_agent, hosts: Mutex::default(), connection: connection.clone() };
        Ok(Self { pool: Arc::new(pool), connection, process: std::process::id() })
    }

    fn pool(&self) -> Result<Arc<Pool>, HttpError> {
        if self.process == std::process::id() {
            return Ok(Arc::clone(&self.pool));
        }
        Ok(Arc::clone(&Self::pooled(self.connection.clone())?.pool))
    }
}

impl Transport for ReqwestTransport {
    fn send(&self, request: PreparedRequest) -> TransportFuture {
        let (pool, destinations) = (self.pool(), self.connection.destinations);
        Box::pin(async move {
            let rejected = |error: HttpError| TransportError::Rejected { message: error.to_string() };
            let pool = pool.map_err(rejected)?;
            // A redirect leads to the same host.
            if destinations == Destinations::Public {
                check_host(&request.url)
                    .map_err(|error| TransportError::Rejected { message: error.to_string() })?;
            }
            pool.send(request).await
        })
    }
}

impl Pool {
    /// Sends a request, also to where the server redirects it.
    async fn send(&self, mut request: PreparedRequest) -> Result<TransportResponse, TransportError> {
        let defaults = [
            (ACCEPT, HeaderValue::from_static("*/*")),
            (ACCEPT_ENCODING, HeaderValue::from_static("gzip, br")),
            (USER_AGENT, self.user_agent.clone()),
        ];
        for (name, value) in defaults {
            if request.left_out.iter().any(|left_out| name == left_out.as_str()) {
                continue;
            }
            request.headers.entry(name).or_insert(value);
        }
        let mut redirects = 0;
        loop {
            let response = self.answer(&request).await?;
            match redirected_within_origin(&response, &request.url).filter(|_| redirects < MAX_REDIRECTS) {
                Some(url) => {
                    request.url = url;
                    redirects += 1;
                }
                None => return Ok(response),
            }
        }
    }

    /// Sends a request to one URL, and again if the server has not processed it.
    async fn answer(&self, request: &PreparedRequest) -> Result<TransportResponse, TransportError> {
        let host = self.host(&request.url);
        let mut repeats = 0;
        loop {
            let (place, channel) = host.enter(request.admission.as_ref()).await;
            let answer = match channel {
                Some(channel) => exchange(channel, request, place).await,
                None => self.connect(request, place).await,
            };
            match answer {
                Ok(response) => return Ok(response),
                Err(Failed::Channel(Failure::Unprocessed(_))) if repeats < MAX_REPEATS => repeats += 1,
                Err(Failed::Channel(Failure::Unprocessed(error) | Failure::Failed(error))) => {
                    return Err(TransportError::Network { message: causes(&*error), source: Some(error) });
                }
                Err(Failed::Reqwest(error)) => return Err(transport_error(error)),
            }
        }
    }

    /// Makes a connection and sends the request there.
    async fn connect(&self, request: &PreparedRequest, place: Place) -> Result<TransportResponse, Failed> {
        let mut sent = reqwest::Request::new(request.method.clone(), request.url.clone());
        *sent.headers_mut() = request.headers.clone();
        if !request.body.is_empty() {
            *sent.body_mut() = Some(request.body.clone().into());
        }
        let visit = Visit::new(place);
        let result = visit.run(self.client.execute(sent)).await;
        if let Some(made) = visit.take() {
            let opened = open(made, visit.place(), self.connection.ping_interval).await;
            let channel = opened.inspect_err(|_| visit.place().unreachable()).map_err(Failure::Failed)?;
            let lost = || Failure::Failed("the connection is still being made".into());
            return exchange(channel, request, visit.into_place().ok_or_else(lost)?).await;
        }
        match result {
            Ok(response) => {
                let (head, body) = ::http::Response::from(response).into_parts();
                Ok(with_body(head, BodyDataStream::new(body), Some(visit)))
            }
            Err(error) => {
                if error.is_connect() {
                    visit.place().unreachable();
                }
                Err(error.into())
            }
        }
    }

    fn host(&self, url: &Url) -> Arc<Host> {
        let mut hosts = self.hosts.lock().unwrap_or_else(PoisonError::into_inner);
        let origin = url.origin().ascii_serialization();
        if let Some(host) = hosts.get(&origin) {
            return Arc::clone(host);
        }
        if hosts.len() >= MAX_HOSTS {
            hosts.retain(|_, host| Arc::strong_count(host) > 1);
        }
        let version = match self.connection.http2 {
            Http2::PriorKnowledge => Some(Version::Http2),
            Http2::Negotiated if url.scheme() == "https" => None,
            Http2::Negotiated | Http2::Disabled => Some(Version::Http1),
        };
        let host = Arc::new(Host::new(version, self.connection.max_connections));
        hosts.insert(origin, Arc::clone(&host));
        host
    }
}

enum Failed {
    Channel(Failure),
    Reqwest(reqwest::Error),
}

impl From<Failure> for Failed {
    fn from(failure: Failure) -> Self {
        Self::Channel(failure)
    }
}

impl From<reqwest::Error> for Failed {
    fn from(error: reqwest::Error) -> Self {
        Self::Reqwest(error)
    }
}

/// Sends a request on a connection and decodes the body of its response.
async fn exchange(
    channel: Channel,
    request: &PreparedRequest,
    place: Place,
) -> Result<TransportResponse, Failed> {
    let response = channel.send(request, place).await?;
    let Ok(decoded) = Decompression::new(Arrived(Some(response))).call(Request::new(())).await;
    let (head, body) = decoded.into_parts();
    Ok(with_body(head, BodyDataStream::new(body), None))
}

/// A response that is there already, as the service that the decoder of bodies takes.
struct Arrived(Option<::http::Response<ChannelBody>>);

impl Service<Request<()>> for Arrived {
    type Response = ::http::Response<ChannelBody>;
    type Error = Infallible;
    type Future = future::Either<
        future::Ready<Result<Self::Response, Infallible>>,
        future::Pending<Result<Self::Response, Infallible>>,
    >;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _request: Request<()>) -> Self::Future {
        match self.0.take() {
            Some(response) => future::Either::Left(future::ready(Ok(response))),
            // It is called once.
            None => future::Either::Right(future::pending()),
        }
    }
}

/// The response as the client reads it. `held` is dropped with its body.
fn with_body<E: Into<BoxError>>(
    head: ::http::response::Parts,
    chunks: impl Stream<Item = Result<Bytes, E>> + Send + 'static,
    held: Option<Arc<Visit>>,
) -> TransportResponse {
    let length = head.headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
    let chunks = chunks.map(move |chunk| {
        let _ = &held;
        chunk.map_err(|error| {
            let error = error.into();
            TransportError::Network { message: causes(&*error), source: Some(error) }
        })
    });
    TransportResponse::from_parts(head, ResponseBody::new(chunks).with_length(length))
}

/// Where a redirect leads, if it preserves method, body and origin.
fn redirected_within_origin(response: &TransportResponse, from: &Url) -> Option<Url> {
    if !matches!(response.status(), StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT) {
        return None;
    }
    let location = response.headers().get(LOCATION)?.to_str().ok()?;
    from.join(location).ok().filter(|to| to.origin() == from.origin())
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
        // Redirects and repetitions need the body again, which only this transport has.
        .redirect(redirect::Policy::none())
        .retry(reqwest::retry::never())
        .connector_layer(TakeConnections { is_http2: connection.http2 == Http2::PriorKnowledge });
    let builder = match connection.destinations {
        Destinations::Any => builder,
        Destinations::Public => builder.dns_resolver(Arc::new(Resolver(PublicNames::new(&connection.proxy)))),
    };
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

/// Finds public addresses only.
struct Resolver(PublicNames);

impl Resolve for Resolver {
    fn resolve(&self, name: Name) -> Resolving {
        let names = self.0.clone();
        Box::pin(async move {
            let found = names.find(name.as_str()).await?;
            Ok(Box::new(found.into_iter()) as Addrs)
        })
    }
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
