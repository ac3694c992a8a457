//! The application of these tests, and a client that writes raw bytes.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::{BoxFuture, FutureExt as _};
use futures_util::stream;
use http::request::Parts;
use http::{Method, StatusCode};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::{Notify, mpsc};
use turntree_server::{
    Access, Application, Body, KeepAlive, Limits, Message, Request, RequestContext, Response, Server,
    ServerConfig, Service, SseEvent, WebSocketUpgrade,
};

/// How long a test waits for what must happen.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// The size of a chunk of `/flood`.
pub(crate) const FLOOD_CHUNK: usize = 256 * 1024;

/// Answers each path with one behaviour.
#[derive(Debug, Clone)]
pub(crate) struct Behaviours {
    /// Receives the path of each request that has begun, and `dropped …` when a request that hangs is dropped.
    pub(crate) log: mpsc::UnboundedSender<String>,
    /// Lets `/finish` answer.
    pub(crate) finish: Arc<Notify>,
    /// Chunks that `/flood` has made.
    pub(crate) chunks: Arc<AtomicUsize>,
}

/// The events of the application.
pub(crate) type Events = mpsc::UnboundedReceiver<String>;

impl Behaviours {
    pub(crate) fn new() -> (Self, Events) {
        let (log, events) = mpsc::unbounded_channel();
        (Self { log, finish: Arc::default(), chunks: Arc::default() }, events)
    }

    fn guard(&self, name: &str) -> DropGuard {
        DropGuard { log: self.log.clone(), name: name.to_owned() }
    }

    async fn answer(&self, request: Request, context: RequestContext) -> Response {
        let path = request.uri().path().to_owned();
        let _ = self.log.send(path.clone());
        match (request.method(), path.as_str()) {
            (&Method::POST, "/echo") => match request.into_body().bytes().await {
                Ok(bytes) => Body::full(bytes).into_response(StatusCode::OK),
                Err(error) => {
                    let _ = self.log.send(error.code().to_owned());
                    error.response()
                }
            },
            (_, "/hang") => {
                let _guard = self.guard("hang");
                std::future::pending::<()>().await;
                Response::default()
            }
            (_, "/finish") => {
                self.finish.notified().await;
                Body::text("finished").into_response(StatusCode::OK)
            }
            (_, "/who") => {
                let principal = context.principal.map(|principal| principal.id().to_owned());
                let peer = context.connection.peer.is_some();
                Body::json(&json!({"principal": principal, "peer": peer})).into_response(StatusCode::OK)
            }
            (_, "/events") => {
                let guard = self.guard("events");
                let events = stream::once(std::future::ready(SseEvent::data("first").with_id("1")))
                    .chain_pending(guard);
                Body::events(events, KeepAlive(Some(Duration::from_millis(20)))).into_response(StatusCode::OK)
            }
            (_, "/flood") => self.flood(),
            _ => Body::text("not found").into_response(StatusCode::NOT_FOUND),
        }
    }

    /// A gigabyte, made on demand.
    fn flood(&self) -> Response {
        let (guard, chunks) = (self.guard("flood"), Arc::clone(&self.chunks));
        let chunk = Bytes::from(vec![b'x'; FLOOD_CHUNK]);
        let stream = stream::unfold((guard, 0), move |(guard, made)| {
            let chunk = chunk.clone();
            chunks.fetch_add(1, Ordering::Relaxed);
            std::future::ready((made < 4096).then_some((Ok(chunk), (guard, made + 1))))
        });
        Body::stream(stream).into_response(StatusCode::OK)
    }
}

/// Appends an end that never comes.
trait ChainPending: futures_util::Stream<Item = SseEvent> + Sized + Send + 'static {
    fn chain_pending(self, guard: DropGuard) -> futures_util::stream::BoxStream<'static, SseEvent> {
        use futures_util::StreamExt as _;
        let forever = stream::unfold(guard, |guard| async move {
            std::future::pending::<()>().await;
            Some((SseEvent::default(), guard))
        });
        self.chain(forever).boxed()
    }
}

impl<S: futures_util::Stream<Item = SseEvent> + Send + 'static> ChainPending for S {}

impl Application for Behaviours {
    fn call(&self, request: Request, context: RequestContext) -> BoxFuture<'_, Response> {
        self.answer(request, context).boxed()
    }

    fn websocket(
        &self,
        request: http::Request<()>,
        _context: RequestContext,
        upgrade: WebSocketUpgrade,
    ) -> BoxFuture<'_, ()> {
        async move {
            match request.uri().path() {
                "/echo" | "/flood" => {}
                "/refused" => {
                    return upgrade.reject(Body::text("full").into_response(StatusCode::TOO_MANY_REQUESTS));
                }
                _ => return,
            }
            let subprotocol = upgrade.subprotocols().iter().find(|name| *name == "chat").cloned();
            let Ok(mut socket) = upgrade.accept(subprotocol) else { return };
            let _guard = self.guard("websocket");
            if request.uri().path() == "/flood" {
                let message = Message::Text("x".repeat(16 * 1024));
                while socket.send(message.clone()).await.is_ok() {}
                return;
            }
            while let Some(message) = socket.receive().await {
                let is_end = matches!(message, Message::Close(_));
                if is_end || socket.send(message).await.is_err() {
                    break;
                }
            }
        }
        .boxed()
    }

    fn access(&self, request: &Parts) -> Access {
        if request.uri.path() == "/public" { Access::Public } else { Access::Authenticated }
    }

    fn ready(&self) -> BoxFuture<'_, Result<(), String>> {
        async { Err("the store cannot be reached".to_owned()) }.boxed()
    }
}

/// Reports when it is dropped.
#[derive(Debug)]
pub(crate) struct DropGuard {
    log: mpsc::UnboundedSender<String>,
    name: String,
}

impl Drop for DropGuard {
    fn drop(&mut self) {
        let _ = self.log.send(format!("dropped {}", self.name));
    }
}

/// A limit of time in the tests of this limit. In other tests a machine that stalls could reach it.
pub(crate) const SOON: Duration = Duration::from_millis(200);

/// Sizes that tests reach quickly.
pub(crate) fn limits() -> Limits {
    Limits { body: 1024, ..Limits::default() }
}

/// Sizes that tests reach quickly, and a drain limit that none reaches.
pub(crate) fn config() -> ServerConfig {
    ServerConfig { max_header_bytes: 8192, drain: PATIENCE * 2, ..ServerConfig::default() }
}

/// A running server of [`Behaviours`].
pub(crate) async fn serve() -> (Server, Behaviours, Events) {
    serve_with(config(), limits()).await
}

/// As [`serve`], with these settings.
pub(crate) async fn serve_with(config: ServerConfig, limits: Limits) -> (Server, Behaviours, Events) {
    let (behaviours, events) = Behaviours::new();
    let service = Service::new(behaviours.clone()).with_limits(limits);
    (Server::start(service, config).await.unwrap(), behaviours, events)
}

/// The next event of the application.
pub(crate) async fn next(events: &mut Events) -> String {
    tokio::time::timeout(PATIENCE, events.recv()).await.expect("the event did not come").unwrap()
}

/// A connection on which a test writes raw bytes.
pub(crate) struct RawClient(TcpStream);

impl RawClient {
    pub(crate) async fn connect(address: SocketAddr) -> Self {
        Self(TcpStream::connect(address).await.unwrap())
    }

    pub(crate) async fn send(&mut self, text: &str) {
        self.0.write_all(text.as_bytes()).await.unwrap();
    }

    /// Reads until the server closes the connection.
    pub(crate) async fn read_to_end(&mut self) -> String {
        let mut bytes = Vec::new();
        // A reset after the last byte is an end as well.
        let _ = tokio::time::timeout(PATIENCE, self.0.read_to_end(&mut bytes)).await.expect("not closed");
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Reads until a text has come.
    pub(crate) async fn read_until(&mut self, text: &str) -> String {
        let mut seen = String::new();
        while !seen.contains(text) {
            let mut bytes = [0; 4096];
            let read =
                tokio::time::timeout(PATIENCE, self.0.read(&mut bytes)).await.expect("no bytes").unwrap();
            assert!(read > 0, "the connection was closed after {seen:?}");
            seen.push_str(&String::from_utf8_lossy(&bytes[..read]));
        }
        seen
    }
}

/// An HTTP client of HTTP/1.1, or of HTTP/2 with prior knowledge.
pub(crate) fn http_client(version: http::Version) -> reqwest::Client {
    // The client is built without a TLS provider, and needs one even for `http`. A second call changes nothing.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let builder = reqwest::Client::builder().no_proxy();
    let builder = if version == http::Version::HTTP_2 { builder.http2_prior_knowledge() } else { builder };
    builder.build().unwrap()
}
