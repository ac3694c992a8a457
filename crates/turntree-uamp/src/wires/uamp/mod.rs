//! UAMP's own wire: WebSocket, HTTP with server-sent events, and all of a response in one request.
//!
//! | path | content |
//! |---|---|
//! | `GET /ws`, `GET /uamp` | WebSocket with any number of sessions |
//! | `POST /events`, `GET /events/stream` | events in, server-sent events out |
//! | `POST /uamp` | an array of events in, an array of events out |
//! | `POST /uamp/stream` | an array of events in, server-sent events out |
//! | `POST /uamp/completions` | a request of OpenAI's chat completions in, server-sent events out |
//!
//! ```text
//!   socket, http ──ClientEvent──> HostedSession: SessionCore, AgentRun, PaymentGate, time limits
//!        ^                              │
//!        └── Mailbox <── EventLog <─────┘   one bounded log per session, which a client reads from its position on
//! ```
//!
//! A session does not end with its connection: it continues for the resume window, and another connection reads its log
//! from the last event that the client has. Of a session that another process had, the conversation continues; its
//! earlier events are not replayed.
//!
//! Spec: UAMP-1.0 §10, §13

mod completions;
mod connection;
mod dialed;
mod hosted;
mod http;
mod limits;
mod log;
mod mailbox;
mod opening;
mod refusal;
mod runs;
mod socket;
mod table;

use std::sync::Arc;

use ::http::{Method, StatusCode, header};
use futures_util::future::BoxFuture;
use turntree_server::{Access, Body, Response, WebSocketUpgrade};

use self::http::{EventRequest, identity_of};
use self::opening::Opener;
use self::table::SessionTable;
use crate::service::{Exchange, UnknownAgent, Wire};

pub use self::connection::{Sessions, Target};
pub(crate) use self::dialed::{DialedAgents, Parting};
pub use self::limits::UampLimits;
pub use self::refusal::Refusal;

/// The wire of UAMP. Cloning shares its sessions.
#[derive(Debug, Clone, Default)]
pub struct Uamp {
    table: Arc<SessionTable>,
    limits: UampLimits,
}

impl Uamp {
    /// The wire with these limits.
    pub fn new(limits: UampLimits) -> Self {
        Self { table: Arc::default(), limits }
    }

    /// The number of sessions that run.
    pub fn session_count(&self) -> usize {
        self.table.len()
    }

    fn opener<R>(&self, exchange: &Exchange<R>) -> Opener {
        Opener { site: Arc::clone(&exchange.site), table: Arc::clone(&self.table), limits: self.limits }
    }
}

impl Wire for Uamp {
    fn serves(&self, method: &Method, path: &str) -> bool {
        match path {
            "/ws" | "/events/stream" => method == Method::GET,
            "/uamp" => method == Method::GET || method == Method::POST,
            "/events" | "/uamp/stream" | "/uamp/completions" => method == Method::POST,
            _ => false,
        }
    }

    fn call(&self, exchange: Exchange) -> BoxFuture<'static, Response> {
        let opener = self.opener(&exchange);
        Box::pin(async move {
            let Exchange { route, request, context, .. } = exchange;
            let (parts, body) = request.into_parts();
            let identity = match identity_of(&opener, &parts, &context).await {
                Ok(identity) => identity,
                Err(refusal) => return refusal.response(),
            };
            let (method, path) = (parts.method.clone(), Arc::clone(&route.path));
            let request = EventRequest { opener, route, parts, identity };
            let answer = match (&method, &*path) {
                (&Method::POST, "/events") => request.post(body).await,
                (&Method::GET, "/events/stream") => request.stream(),
                (&Method::POST, "/uamp/stream") => request.batch_stream(body).await,
                (&Method::POST, "/uamp/completions") => request.completions(body).await,
                (&Method::POST, _) => request.batch(body).await,
                _ => return upgrade_required(),
            };
            answer.unwrap_or_else(|refusal| refusal.response())
        })
    }

    fn websocket(
        &self,
        exchange: Exchange<::http::Request<()>>,
        upgrade: WebSocketUpgrade,
    ) -> BoxFuture<'static, ()> {
        let opener = self.opener(&exchange);
        Box::pin(async move {
            let Exchange { route, request, context, .. } = exchange;
            let (parts, ()) = request.into_parts();
            match identity_of(&opener, &parts, &context).await {
                Ok(identity) => {
                    if let Ok(socket) = upgrade.accept(None) {
                        socket::serve(opener, route, identity, socket).await;
                    }
                }
                Err(refusal) => upgrade.reject(refusal.response()),
            }
        })
    }

    fn websocket_of_unknown_agent(
        &self,
        exchange: Exchange<::http::Request<()>>,
        error: UnknownAgent,
        upgrade: WebSocketUpgrade,
    ) -> BoxFuture<'static, ()> {
        let opener = self.opener(&exchange);
        Box::pin(async move {
            if let Ok(socket) = upgrade.accept(None) {
                socket::serve_unknown_agent(opener, error.to_string(), socket).await;
            }
        })
    }

    /// The wire checks tokens itself: they may be in `session.create`. Without an authenticator of the site, that of the
    /// server checks requests ([`crate::service::AgentService`]).
    fn access(&self, _path: &str) -> Access {
        Access::Public
    }

    fn checks_tokens(&self) -> bool {
        true
    }

    fn shutdown(&self) {
        self.table.end_all();
    }
}

fn upgrade_required() -> Response {
    let message = "connect with WebSocket, or send events with POST";
    let body = serde_json::json!({ "error": { "code": "upgrade_required", "message": message } });
    let mut response = Body::json(&body).into_response(StatusCode::UPGRADE_REQUIRED);
    response.headers_mut().insert(header::UPGRADE, header::HeaderValue::from_static("websocket"));
    response
}
