//! The application with which the tests in `tests/python/bridge` test servers.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::future::{BoxFuture, FutureExt as _};
use futures_util::stream;
use http::StatusCode;
use pyo3::prelude::*;
use serde_json::json;

use super::Probe;
use crate::bridge::callbacks::{Callbacks, PyCallback};
use crate::bridge::gil;
use crate::server::ApplicationFactory;
use crate::server::asgi::AsgiCore;
use crate::server::event_loop::ServerLoop;
use crate::server::native::{ServeOptions, ServerCore};
use turntree_server::{
    Application, Body, KeepAlive, Message, Request, RequestContext, Response, ServerError, SseEvent,
    WebSocketUpgrade,
};

/// Answers each path with one behaviour; `/python` calls a function of the test.
struct TestApplication {
    function: Option<Arc<PyCallback>>,
    server_loop: ServerLoop,
}

impl fmt::Debug for TestApplication {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("TestApplication")
    }
}

impl TestApplication {
    async fn answer(&self, request: Request, context: RequestContext) -> Response {
        match request.uri().path() {
            "/echo" => match request.into_body().bytes().await {
                Ok(bytes) => Body::full(bytes).into_response(StatusCode::OK),
                Err(error) => error.response(),
            },
            "/hang" => {
                let _probe = Probe::new();
                std::future::pending::<()>().await;
                Response::default()
            }
            "/count" => count(),
            "/endless" => endless(),
            "/broken" => {
                let chunks =
                    [Ok(Bytes::from_static(b"some")), Err(ServerError::Body { reason: "broken".to_owned() })];
                Body::stream(stream::iter(chunks)).into_response(StatusCode::OK)
            }
            "/python" => self.call_python().await,
            // What the application knows of the request.
            _ => {
                let principal =
                    context.principal.map(|principal| json!([principal.id(), principal.claims()]));
                let answer = json!({
                    "method": request.method().as_str(), "uri": request.uri().to_string(), "principal": principal,
                    "root_path": &*context.connection.root_path, "secure": context.connection.secure,
                    "peer": context.connection.peer.is_some(),
                });
                Body::json(&answer).into_response(StatusCode::OK)
            }
        }
    }

    /// The text that the function returns.
    async fn call_python(&self) -> Response {
        let Some(function) = self.function.clone() else { return Response::default() };
        let server_loop = self.server_loop.clone();
        let call = async move {
            let probe = Probe::new();
            let call = gil::require_held(|py| {
                function.call_from(py, pyo3::types::PyTuple::empty(py).unbind(), &server_loop.caller(py)?)
            });
            let value = match call {
                Ok(call) => call.await,
                Err(error) => Err(error),
            };
            let text = gil::require_held(|py| value.and_then(|value| value.extract::<String>(py)));
            drop(probe);
            text.map_err(|error| error.to_string())
        };
        match self.server_loop.run("test", call).await {
            Some(Ok(text)) => Body::text(text).into_response(StatusCode::OK),
            Some(Err(error)) => Body::text(error).into_response(StatusCode::INTERNAL_SERVER_ERROR),
            None => ServerError::ShuttingDown.response(),
        }
    }
}

/// Three events.
fn count() -> Response {
    let events = stream::iter(1..=3).map(|number| SseEvent::json(&number).with_id(number.to_string()));
    Body::events(events, KeepAlive::default()).into_response(StatusCode::OK)
}

/// Chunks without end, as long as somebody takes them.
fn endless() -> Response {
    let chunk = Bytes::from(vec![b'x'; 65536]);
    let chunks = stream::unfold(Probe::new(), move |probe| {
        let chunk = chunk.clone();
        async move {
            turntree_core::runtime::sleep(Duration::from_millis(1)).await;
            Some((Ok(chunk), probe))
        }
    });
    Body::stream(chunks).into_response(StatusCode::OK)
}

impl Application for TestApplication {
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
                "/echo" => {}
                "/full" => {
                    return upgrade.reject(Body::text("full").into_response(StatusCode::TOO_MANY_REQUESTS));
                }
                _ => return,
            }
            let subprotocol = upgrade.subprotocols().first().cloned();
            let Ok(mut socket) = upgrade.accept(subprotocol) else { return };
            let _probe = Probe::new();
            while let Some(message) = socket.receive().await {
                let is_end =
                    matches!(message, Message::Close(_)) || message == Message::Text("bye".to_owned());
                if is_end || socket.send(message).await.is_err() {
                    return;
                }
            }
        }
        .boxed()
    }
}

fn factory(function: Option<&Arc<PyCallback>>) -> ApplicationFactory {
    let function = function.cloned();
    Box::new(move |server_loop| {
        Ok(Arc::new(TestApplication { function: function.clone(), server_loop: server_loop.clone() }))
    })
}

fn callbacks(function: Option<&Arc<PyCallback>>) -> Callbacks {
    Callbacks { functions: function.cloned().into_iter().collect(), ..Callbacks::default() }
}

/// A native server of the test application.
#[pyfunction]
#[pyo3(signature = (function=None, *, host="127.0.0.1", port=0, auth=None, max_body=None, drain=None))]
pub(super) fn server_core(
    function: Option<&Bound<'_, PyAny>>,
    host: &str,
    port: u16,
    auth: Option<&Bound<'_, PyAny>>,
    max_body: Option<usize>,
    drain: Option<f64>,
) -> PyResult<ServerCore> {
    let function = function.map(PyCallback::patient).transpose()?;
    let options = ServeOptions::new(host.to_owned(), port, auth, max_body, drain)?;
    Ok(ServerCore::new(factory(function.as_ref()), options, callbacks(function.as_ref())))
}

/// An ASGI application of the test application.
#[pyfunction]
#[pyo3(signature = (function=None, *, auth=None, max_body=None))]
pub(super) fn asgi_core(
    function: Option<&Bound<'_, PyAny>>,
    auth: Option<&Bound<'_, PyAny>>,
    max_body: Option<usize>,
) -> PyResult<AsgiCore> {
    let function = function.map(PyCallback::patient).transpose()?;
    let options = ServeOptions::new(String::new(), 0, auth, max_body, None)?;
    AsgiCore::new(&factory(function.as_ref()), options, callbacks(function.as_ref()))
}
