//! The ASGI 3 application.
//!
//! The coroutine of a connection is polled on the event loop. It calls `receive` only when the application reads the
//! body, and once more to see a disconnect, which drops the request. It sends a chunk when the server has taken the one
//! before.

use std::pin::pin;
use std::sync::Arc;

use crate::prelude::*;
use bytes::{Bytes, BytesMut};
use futures_util::future::{Either, select};
use futures_util::{StreamExt as _, stream};
use http::StatusCode;
use http::header::CONTENT_LENGTH;
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::intern;
use pyo3::types::{PyBytes, PyDict, PyTuple};
use tokio::sync::mpsc;

use super::ApplicationFactory;
use super::asgi_scope::{Scope, ScopeError};
use super::asgi_websocket;
use super::event_loop::{ServerLoop, ServingLoop};
use super::native::ServeOptions;
use crate::bridge::call::{Arguments, CallMode, call};
use crate::bridge::callbacks::Callbacks;
use crate::bridge::context::CallerContext;
use crate::bridge::coroutine::Coroutine;
use crate::bridge::gc::{GcRoots, garbage_collected};
use crate::bridge::gil;
use turntree_server::{Body, Response, ServerError, Service};

/// Chunks of a body that go to the server in one event if they are ready: each event costs turns of the event loop.
const JOINED_CHUNKS: usize = 64;

/// The native half of ``turntree._server.AsgiApplication``.
#[pyclass(frozen, module = "turntree._core")]
pub(crate) struct AsgiCore {
    service: Service,
    callbacks: Callbacks,
    /// The loop of the application's work that outlives connections.
    serving: Arc<ServingLoop>,
}

impl AsgiCore {
    /// An ASGI application whose work ends with its connection. Of `options`, `auth` and the limits apply; the server that
    /// runs it has the rest.
    ///
    /// # Errors
    /// The exceptions of making the application.
    pub(crate) fn new(
        make: &ApplicationFactory,
        options: ServeOptions,
        callbacks: Callbacks,
    ) -> PyResult<Self> {
        Self::on_loop(make, options, callbacks, &ServerLoop::Running, Arc::default())
    }

    /// As [`Self::new`], for an application whose work can outlive the connection that began it.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub(crate) fn outliving(
        make: &ApplicationFactory,
        options: ServeOptions,
        callbacks: Callbacks,
    ) -> PyResult<Self> {
        let serving = Arc::<ServingLoop>::default();
        Self::on_loop(make, options, callbacks, &ServerLoop::Serving(Arc::clone(&serving)), serving)
    }

    fn on_loop(
        make: &ApplicationFactory,
        options: ServeOptions,
        mut callbacks: Callbacks,
        server_loop: &ServerLoop,
        serving: Arc<ServingLoop>,
    ) -> PyResult<Self> {
        let mut service = Service::new(make(server_loop)?).with_limits(options.limits);
        if let Some(auth) = options.auth {
            callbacks.functions.extend(auth.callback());
            service = service.with_authenticator(auth.authenticator(server_loop));
        }
        Ok(Self { service, callbacks, serving })
    }
}

#[pymethods]
impl AsgiCore {
    /// Serves one connection: a lifespan, an HTTP request or a WebSocket.
    fn serve(
        &self,
        py: Python<'_>,
        scope: &Bound<'_, PyDict>,
        receive: Py<PyAny>,
        send: Py<PyAny>,
    ) -> PyResult<Coroutine> {
        let kind = scope.get_item(intern!(py, "type"))?;
        let kind = kind.map(|kind| kind.extract::<String>()).transpose()?.unwrap_or_default();
        self.serving.enter(py, kind == "lifespan")?;
        let service = self.service.clone();
        let roots = GcRoots::new([receive.clone_ref(py), send.clone_ref(py)]);
        let channel = Channel { receive: Function::new(receive), send: Function::new(send) };
        match kind.as_str() {
            "http" => match Scope::read(scope) {
                Ok(scope) => Ok(Coroutine::new("asgi.http", roots, http(service, scope, channel))),
                Err(ScopeError::Request(error)) => {
                    Ok(Coroutine::new("asgi.http", roots, refuse(service, error, channel)))
                }
                Err(ScopeError::Scope(error)) => Err(error),
            },
            "websocket" => match Scope::read(scope) {
                Ok(scope) => {
                    let serving = asgi_websocket::serve(service, scope, channel);
                    Ok(Coroutine::new("asgi.websocket", roots, serving))
                }
                Err(ScopeError::Request(_)) => {
                    Ok(Coroutine::new("asgi.websocket", roots, asgi_websocket::refuse(channel)))
                }
                Err(ScopeError::Scope(error)) => Err(error),
            },
            "lifespan" => Ok(Coroutine::new("asgi.lifespan", roots, lifespan(service, channel))),
            other => Err(PyValueError::new_err(format!(
                "scope[\"type\"] must be \"http\", \"websocket\" or \"lifespan\", not \"{other}\""
            ))),
        }
    }
}

garbage_collected!(AsgiCore: callbacks);

/// The two functions of an ASGI connection.
#[derive(Clone)]
pub(super) struct Channel {
    receive: Function,
    send: Function,
}

/// A Python function that futures on the loop's thread call.
#[derive(Clone)]
struct Function(Arc<Py<PyAny>>);

impl Function {
    fn new(function: Py<PyAny>) -> Self {
        Self(Arc::new(function))
    }

    /// Calls it and awaits what it returns.
    async fn call(&self, arguments: Py<PyTuple>) -> PyResult<Py<PyAny>> {
        let call = gil::require_held(|py| {
            let arguments = Arguments { positional: arguments, keywords: None };
            Ok(call(self.0.clone_ref(py), arguments, CallMode::Inline, &CallerContext::capture(py)?))
        })?;
        call.await
    }
}

/// What `receive` returns.
pub(super) enum Event {
    /// A part of the body, and whether more follows.
    Body(Bytes, bool),
    /// A WebSocket handshake.
    Connect,
    /// A message of a WebSocket.
    Text(String),
    /// A message of a WebSocket.
    Binary(Bytes),
    /// The client has gone, with this WebSocket code and reason.
    Disconnect(u16, String),
    /// The process of the server begins or ends.
    Startup,
    /// The process of the server ends.
    Shutdown,
}

impl Channel {
    /// Waits for the next event.
    pub(super) async fn receive(&self) -> PyResult<Event> {
        let arguments = gil::require_held(|py| Ok(PyTuple::empty(py).unbind()))?;
        let event = self.receive.call(arguments).await?;
        gil::require_held(|py| event_of(event.bind(py).cast::<PyDict>()?))
    }

    /// Sends an event; `fill` adds its members.
    pub(super) async fn send(
        &self,
        kind: &str,
        fill: impl FnOnce(&Bound<'_, PyDict>) -> PyResult<()>,
    ) -> PyResult<()> {
        let arguments = gil::require_held(|py| {
            let event = PyDict::new(py);
            event.set_item(intern!(py, "type"), kind)?;
            fill(&event)?;
            Ok(PyTuple::new(py, [event])?.unbind())
        })?;
        self.send.call(arguments).await.map(drop)
    }

    /// Sends a response. `prefix` is `http.response` or `websocket.http.response`.
    pub(super) async fn respond(&self, prefix: &str, response: Response) -> PyResult<()> {
        let (mut head, body) = response.into_parts();
        // ASGI servers send a body in chunks unless its length is in the headers.
        let has_body = !matches!(head.status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED);
        if let Some(length) = body.length().filter(|_| has_body) {
            head.headers.entry(CONTENT_LENGTH).or_insert_with(|| length.into());
        }
        let start = |event: &Bound<'_, PyDict>| -> PyResult<()> {
            let py = event.py();
            let pairs: Vec<_> = head
                .headers
                .iter()
                .map(|(name, value)| {
                    (PyBytes::new(py, name.as_str().as_bytes()), PyBytes::new(py, value.as_bytes()))
                })
                .collect();
            event.set_item(intern!(py, "status"), head.status.as_u16())?;
            event.set_item(intern!(py, "headers"), pairs)
        };
        self.send(&format!("{prefix}.start"), start).await?;
        let kind = format!("{prefix}.body");
        let mut remaining = body.length();
        let mut parts = body.ready_chunks(JOINED_CHUNKS);
        loop {
            let (part, error) = join(parts.next().await.unwrap_or_default());
            remaining = remaining.map(|remaining| remaining.saturating_sub(part.len() as u64));
            let is_last = error.is_none() && (part.is_empty() || remaining == Some(0));
            if is_last || !part.is_empty() {
                self.send(&kind, |event| {
                    let py = event.py();
                    event.set_item(intern!(py, "body"), PyBytes::new(py, &part))?;
                    event.set_item(intern!(py, "more_body"), !is_last)
                })
                .await?;
            }
            // The server closes the connection, so that the client sees that the body is incomplete.
            if let Some(error) = error {
                return Err(PyRuntimeError::new_err(error.to_string()));
            }
            if is_last {
                return Ok(());
            }
        }
    }
}

/// The chunks before the first error in one piece, and the error.
fn join(chunks: Vec<Result<Bytes, ServerError>>) -> (Bytes, Option<ServerError>) {
    let mut chunks = chunks.into_iter();
    let first = match chunks.next() {
        Some(Ok(first)) if chunks.len() > 0 => first,
        Some(Ok(only)) => return (only, None),
        Some(Err(error)) => return (Bytes::new(), Some(error)),
        None => return (Bytes::new(), None),
    };
    let mut joined = BytesMut::from(first);
    for chunk in chunks {
        match chunk {
            Ok(chunk) => joined.extend_from_slice(&chunk),
            Err(error) => return (joined.freeze(), Some(error)),
        }
    }
    (joined.freeze(), None)
}

fn event_of(event: &Bound<'_, PyDict>) -> PyResult<Event> {
    let py = event.py();
    let kind: String = event.as_any().get_item(intern!(py, "type"))?.extract()?;
    let member = |name| event.get_item(name).map(|value| value.filter(|value| !value.is_none()));
    Ok(match kind.as_str() {
        "http.request" => {
            let body = member(intern!(py, "body"))?.map(|body| bytes_of(&body)).transpose()?;
            let more = member(intern!(py, "more_body"))?.map_or(Ok(false), |more| more.is_truthy())?;
            Event::Body(body.unwrap_or_default(), more)
        }
        "websocket.connect" => Event::Connect,
        "websocket.receive" => {
            let text = member(intern!(py, "text"))?.map(|text| text.extract()).transpose()?;
            let bytes = member(intern!(py, "bytes"))?.map(|bytes| bytes_of(&bytes)).transpose()?;
            text.map_or_else(|| Event::Binary(bytes.unwrap_or_default()), Event::Text)
        }
        "http.disconnect" | "websocket.disconnect" => {
            let code = member(intern!(py, "code"))?.map(|code| code.extract()).transpose()?;
            let reason = member(intern!(py, "reason"))?.map(|reason| reason.extract()).transpose()?;
            Event::Disconnect(code.unwrap_or(1005), reason.unwrap_or_default())
        }
        "lifespan.startup" => Event::Startup,
        "lifespan.shutdown" => Event::Shutdown,
        other => {
            return Err(PyValueError::new_err(format!("receive() returned an event of type \"{other}\"")));
        }
    })
}

fn bytes_of(value: &Bound<'_, PyAny>) -> PyResult<Bytes> {
    match value.cast::<PyBytes>() {
        Ok(bytes) => Ok(Bytes::copy_from_slice(bytes.as_bytes())),
        Err(_) => value.extract::<Vec<u8>>().map(Bytes::from),
    }
}

/// Answers a request whose head cannot be read.
async fn refuse(service: Service, error: ServerError, channel: Channel) -> PyResult<()> {
    let (parts, ()) = http::Request::new(()).into_parts();
    let response = service.refuse(&parts, &error);
    channel.respond("http.response", response).await
}

/// Serves one request; a disconnect drops it.
async fn http(service: Service, scope: Scope, channel: Channel) -> PyResult<()> {
    let (sender, receiver) = mpsc::channel(1);
    let body = match scope.length {
        Some(0) => Body::empty(),
        length => Body::stream_with_length(chunks(receiver), length),
    };
    let request = scope.head.map(|()| body);
    let answer = async {
        let response = service.call(request, scope.connection).await;
        channel.respond("http.response", response).await
    };
    match select(pin!(answer), pin!(read_body(&channel, sender))).await {
        Either::Left((outcome, _)) => outcome,
        Either::Right((Ok(()), _)) => Ok(()),
        Either::Right((Err(error), _)) => Err(error),
    }
}

/// The chunks of a body that [`read_body`] receives.
fn chunks(
    receiver: mpsc::Receiver<Result<Bytes, ServerError>>,
) -> impl futures_util::Stream<Item = Result<Bytes, ServerError>> + Send {
    stream::unfold(
        receiver,
        |mut receiver| async move { receiver.recv().await.map(|chunk| (chunk, receiver)) },
    )
}

/// Receives the body while the application reads it, then waits for the disconnect.
async fn read_body(channel: &Channel, sender: mpsc::Sender<Result<Bytes, ServerError>>) -> PyResult<()> {
    let mut sender = Some(sender);
    loop {
        // Without room for a chunk nothing is received. If nobody reads the body, the rest is discarded.
        let room = match &sender {
            Some(sender) => sender.reserve().await.ok(),
            None => None,
        };
        match channel.receive().await? {
            Event::Body(bytes, more) => {
                if let Some(room) = room.filter(|_| !bytes.is_empty()) {
                    room.send(Ok(bytes));
                }
                if !more {
                    sender = None;
                }
            }
            Event::Disconnect(..) => {
                if let Some(room) = room {
                    room.send(Err(ServerError::Disconnected));
                }
                return Ok(());
            }
            _ => return Err(PyValueError::new_err("receive() returned an event of another protocol")),
        }
    }
}

/// The lifespan of the server's process.
async fn lifespan(service: Service, channel: Channel) -> PyResult<()> {
    loop {
        match channel.receive().await? {
            Event::Startup => channel.send("lifespan.startup.complete", |_| Ok(())).await?,
            Event::Shutdown => {
                service.application().shutdown();
                return channel.send("lifespan.shutdown.complete", |_| Ok(())).await;
            }
            _ => return Err(PyValueError::new_err("receive() returned an event of another protocol")),
        }
    }
}
