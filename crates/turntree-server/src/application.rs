//! The port between a protocol and the faces that serve it.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use http::request::Parts;

use crate::authentication::Principal;
use crate::body::Body;
use crate::error::ServerError;
use crate::websocket::WebSocketUpgrade;

/// A request with a streamed body.
pub type Request = http::Request<Body>;

/// A response with a body in one piece or streamed.
pub type Response = http::Response<Body>;

/// Answers the requests of one protocol.
///
/// The face that serves an application has already checked the request's limits and credentials ([`crate::Service`]).
/// Paths are relative to the place where the application is mounted; [`Connection::root_path`] is that place.
///
/// ```
/// use futures_util::future::BoxFuture;
/// use turntree_server::{Application, Body, Request, RequestContext, Response, TestClient};
///
/// /// Returns the body of each request.
/// #[derive(Debug)]
/// struct Echo;
///
/// impl Application for Echo {
///     fn call(&self, request: Request, _context: RequestContext) -> BoxFuture<'_, Response> {
///         Box::pin(async move { Response::new(request.into_body()) })
///     }
/// }
///
/// let client = TestClient::new(Echo);
/// ```
pub trait Application: fmt::Debug + Send + Sync + 'static {
    /// Answers a request.
    ///
    /// The native server polls the future on the tokio runtime, the ASGI application on the event loop's thread.
    ///
    /// # Cancel safety
    /// The future, or the response's body, is dropped when the client disconnects. Work that must be completed belongs
    /// in a task ([`turntree_core::runtime::spawn`]).
    fn call(&self, request: Request, context: RequestContext) -> BoxFuture<'_, Response>;

    /// Serves a WebSocket connection until the future resolves. Call [`WebSocketUpgrade::accept`] or
    /// [`WebSocketUpgrade::reject`]; an upgrade that is dropped answers 404. Default: 404.
    ///
    /// # Cancel safety
    /// The future is dropped when the server shuts down. A disconnect ends the stream of messages instead.
    fn websocket(
        &self,
        _request: http::Request<()>,
        _context: RequestContext,
        _upgrade: WebSocketUpgrade,
    ) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }

    /// Whether a request needs a principal if the server has an authenticator. Called before the body is read.
    /// Default: [`Access::Authenticated`].
    fn access(&self, _request: &Parts) -> Access {
        Access::Authenticated
    }

    /// The response to a request that the server refuses: without valid credentials, over a limit, too slow.
    ///
    /// The server adds the headers that the status requires, for example `WWW-Authenticate`. Default: JSON
    /// `{"error": {"code", "message"}}` ([`ServerError::response`]).
    fn refuse(&self, _request: &Parts, error: &ServerError) -> Response {
        error.response()
    }

    /// Whether the application can answer requests now: `/readyz` returns the reason with status 503. Default: ready.
    ///
    /// # Errors
    /// Why it is not ready, for example a store that cannot be reached.
    fn ready(&self) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(std::future::ready(Ok(())))
    }

    /// Called once when the server shuts down, before it waits for open requests. Applications end their streams here.
    /// Default: nothing.
    fn shutdown(&self) {}
}

impl<T: Application + ?Sized> Application for Arc<T> {
    fn call(&self, request: Request, context: RequestContext) -> BoxFuture<'_, Response> {
        (**self).call(request, context)
    }

    fn websocket(
        &self,
        request: http::Request<()>,
        context: RequestContext,
        upgrade: WebSocketUpgrade,
    ) -> BoxFuture<'_, ()> {
        (**self).websocket(request, context, upgrade)
    }

    fn access(&self, request: &Parts) -> Access {
        (**self).access(request)
    }

    fn refuse(&self, request: &Parts, error: &ServerError) -> Response {
        (**self).refuse(request, error)
    }

    fn ready(&self) -> BoxFuture<'_, Result<(), String>> {
        (**self).ready()
    }

    fn shutdown(&self) {
        (**self).shutdown();
    }
}

/// Who may make a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Access {
    /// A request without a valid token is refused with 401 if the server has an authenticator.
    Authenticated,
    /// Anyone. Credentials are not checked, and the context has no principal.
    Public,
}

/// What a face knows of a request beside the request itself.
#[derive(Debug, Clone, Default)]
pub struct RequestContext {
    /// The connection that the request came on.
    pub connection: Connection,
    /// Who makes the request; None without an authenticator and for public requests.
    pub principal: Option<Principal>,
}

/// The connection of a request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Connection {
    /// The client's address, if the face knows it.
    pub peer: Option<SocketAddr>,
    /// True for `https` and `wss`.
    pub secure: bool,
    /// Where the application is mounted, without a slash at the end: `""` or `/api/shop`.
    pub root_path: Arc<str>,
}
