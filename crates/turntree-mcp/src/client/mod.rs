//! Clients of MCP servers.
//!
//! A connection lives on the tokio runtime: its futures may be polled on any thread. What the server asks for (sampling,
//! elicitation, roots) and what it notifies of goes to the application through [`ClientPort`].

mod http;
mod reports;
mod service;
mod sse;
mod stdio;

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::{BoxFuture, Either, select};
use rmcp::model::{ClientRequest, RequestId, ServerResult};
use rmcp::service::{
    ClientInitializeError, Peer, PeerRequestOptions, RequestHandle, RoleClient, RunningService, ServiceError,
    ServiceExt as _,
};
use rmcp::transport::{DynamicTransportError, IntoTransport};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use turntree_core::runtime::{self, Task};

pub use self::http::HttpEndpoint;
use self::reports::{Listener, Reporting};
use self::service::ClientService;
pub use self::stdio::StdioCommand;
use crate::error::{McpError, PortError};

/// How many reports of progress of one call wait for their reader; later ones are dropped.
const PROGRESS_BUFFER: usize = 64;

/// How long a closed connection may take to end.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(3);

/// What a client of MCP servers needs from the application.
pub trait ClientPort: fmt::Debug + Send + Sync + 'static {
    /// Answers a request of the server: `sampling/createMessage`, `elicitation/create` or `roots/list`.
    ///
    /// `call` is the open call on whose response stream the request arrives. `None` if the call has no key, or if the
    /// transport does not tell: only Streamable HTTP has a stream for each call.
    ///
    /// # Cancel safety
    /// The future is dropped when the server cancels its request or the connection ends.
    fn request(
        &self,
        method: String,
        params: Value,
        call: Option<CallKey>,
    ) -> BoxFuture<'static, Result<Value, PortError>>;

    /// Takes a notification of the server, for example `notifications/tools/list_changed`. Progress of calls is not
    /// among them. Must return at once.
    fn notification(&self, method: String, params: Value);
}

/// The application's number of a call. It is not sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct CallKey(pub u64);

/// What a client declares to servers, and its time limit.
#[derive(Debug, Clone, Default)]
pub struct ClientOptions {
    /// The name and the version of the application.
    pub client: (String, String),
    /// The maximum time of one request, and of connecting. A report of progress starts the time of a call anew.
    pub timeout: Option<Duration>,
    /// Whether the application answers `sampling/createMessage`.
    pub sampling: bool,
    /// Whether the application answers `elicitation/create`.
    pub elicitation: bool,
    /// Whether the application answers `roots/list`.
    pub roots: bool,
}

/// Where a server is.
#[derive(Debug, Clone)]
pub enum Endpoint {
    /// A program: messages go over its standard streams.
    Stdio(StdioCommand),
    /// An address: Streamable HTTP.
    Http(HttpEndpoint),
    /// An address: the HTTP transport of protocol version 2024-11-05, with one event stream for what the server sends,
    /// and requests to the address that it names.
    Sse(HttpEndpoint),
}

/// A connection to a server.
pub struct Client {
    peer: Peer<RoleClient>,
    running: Mutex<Option<RunningService<RoleClient, ClientService>>>,
    child: Mutex<Option<stdio::Child>>,
    timeout: Option<Duration>,
}

impl fmt::Debug for Client {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Client").field("closed", &self.is_closed()).finish_non_exhaustive()
    }
}

impl Client {
    /// Connects to a server; starts its program if it has one.
    ///
    /// # Errors
    /// [`McpError::Start`], [`McpError::Connect`], [`McpError::Unauthorized`], [`McpError::Invalid`] or
    /// [`McpError::Timeout`].
    ///
    /// # Cancel safety
    /// Dropping the future closes the connection and ends the program.
    pub async fn connect(
        endpoint: Endpoint,
        options: ClientOptions,
        port: Arc<dyn ClientPort>,
    ) -> Result<Self, McpError> {
        let timeout = options.timeout;
        let connecting = async move {
            match endpoint {
                Endpoint::Stdio(command) => {
                    let (streams, child) = command.start()?;
                    Self::over(streams, Some(child), &options, port).await
                }
                Endpoint::Http(http) => Self::over(http.streamable(), None, &options, port).await,
                Endpoint::Sse(http) => {
                    Self::over(sse::SseTransport::open(&http).await?, None, &options, port).await
                }
            }
        };
        let limited = async move {
            let Some(timeout) = timeout else { return connecting.await };
            let expired = |_| McpError::Timeout { method: "initialize".to_owned(), timeout };
            tokio::time::timeout(timeout, connecting).await.map_err(expired)?
        };
        match runtime::spawn(limited).await {
            Ok(client) => client,
            Err(error) => Err(McpError::Connect { reason: error.to_string() }),
        }
    }

    async fn over<T, E, A>(
        transport: T,
        child: Option<stdio::Child>,
        options: &ClientOptions,
        port: Arc<dyn ClientPort>,
    ) -> Result<Self, McpError>
    where
        T: IntoTransport<RoleClient, E, A>,
        E: std::error::Error + Send + Sync + 'static,
    {
        let transport = Reporting::new(transport.into_transport());
        let running = ClientService::new(options, port).serve(transport).await.map_err(connect_error)?;
        let (peer, timeout) = (running.peer().clone(), options.timeout);
        Ok(Self { peer, running: Mutex::new(Some(running)), child: Mutex::new(child), timeout })
    }

    /// What the server said of itself when it was connected: `serverInfo`, `capabilities`, `protocolVersion`,
    /// `instructions`.
    pub fn server(&self) -> Value {
        self.peer.peer_info().and_then(|info| serde_json::to_value(&*info).ok()).unwrap_or(Value::Null)
    }

    /// Whether the connection has ended.
    pub fn is_closed(&self) -> bool {
        self.peer.is_transport_closed()
    }

    /// Sends a request. Its result, and its progress before, are read from the call: each report that the server sends
    /// before the result, in this order. A reader that is more than 64 reports behind misses the next ones; a report that
    /// comes after the result is dropped. [`ClientPort::request`] receives `key` with the requests that this call causes.
    ///
    /// # Cancel safety
    /// Dropping the [`RunningCall`] cancels the request on the server.
    pub fn start_call(&self, method: String, params: Value, key: Option<CallKey>) -> RunningCall {
        let (peer, timeout) = (self.peer.clone(), self.timeout);
        let (sender, progress) = mpsc::channel(PROGRESS_BUFFER);
        let listener = Listener { reports: sender, key };
        let task = runtime::spawn(perform(peer, method.clone(), params, timeout, listener));
        RunningCall { method, task, progress }
    }

    /// Sends a request and returns its result.
    ///
    /// # Errors
    /// [`McpError::Refused`], [`McpError::Timeout`], [`McpError::Closed`] or [`McpError::Protocol`].
    ///
    /// # Cancel safety
    /// Dropping the future cancels the request on the server.
    pub async fn call(&self, method: String, params: Value) -> Result<Value, McpError> {
        let mut running = self.start_call(method, params, None);
        loop {
            if let CallEvent::Result(result) = running.next().await? {
                return Ok(result);
            }
        }
    }

    /// Ends the connection. A server that is a child process gets the end of its input, and is killed if it does not end
    /// within a few seconds.
    pub async fn close(&self) {
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner).take();
        let child = self.child.lock().unwrap_or_else(PoisonError::into_inner).take();
        let closing = runtime::spawn(async move {
            if let Some(mut running) = running {
                let _ended = running.close_with_timeout(CLOSE_TIMEOUT).await;
            }
            if let Some(child) = child {
                child.end().await;
            }
        });
        let _closed = closing.await;
    }
}

/// A request whose progress and result are read.
#[derive(Debug)]
pub struct RunningCall {
    method: String,
    task: Task<Result<Value, McpError>>,
    progress: mpsc::Receiver<Value>,
}

/// What comes of a request.
#[derive(Debug, Clone, PartialEq)]
pub enum CallEvent {
    /// A report of progress: `progress`, and optionally `total` and `message`.
    Progress(Value),
    /// The result. Nothing follows.
    Result(Value),
}

impl RunningCall {
    /// The next report, or the result.
    ///
    /// # Errors
    /// As for [`Client::call`].
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing.
    pub async fn next(&mut self) -> Result<CallEvent, McpError> {
        let report = std::pin::pin!(self.progress.recv());
        let outcome = match select(report, &mut self.task).await {
            Either::Left((Some(report), _)) => return Ok(CallEvent::Progress(report)),
            Either::Left((None, task)) => task.await,
            Either::Right((outcome, _)) => outcome,
        };
        let failed = |error: runtime::TaskError| McpError::Protocol {
            method: self.method.clone(),
            reason: error.to_string(),
        };
        outcome.map_err(failed)?.map(CallEvent::Result)
    }
}

/// Tells the server that nobody waits for a request.
struct CancelOnDrop {
    peer: Peer<RoleClient>,
    id: Option<RequestId>,
}

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        let Some(id) = self.id.take() else { return };
        let notification = json!({
            "method": "notifications/cancelled",
            "params": { "requestId": id, "reason": "the caller cancelled the request" },
        });
        let Ok(notification) = serde_json::from_value(notification) else { return };
        let peer = self.peer.clone();
        runtime::spawn(async move {
            let _sent = peer.send_notification(notification).await;
        })
        .detach();
    }
}

async fn perform(
    peer: Peer<RoleClient>,
    method: String,
    params: Value,
    timeout: Option<Duration>,
    listener: Listener,
) -> Result<Value, McpError> {
    let protocol = |reason: String| McpError::Protocol { method: method.clone(), reason };
    let request = json!({ "method": method, "params": params });
    let mut request: ClientRequest =
        serde_json::from_value(request).map_err(|error| protocol(error.to_string()))?;
    listener.follow(&mut request);
    let mut options = PeerRequestOptions::no_options();
    if let Some(timeout) = timeout {
        options = PeerRequestOptions::with_timeout(timeout).reset_timeout_on_progress();
    }
    let sent = peer.send_cancellable_request(request, options).await;
    let handle: RequestHandle<RoleClient> = sent.map_err(|error| service_error(&method, error))?;
    let mut guard = CancelOnDrop { peer, id: Some(handle.id.clone()) };
    let outcome = handle.await_response().await;
    guard.id = None;
    let result: ServerResult = outcome.map_err(|error| service_error(&method, error))?;
    serde_json::to_value(&result).map_err(|error| protocol(error.to_string()))
}

fn connect_error(error: ClientInitializeError) -> McpError {
    if let Some(challenge) = error.auth_challenge() {
        return McpError::Unauthorized { challenge: challenge.to_owned() };
    }
    match error {
        ClientInitializeError::ConnectionClosed(_) => McpError::Connect {
            reason: "it ended the connection before it answered; its own messages are on stderr".to_owned(),
        },
        ClientInitializeError::TransportError { error, .. } => {
            McpError::Connect { reason: transport_reason(&error) }
        }
        ClientInitializeError::JsonRpcError(error) => {
            McpError::Connect { reason: format!("it refuses the first request: {}", error.message) }
        }
        ClientInitializeError::ExpectedInitResponse(_) | ClientInitializeError::ExpectedInitResult(_) => {
            McpError::Connect {
                reason: "it answers the first request with something else; check that the address or the program is \
                         that of an MCP server"
                    .to_owned(),
            }
        }
        other => McpError::Connect { reason: other.to_string() },
    }
}

/// What failed, without the types of the library.
fn transport_reason(error: &DynamicTransportError) -> String {
    let text = error.error.to_string();
    text.strip_prefix("Client error: ").map_or(text.clone(), ToOwned::to_owned)
}

fn service_error(method: &str, error: ServiceError) -> McpError {
    let method = method.to_owned();
    match error {
        ServiceError::McpError(error) => {
            McpError::Refused { code: error.code.0, message: error.message.into_owned(), data: error.data }
        }
        ServiceError::Timeout { timeout } => McpError::Timeout { method, timeout },
        ServiceError::TransportClosed => McpError::Closed { method },
        ServiceError::TransportSend(error) => McpError::Protocol { method, reason: transport_reason(&error) },
        other => McpError::Protocol { method, reason: other.to_string() },
    }
}
