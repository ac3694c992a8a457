//! Streamable HTTP: messages of the client by `POST`, those of the agent as server-sent events by `GET`.

use std::collections::HashMap;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::future::{Either, select};
use futures_util::{Stream, StreamExt as _};
use http::request::Parts;
use http::{HeaderValue, Method, StatusCode, header};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use turntree_core::runtime;
use turntree_server::{Body, KeepAlive, Principal, Response, SseEvent};

use super::connection::Connection;
use super::json_rpc::{self, Incoming, RpcError};
use super::outbox::{Outbox, Reader, Streams, Unreadable, lock};
use crate::agent::ServedAgent;
use crate::service::{Exchange, Site};

/// The header with the id of a connection.
const CONNECTION_HEADER: &str = "acp-connection-id";

/// The header with the id of a session.
const SESSION_HEADER: &str = "acp-session-id";

/// How many connections a server has.
const MAX_CONNECTIONS: usize = 1_000;

/// How many messages of one connection wait to be taken.
const CAPACITY: usize = 64;

/// The shortest time for which a connection stays without requests.
const SHORTEST_WINDOW: Duration = Duration::from_secs(5);

/// The methods of sessions that the client knows: their requests name the session in a header too.
const SESSION_METHODS: &[&str] =
    &["session/prompt", "session/cancel", "session/close", "session/set_mode", "session/set_config_option"];

/// The connections of a server over HTTP.
#[derive(Debug, Default)]
pub(super) struct Connections {
    open: Mutex<HashMap<Arc<str>, Arc<HttpConnection>>>,
}

/// A connection over HTTP.
#[derive(Debug)]
struct HttpConnection {
    agent: Arc<str>,
    connection: Connection,
    streams: Arc<Streams>,
    /// The messages of the client, which are taken in their order.
    inbox: mpsc::Sender<Incoming>,
    /// The number of streams that are read.
    readers: AtomicUsize,
    /// Grows with each request.
    requests: AtomicU64,
}

/// Why a request is refused.
#[derive(Debug)]
struct Refusal {
    status: StatusCode,
    body: Value,
}

impl Refusal {
    fn new(status: StatusCode, message: &str) -> Self {
        let error = RpcError::invalid_request(message);
        Self { status, body: body_of(&Value::Null, &error) }
    }

    fn response(self) -> Response {
        Body::json(&self.body).into_response(self.status)
    }
}

fn body_of(id: &Value, error: &RpcError) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "error": { "code": error.code, "message": error.message } })
}

impl Connections {
    /// Answers a request.
    pub(super) async fn answer(self: Arc<Self>, exchange: Exchange) -> Response {
        let Exchange { site, route, request, context } = exchange;
        let agent = match route.agent(&site, None) {
            Ok(agent) => Arc::clone(agent),
            Err(error) => return Refusal::new(StatusCode::NOT_FOUND, &error.to_string()).response(),
        };
        let (parts, body) = request.into_parts();
        let client = Client { site, agent, principal: context.principal.clone() };
        let answered = match parts.method {
            Method::POST => self.post(client, &parts, body).await,
            Method::DELETE => self.delete(&client, &parts),
            _ => self.stream(&client, &parts),
        };
        answered.unwrap_or_else(Refusal::response)
    }

    /// Ends all connections.
    pub(super) fn shutdown(&self) {
        for (_, connection) in lock(&self.open).drain() {
            connection.connection.close();
        }
    }

    async fn post(self: Arc<Self>, client: Client, parts: &Parts, body: Body) -> Result<Response, Refusal> {
        let is_json = header_of(parts, header::CONTENT_TYPE.as_str())
            .is_some_and(|kind| kind.trim_start().to_ascii_lowercase().starts_with("application/json"));
        if !is_json {
            let message = "Content-Type: expected application/json";
            return Err(Refusal::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, message));
        }
        let bytes =
            body.bytes().await.map_err(|error| Refusal::new(error.status(), &error.public_message()))?;
        let message = json_rpc::read(&bytes).map_err(|malformed| Refusal {
            status: StatusCode::BAD_REQUEST,
            body: body_of(&malformed.id, &malformed.error),
        })?;
        if let Incoming::Request { id, method, params } = &message
            && method == "initialize"
        {
            if header_of(parts, CONNECTION_HEADER).is_some() {
                let text = "the connection is initialized; send initialize without Acp-Connection-Id";
                return Err(Refusal::new(StatusCode::BAD_REQUEST, text));
            }
            return self.initialize(client, id, params.clone());
        }
        let connection = self.find(&client, parts)?;
        connection.requests.fetch_add(1, Ordering::Relaxed);
        check_session(&message, parts)?;
        let full = |_| {
            let text = "too many messages wait; send them more slowly";
            Refusal::new(StatusCode::TOO_MANY_REQUESTS, text)
        };
        connection.inbox.try_send(message).map_err(full)?;
        Ok(Body::empty().into_response(StatusCode::ACCEPTED))
    }

    /// Begins a connection.
    fn initialize(self: Arc<Self>, client: Client, id: &Value, params: Value) -> Result<Response, Refusal> {
        let Client { site, agent, principal } = client;
        let window = site.options.resume_window.max(SHORTEST_WINDOW);
        let connection_id: Arc<str> = site.ids.string().into();
        let name = Arc::clone(agent.name());
        let streams = Streams::new();
        let connection = Connection::new(site, agent, principal, Outbox::Streams(Arc::clone(&streams)));
        let result = connection
            .initialize(params)
            .map_err(|error| Refusal { status: StatusCode::BAD_REQUEST, body: body_of(id, &error) })?;
        let (inbox, messages) = mpsc::channel(CAPACITY);
        let (readers, requests) = (AtomicUsize::new(0), AtomicU64::new(0));
        let open = Arc::new(HttpConnection { agent: name, connection, streams, inbox, readers, requests });
        {
            let mut connections = lock(&self.open);
            if connections.len() >= MAX_CONNECTIONS {
                let message = "the server has too many connections; try again later";
                return Err(Refusal::new(StatusCode::SERVICE_UNAVAILABLE, message));
            }
            connections.insert(Arc::clone(&connection_id), Arc::clone(&open));
        }
        runtime::spawn(take_messages(open.connection.clone(), messages)).detach();
        runtime::spawn(self.expire(Arc::clone(&connection_id), open, window)).detach();
        let body = json!({ "jsonrpc": "2.0", "id": id, "result": result });
        let mut response = Body::json(&body).into_response(StatusCode::OK);
        if let Ok(value) = HeaderValue::from_str(&connection_id) {
            response.headers_mut().insert(CONNECTION_HEADER, value);
        }
        Ok(response)
    }

    /// Ends a connection that nobody has used for a whole window.
    async fn expire(self: Arc<Self>, id: Arc<str>, connection: Arc<HttpConnection>, window: Duration) {
        loop {
            let before = connection.requests.load(Ordering::Relaxed);
            let (pause, closed) = (pin!(runtime::sleep(window)), connection.connection.closed());
            if matches!(select(pause, pin!(closed)).await, Either::Right(_)) {
                return;
            }
            let is_used = connection.readers.load(Ordering::Relaxed) > 0
                || connection.requests.load(Ordering::Relaxed) != before;
            if !is_used {
                break;
            }
        }
        drop(lock(&self.open).remove(&id));
        connection.connection.close();
    }

    /// The connection of a request. Those of other principals and agents do not exist for it.
    fn find(&self, client: &Client, parts: &Parts) -> Result<Arc<HttpConnection>, Refusal> {
        let Some(id) = header_of(parts, CONNECTION_HEADER) else {
            let message = "Acp-Connection-Id: missing; send initialize first";
            return Err(Refusal::new(StatusCode::BAD_REQUEST, message));
        };
        let found = lock(&self.open).get(id).cloned();
        let found = found.filter(|found| {
            found.connection.principal() == client.principal.as_ref() && found.agent == *client.agent.name()
        });
        found.ok_or_else(|| {
            let message = "Acp-Connection-Id: there is no such connection; send initialize again";
            Refusal::new(StatusCode::NOT_FOUND, message)
        })
    }

    fn stream(&self, client: &Client, parts: &Parts) -> Result<Response, Refusal> {
        let accepted = header_of(parts, header::ACCEPT.as_str()).unwrap_or("*/*");
        if !accepted.contains("text/event-stream") && !accepted.contains("*/*") {
            let message = "Accept: expected text/event-stream";
            return Err(Refusal::new(StatusCode::NOT_ACCEPTABLE, message));
        }
        let connection = self.find(client, parts)?;
        let reader = connection.streams.read(header_of(parts, SESSION_HEADER));
        let reader = reader.map_err(|reason| match reason {
            Unreadable::Taken => {
                Refusal::new(StatusCode::CONFLICT, "another request reads this stream; end it first")
            }
            Unreadable::TooMany => {
                Refusal::new(StatusCode::TOO_MANY_REQUESTS, "the connection has too many streams")
            }
        })?;
        let events = Attached::new(connection, reader).map(SseEvent::data);
        Ok(Body::events(events, KeepAlive::default()).into_response(StatusCode::OK))
    }

    fn delete(&self, client: &Client, parts: &Parts) -> Result<Response, Refusal> {
        let connection = self.find(client, parts)?;
        if let Some(id) = header_of(parts, CONNECTION_HEADER) {
            drop(lock(&self.open).remove(id));
        }
        connection.connection.close();
        Ok(Body::empty().into_response(StatusCode::ACCEPTED))
    }
}

/// Who makes a request, and of which agent.
struct Client {
    site: Arc<Site>,
    agent: Arc<ServedAgent>,
    principal: Option<Principal>,
}

fn header_of<'a>(parts: &'a Parts, name: &str) -> Option<&'a str> {
    parts.headers.get(name)?.to_str().ok()
}

/// Checks the session in the header of a message.
fn check_session(message: &Incoming, parts: &Parts) -> Result<(), Refusal> {
    let (Incoming::Request { method, params, .. } | Incoming::Notification { method, params }) = message
    else {
        return Ok(());
    };
    let of_params = params.get("sessionId").and_then(Value::as_str);
    match header_of(parts, SESSION_HEADER) {
        None if SESSION_METHODS.contains(&method.as_str()) => Err(Refusal::new(
            StatusCode::BAD_REQUEST,
            "Acp-Session-Id: missing; repeat params.sessionId there",
        )),
        Some(id) if of_params.is_some_and(|of_params| of_params != id) => {
            Err(Refusal::new(StatusCode::BAD_REQUEST, "Acp-Session-Id: it differs from params.sessionId"))
        }
        _ => Ok(()),
    }
}

/// Takes the messages of a connection until it is closed.
async fn take_messages(connection: Connection, mut messages: mpsc::Receiver<Incoming>) {
    while let Some(message) = messages.recv().await {
        connection.receive(message).await;
    }
}

/// The events of a stream that a request reads. They end with the connection.
struct Attached {
    connection: Arc<HttpConnection>,
    reader: Reader,
    closed: Pin<Box<dyn Future<Output = ()> + Send>>,
}

impl Attached {
    fn new(connection: Arc<HttpConnection>, reader: Reader) -> Self {
        connection.readers.fetch_add(1, Ordering::Relaxed);
        let closed = Box::pin(connection.connection.closed());
        Self { connection, reader, closed }
    }
}

impl Stream for Attached {
    type Item = String;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<String>> {
        if let Poll::Ready(message) = self.reader.poll_next_unpin(context) {
            return Poll::Ready(message);
        }
        self.closed.as_mut().poll(context).map(|()| None)
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        self.connection.requests.fetch_add(1, Ordering::Relaxed);
        self.connection.readers.fetch_sub(1, Ordering::Relaxed);
    }
}
