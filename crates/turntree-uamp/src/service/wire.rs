//! The port of wires.

use std::fmt;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use http::{Method, StatusCode};
use serde_json::json;
use turntree_server::{Access, Body, Request, RequestContext, Response, ServerError, WebSocketUpgrade};

use super::route::{Route, UnknownAgent};
use super::site::Site;

/// A request for a wire.
#[derive(Debug)]
pub struct Exchange<R = Request> {
    /// What all wires share.
    pub site: Arc<Site>,
    /// The agent and the path.
    pub route: Route,
    /// The request.
    pub request: R,
    /// The connection and the principal.
    pub context: RequestContext,
}

/// One protocol: how requests become runs, and how the output of runs becomes responses.
pub trait Wire: fmt::Debug + Send + Sync + 'static {
    /// Whether requests with this path are for this wire. The path is [`Route::path`].
    fn serves(&self, method: &Method, path: &str) -> bool;

    /// Answers a request.
    ///
    /// # Cancel safety
    /// The future, or the body of the response, is dropped when the client disconnects.
    fn call(&self, exchange: Exchange) -> BoxFuture<'static, Response>;

    /// Serves a WebSocket connection; `GET` with a path that the wire serves. Default: 404.
    fn websocket(
        &self,
        _exchange: Exchange<http::Request<()>>,
        upgrade: WebSocketUpgrade,
    ) -> BoxFuture<'static, ()> {
        upgrade.reject(not_found());
        Box::pin(std::future::ready(()))
    }

    /// Answers a WebSocket handshake whose path names an agent that the server does not have; the route has no agent, and
    /// its path is one that the wire serves. Default: 404.
    fn websocket_of_unknown_agent(
        &self,
        _exchange: Exchange<http::Request<()>>,
        error: UnknownAgent,
        upgrade: WebSocketUpgrade,
    ) -> BoxFuture<'static, ()> {
        upgrade.reject(unknown_agent(&error));
        Box::pin(std::future::ready(()))
    }

    /// Whether a request needs a principal if the server has an authenticator. Default: it does.
    fn access(&self, _path: &str) -> Access {
        Access::Authenticated
    }

    /// True if the wire checks tokens itself with [`Site::authenticator`](super::Site::authenticator). Without one, the
    /// server's own authenticator checks its requests. Default: false.
    fn checks_tokens(&self) -> bool {
        false
    }

    /// The response to a request that the server refuses. Default: `{"error": {"code", "message"}}`.
    fn refuse(&self, error: &ServerError) -> Response {
        error.response()
    }

    /// Called once when the server shuts down: ends what runs.
    fn shutdown(&self) {}
}

/// The response to a path that no wire serves.
pub(super) fn not_found() -> Response {
    let message = "no protocol is served at this path; GET /info lists the paths";
    Body::json(&json!({ "error": { "code": "not_found", "message": message } }))
        .into_response(StatusCode::NOT_FOUND)
}

/// The response to a request for an agent that the server does not have.
pub(super) fn unknown_agent(error: &UnknownAgent) -> Response {
    Body::json(&json!({ "error": { "code": "agent_not_found", "message": error.to_string() } }))
        .into_response(StatusCode::NOT_FOUND)
}
