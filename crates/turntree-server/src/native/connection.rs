//! One connection of the native server.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{Either, select};
use http::{Version, header};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::stalled_streams::{StalledStreams, WatchedBody};
use super::stalled_writes::Socket;
use super::{ServerConfig, configure, foreign_pages, websocket};
use crate::application::{Connection, Response};
use crate::service::Service;

/// The first bytes of an HTTP/2 connection with prior knowledge (RFC 9113 §3.4).
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// The wait between two looks at a connection that has sent a part of the preface.
const PREFACE_POLL: Duration = Duration::from_millis(10);

/// Requests of one HTTP/2 connection at the same time.
const MAX_STREAMS: u32 = 256;

/// What each connection needs.
#[derive(Debug, Clone)]
pub(super) struct ConnectionHandler {
    pub(super) service: Arc<Service>,
    pub(super) config: Arc<ServerConfig>,
    /// Cancelled when the server shuts down.
    pub(super) stopping: CancellationToken,
    /// Cancelled when the drain limit has passed.
    pub(super) abort: CancellationToken,
    /// The server waits until all clones are dropped.
    #[expect(dead_code, reason = "dropped with the handler")]
    pub(super) alive: mpsc::Sender<()>,
}

impl ConnectionHandler {
    /// Serves a connection to its end.
    pub(super) async fn handle(self, stream: TcpStream, peer: SocketAddr) {
        if configure(&stream).is_err() {
            return;
        }
        if !self.begins(&stream).await {
            return;
        }
        let (handler, stalled) = (self.clone(), Arc::new(StalledStreams::default()));
        let streams = Arc::clone(&stalled);
        let service =
            service_fn(move |request: hyper::Request<Incoming>| {
                let (handler, streams) = (handler.clone(), Arc::clone(&streams));
                async move {
                    let is_http2 = request.version() == Version::HTTP_2;
                    let response = handler.answer(request, peer).await;
                    Ok::<_, Infallible>(response.map(|body| {
                        if is_http2 { streams.watch(body) } else { WatchedBody::unwatched(body) }
                    }))
                }
            });
        let builder = self.builder();
        let socket = TokioIo::new(Socket::new(stream, self.config.write_timeout));
        let mut connection = pin!(builder.serve_connection_with_upgrades(socket, service));
        let serving = async {
            // Errors are the client's: it disconnected, or it sent what is not HTTP and has its answer.
            if let Either::Right(((), _)) = select(connection.as_mut(), pin!(self.stopping.cancelled())).await
            {
                connection.as_mut().graceful_shutdown();
                drop(select(connection, pin!(self.abort.cancelled())).await);
            }
        };
        select(pin!(serving), pin!(stalled.expired(self.config.write_timeout))).await;
    }

    /// Waits for the first bytes of a connection; false if there is nothing to serve.
    async fn begins(&self, stream: &TcpStream) -> bool {
        let begins = pin!(begins(stream, self.config.header_timeout));
        matches!(select(begins, pin!(self.stopping.cancelled())).await, Either::Left((true, _)))
    }

    fn builder(&self) -> auto::Builder<TokioExecutor> {
        let mut builder = auto::Builder::new(TokioExecutor::new());
        let limit = self.config.max_header_bytes;
        builder
            .http1()
            .timer(TokioTimer::new())
            .header_read_timeout(self.config.header_timeout)
            .max_buf_size(usize::try_from(limit).unwrap_or(usize::MAX));
        builder
            .http2()
            .timer(TokioTimer::new())
            .keep_alive_interval(self.config.ping_interval)
            .keep_alive_timeout(self.config.ping_interval)
            .max_header_list_size(limit)
            .max_concurrent_streams(MAX_STREAMS)
            .enable_connect_protocol();
        builder
    }

    async fn answer(&self, request: hyper::Request<Incoming>, peer: SocketAddr) -> Response {
        let connection = Connection { peer: Some(peer), ..Connection::default() };
        if !self.service.has_authenticator()
            && let Err(error) =
                foreign_pages::check(request.uri(), request.headers(), self.config.public_host.as_deref())
        {
            let (parts, _) = request.into_parts();
            return self.service.refuse(&parts, &error);
        }
        if websocket::is_upgrade(&request) {
            return websocket::upgrade(self, request, connection).await;
        }
        let discards = request.version() <= Version::HTTP_11;
        let waits_for_continue = request.headers().contains_key(header::EXPECT);
        let request = request.map(|incoming| super::body::of(incoming, discards, waits_for_continue));
        self.service.call(request, connection).await
    }
}

/// Waits until a connection has sent its first bytes: a whole preface of HTTP/2, or anything that is not one. False if
/// that takes too long, or if the client disconnects. hyper's own limit begins after it knows the version.
async fn begins(stream: &TcpStream, limit: Duration) -> bool {
    let first = async {
        let mut bytes = [0; PREFACE.len()];
        loop {
            let read = stream.peek(&mut bytes).await.unwrap_or(0);
            let seen = bytes.get(..read).unwrap_or_default();
            if read == 0 || read == PREFACE.len() || !PREFACE.starts_with(seen) {
                return read > 0;
            }
            sleep(PREFACE_POLL).await;
        }
    };
    matches!(timeout(limit, first).await, Ok(true))
}
