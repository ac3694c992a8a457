//! ACP, the Agent Client Protocol, version 1: editors drive an agent, over the standard streams of a process, WebSocket and
//! Streamable HTTP at `/acp`.
//!
//! | module | content |
//! |---|---|
//! | [`json_rpc`] | messages as text; without I/O |
//! | [`content`] | the blocks of prompts and answers |
//! | [`updates`] | the output of runs, and stored conversations, as updates of sessions; without I/O |
//! | [`connection`] | the requests of a client, whatever the transport |
//! | `prompt` | one prompt: runs, and the permissions between them |
//! | `sessions` | the list of sessions, as records |
//! | [`outbox`] | where the messages of a connection go |
//! | [`stdio`], `http` | the transports; WebSocket is in this file |
//!
//! A session is a conversation of the store. A tool whose approval is left to a person suspends the run; the client asks
//! the user, and the run is resumed with the decision.
//!
//! Spec: ACP, schema 1.19

pub mod connection;
pub mod content;
mod http;
pub mod json_rpc;
pub mod outbox;
mod prompt;
mod sessions;
pub mod stdio;
pub mod updates;

use std::pin::pin;
use std::sync::Arc;

use ::http::Method;
use futures_util::future::{BoxFuture, Either, select};
use turntree_server::{Body, Message, Response, ServerError, WebSocket, WebSocketUpgrade};

use self::connection::Connection;
use self::http::Connections;
use self::outbox::Outbox;
use crate::service::{Exchange, Wire};

/// The path.
const PATH: &str = "/acp";

/// The wire of ACP.
#[derive(Debug, Default)]
pub struct Acp {
    connections: Arc<Connections>,
}

impl Wire for Acp {
    fn serves(&self, method: &Method, path: &str) -> bool {
        path == PATH && [Method::GET, Method::POST, Method::DELETE].contains(method)
    }

    fn call(&self, exchange: Exchange) -> BoxFuture<'static, Response> {
        Box::pin(Arc::clone(&self.connections).answer(exchange))
    }

    fn websocket(
        &self,
        exchange: Exchange<::http::Request<()>>,
        upgrade: WebSocketUpgrade,
    ) -> BoxFuture<'static, ()> {
        let Exchange { site, route, context, .. } = exchange;
        let agent = match route.agent(&site, None) {
            Ok(agent) => Arc::clone(agent),
            Err(error) => {
                let body = serde_json::json!({ "error": { "code": "agent_not_found", "message": error.to_string() } });
                upgrade.reject(Body::json(&body).into_response(::http::StatusCode::NOT_FOUND));
                return Box::pin(std::future::ready(()));
            }
        };
        Box::pin(async move {
            let Ok(socket) = upgrade.accept(None) else { return };
            let (outbox, messages) = Outbox::one();
            let connection = Connection::new(site, agent, context.principal, outbox);
            serve(connection, messages, socket).await;
        })
    }

    fn refuse(&self, error: &ServerError) -> Response {
        error.response()
    }

    fn shutdown(&self) {
        self.connections.shutdown();
    }
}

/// Closes a connection when its socket has ended.
struct Closing(Connection);

impl Drop for Closing {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// Serves a WebSocket connection, one message a text frame. Binary frames are ignored.
async fn serve(connection: Connection, mut messages: tokio::sync::mpsc::Receiver<String>, socket: WebSocket) {
    let connection = Closing(connection);
    let (mut incoming, outgoing) = socket.split();
    let reading = async {
        while let Some(message) = incoming.recv().await {
            match message {
                Message::Text(text) => connection.0.receive_bytes(text.as_bytes()).await,
                Message::Binary(_) => {}
                Message::Close(_) => return,
            }
        }
    };
    let writing = async {
        while let Some(message) = messages.recv().await {
            if outgoing.send(Message::Text(message)).await.is_err() {
                return;
            }
        }
    };
    match select(pin!(reading), pin!(writing)).await {
        Either::Left(_) | Either::Right(_) => {}
    }
}
