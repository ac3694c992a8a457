//! The native server: HTTP/1.1, HTTP/2 without TLS (prior knowledge) and WebSocket on the tokio runtime.
//!
//! Every wait for a client has a limit: for the head of a request, for its body ([`crate::Limits`]), for the reading of
//! a response, for the answer to a ping. TLS belongs to a reverse proxy.

mod body;
mod connection;
mod foreign_pages;
mod stalled_streams;
mod stalled_writes;
mod websocket;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{Either, select};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc};
use tokio_util::sync::CancellationToken;
use turntree_core::runtime::{self, Task};

use crate::access_log::LOGGER;
use crate::error::ServerError;
use crate::service::Service;

use self::connection::ConnectionHandler;

/// The wait after an error of `accept`: the process has no file descriptor left until a connection ends.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);

/// The settings of a native server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerConfig {
    /// The host name or address to listen on. Addresses that other machines can reach need an authenticator.
    pub host: String,
    /// The port; 0 chooses a free one.
    pub port: u16,
    /// How long a client may take for the head of a request, and how long a connection may be idle: 30 s.
    pub header_timeout: Duration,
    /// How long a client may leave unread what is sent, without any progress, before it is disconnected: 60 s.
    pub write_timeout: Duration,
    /// The largest head of a request in bytes, at least 8 KiB: 64 KiB. A larger one is refused with 431.
    pub max_header_bytes: u32,
    /// The largest number of open connections: 4096. Further ones wait in the system's queue.
    pub max_connections: usize,
    /// How often a quiet WebSocket or HTTP/2 connection is pinged: every 20 s. A client that does not answer within the
    /// same time is disconnected.
    pub ping_interval: Duration,
    /// How long a shutdown waits for open requests: 10 s.
    pub drain: Duration,
    /// The name by which clients know the server, if a proxy is before it. A server without an authenticator answers to
    /// this name, to `localhost` and to addresses only, and only to web pages of these: other sites could use it from a
    /// browser of this machine.
    pub public_host: Option<String>,
}

impl Default for ServerConfig {
    fn default() -> Self {
        Self {
            host: "127.0.0.1".to_owned(),
            port: 0,
            header_timeout: Duration::from_secs(30),
            write_timeout: Duration::from_secs(60),
            max_header_bytes: 64 * 1024,
            max_connections: 4096,
            ping_interval: Duration::from_secs(20),
            drain: Duration::from_secs(10),
            public_host: None,
        }
    }
}

/// A running server. Dropping it closes all connections at once.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    service: Arc<Service>,
    drain: Duration,
    stopping: CancellationToken,
    abort: CancellationToken,
    /// Yields None when the last connection has ended.
    connections: mpsc::Receiver<()>,
    accepting: Option<Task<()>>,
}

impl Server {
    /// Listens and starts to answer requests.
    ///
    /// # Errors
    /// [`ServerError::AuthenticatorRequired`], [`ServerError::Bind`], [`ServerError::Setting`].
    pub async fn start(service: Service, config: ServerConfig) -> Result<Self, ServerError> {
        if config.max_header_bytes < 8192 {
            let reason = format!("{} is less than 8192; set a larger limit", config.max_header_bytes);
            return Err(ServerError::Setting { setting: "max_header_bytes", reason });
        }
        // The listener belongs to the runtime on which it is created.
        let (settings, has_authenticator) = (config.clone(), service.has_authenticator());
        let listening = runtime::spawn(async move { listen(&settings, has_authenticator).await });
        let (listener, address) = listening.await.map_err(|error| ServerError::Bind {
            address: format!("{}:{}", config.host, config.port),
            reason: error.to_string(),
        })??;
        let (stopping, abort) = (CancellationToken::new(), CancellationToken::new());
        let (alive, connections) = mpsc::channel(1);
        let (drain, service) = (config.drain, Arc::new(service));
        let slots = Arc::new(Semaphore::new(config.max_connections));
        let handler = ConnectionHandler {
            service: Arc::clone(&service),
            config: Arc::new(config),
            stopping: stopping.clone(),
            abort: abort.clone(),
            alive,
        };
        let accepting = Some(runtime::spawn(accept(listener, handler, slots)));
        Ok(Self { address, service, drain, stopping, abort, connections, accepting })
    }

    /// The address that the server listens on, with the port that was chosen.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// `http://` and the address.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Stops listening, waits for open requests up to the drain limit, and closes what is left.
    ///
    /// # Cancel safety
    /// Dropping the future closes all connections at once.
    pub async fn shutdown(mut self) {
        self.stopping.cancel();
        // The listener is dropped with the task.
        self.accepting = None;
        self.service.application().shutdown();
        let drained = std::pin::pin!(self.connections.recv());
        let limit = std::pin::pin!(runtime::sleep(self.drain));
        if let Either::Right(((), drained)) = select(drained, limit).await {
            self.abort.cancel();
            drained.await;
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stopping.cancel();
        self.abort.cancel();
    }
}

/// Binds the first address of the host that works.
async fn listen(
    config: &ServerConfig,
    has_authenticator: bool,
) -> Result<(TcpListener, SocketAddr), ServerError> {
    let failed = |error: std::io::Error| ServerError::Bind {
        address: format!("{}:{}", config.host, config.port),
        reason: error.to_string(),
    };
    let addresses: Vec<SocketAddr> =
        tokio::net::lookup_host((config.host.as_str(), config.port)).await.map_err(failed)?.collect();
    if !has_authenticator && let Some(&address) = addresses.iter().find(|address| !address.ip().is_loopback())
    {
        return Err(ServerError::AuthenticatorRequired { address });
    }
    let listener = TcpListener::bind(addresses.as_slice()).await.map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    Ok((listener, address))
}

/// Accepts connections until the task is dropped.
async fn accept(listener: TcpListener, handler: ConnectionHandler, slots: Arc<Semaphore>) {
    loop {
        // Closed never: this task owns the semaphore.
        let Ok(slot) = Arc::clone(&slots).acquire_owned().await else { return };
        match listener.accept().await {
            Ok((stream, peer)) => {
                let connection = handler.clone();
                runtime::spawn(async move {
                    connection.handle(stream, peer).await;
                    drop(slot);
                })
                .detach();
            }
            Err(error) => {
                log::warn!(target: LOGGER, "a connection could not be accepted: {error}");
                runtime::sleep(ACCEPT_RETRY).await;
            }
        }
    }
}

/// Small packets are sent at once: with Nagle's algorithm each streamed response takes 44 ms more.
fn configure(stream: &TcpStream) -> std::io::Result<()> {
    stream.set_nodelay(true)
}
