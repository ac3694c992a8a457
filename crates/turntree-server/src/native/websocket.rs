//! WebSocket connections of the native server: RFC 6455 over HTTP/1.1, RFC 8441 over HTTP/2.

use std::pin::pin;
use std::time::Duration;

use axum::extract::FromRequestParts as _;
use axum::extract::ws::{self, WebSocketUpgrade as AxumUpgrade};
use futures_util::future::{Either, select};
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt as _, StreamExt as _};
use http::{HeaderValue, Method, Version, header};
use hyper::body::Incoming;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_tungstenite::tungstenite;
use turntree_core::runtime;

use super::connection::ConnectionHandler;
use crate::application::{Connection, Response};
use crate::body::Body;
use crate::error::ServerError;
use crate::websocket::{CloseFrame, Handshake, Message, WebSocket, WebSocketUpgrade, offered_subprotocols};

/// How long the server waits for the client's close frame after its own.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

/// The server ends the connection because it shuts down (RFC 6455 §7.4.1).
const GOING_AWAY: u16 = 1001;

/// A message is larger than the limit.
const TOO_LARGE: u16 = 1009;

/// A message of text is not UTF-8.
const NOT_TEXT: u16 = 1007;

/// What is received is not a WebSocket connection.
const PROTOCOL_ERROR: u16 = 1002;

/// Bytes that a client of HTTP/2 must read within the limit on writes.
const SLOWEST_READING: usize = 64 * 1024;

/// The normal end of a connection.
const NORMAL: u16 = 1000;

/// Whether a request asks for a WebSocket connection.
pub(super) fn is_upgrade<B>(request: &http::Request<B>) -> bool {
    if request.version() == Version::HTTP_2 {
        return request.method() == Method::CONNECT;
    }
    let upgrade = request.headers().get(header::UPGRADE);
    upgrade.is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"websocket"))
}

/// Answers a handshake. The connection is served in a task of its own.
pub(super) async fn upgrade(
    handler: &ConnectionHandler,
    request: hyper::Request<Incoming>,
    connection: Connection,
) -> Response {
    let (mut parts, _) = request.into_parts();
    let mut upgrade = match AxumUpgrade::from_request_parts(&mut parts, &()).await {
        Ok(upgrade) => upgrade,
        Err(rejection) => return Body::text(rejection.body_text()).into_response(rejection.status()),
    };
    let mut head = http::Request::new(());
    *head.uri_mut() = parts.uri;
    *head.headers_mut() = parts.headers;
    let (asked, ()) = head.clone().into_parts();
    let (answer, answered) = WebSocketUpgrade::new(offered_subprotocols(head.headers()));
    let service = handler.service.clone();
    let serving = runtime::spawn(async move { service.websocket(head, connection, answer).await });
    let socket = match answered.await {
        Ok(Handshake::Accepted(socket)) => socket,
        Ok(Handshake::Rejected(response)) => return response,
        Err(_) => {
            return handler.service.refuse(&asked, &ServerError::NoWebSocket);
        }
    };
    if let Some(Ok(chosen)) = socket.subprotocol.as_deref().map(HeaderValue::from_str) {
        upgrade.set_selected_protocol(chosen);
    }
    let limit = handler.service.limits().body;
    let handler = handler.clone();
    let response =
        upgrade.max_message_size(limit).max_frame_size(limit).on_upgrade(move |client| async move {
            pump(&handler, client, socket).await;
            // The application sees the end of its messages and may still have work to do; after the drain limit it is dropped.
            drop(select(serving, pin!(handler.abort.cancelled())).await);
        });
    response.map(|_| Body::empty())
}

/// Moves messages in both directions until both have ended, or until the server is aborted.
async fn pump(handler: &ConnectionHandler, client: ws::WebSocket, application: WebSocket) {
    let interval = handler.config.ping_interval;
    let (mut sink, stream) = client.split();
    let (from_application, to_application) = application.split();
    let close = {
        let writing = write(&mut sink, from_application, interval, handler.config.write_timeout);
        let reading = read(stream, to_application, interval);
        let both = async {
            match select(pin!(writing), pin!(reading)).await {
                // The application has ended the connection; the client confirms it.
                Either::Left(((), reading)) => {
                    drop(timeout(CLOSE_TIMEOUT, reading).await);
                    None
                }
                // The client has gone, or has broken a rule; what the application still sends is discarded.
                Either::Right((broken, _)) => broken,
            }
        };
        match select(pin!(both), pin!(handler.abort.cancelled())).await {
            Either::Left((broken, _)) => broken,
            Either::Right(_) => Some((GOING_AWAY, "the server shuts down")),
        }
    };
    if let Some((code, reason)) = close {
        let frame = ws::CloseFrame { code, reason: reason.into() };
        let closed = sink.send(ws::Message::Close(Some(frame)));
        drop(timeout(Duration::from_secs(1), closed).await);
    }
}

/// The code for an error of the client; `None` if it has gone.
fn broken_rule(error: axum::Error) -> Option<(u16, &'static str)> {
    match *error.into_inner().downcast::<tungstenite::Error>().ok()? {
        tungstenite::Error::Capacity(_) => Some((TOO_LARGE, "the message is larger than the limit")),
        tungstenite::Error::Utf8(_) => Some((NOT_TEXT, "the text is not UTF-8")),
        tungstenite::Error::Protocol(tungstenite::error::ProtocolError::ResetWithoutClosingHandshake) => None,
        tungstenite::Error::Protocol(_) => Some((PROTOCOL_ERROR, "a frame is not valid")),
        _ => None,
    }
}

/// Sends the application's messages, and pings while there are none.
async fn write(
    sink: &mut SplitSink<ws::WebSocket, ws::Message>,
    mut messages: mpsc::Receiver<Message>,
    interval: Duration,
    write_timeout: Duration,
) {
    loop {
        let (message, is_last) = match timeout(interval, messages.recv()).await {
            Ok(Some(Message::Text(text))) => (ws::Message::Text(text.into()), false),
            Ok(Some(Message::Binary(bytes))) => (ws::Message::Binary(bytes), false),
            Ok(Some(Message::Close(frame))) => (closing(frame), true),
            Ok(None) => (closing(None), true),
            Err(_) => (ws::Message::Ping(bytes::Bytes::new()), false),
        };
        let size = match &message {
            ws::Message::Text(text) => text.len(),
            ws::Message::Binary(bytes) => bytes.len(),
            _ => 0,
        };
        // The window of a stream of HTTP/2 may stay closed while its connection lives.
        let turns = u32::try_from(size / SLOWEST_READING).unwrap_or(u32::MAX).saturating_add(1);
        let limit = write_timeout.saturating_mul(turns);
        if !matches!(timeout(limit, sink.send(message)).await, Ok(Ok(()))) || is_last {
            return;
        }
    }
}

fn closing(frame: Option<CloseFrame>) -> ws::Message {
    let frame = frame.unwrap_or(CloseFrame { code: NORMAL, reason: String::new() });
    ws::Message::Close(Some(ws::CloseFrame { code: frame.code, reason: frame.reason.into() }))
}

/// Hands the client's messages to the application. A client from which nothing comes, not even an answer to a ping, has
/// gone. Returns the code for what the client must not send.
async fn read(
    mut stream: SplitStream<ws::WebSocket>,
    messages: mpsc::Sender<Message>,
    interval: Duration,
) -> Option<(u16, &'static str)> {
    loop {
        let message = match timeout(interval.saturating_mul(2), stream.next()).await {
            Ok(Some(Ok(message))) => message,
            Ok(Some(Err(error))) => return broken_rule(error),
            Ok(None) | Err(_) => return None,
        };
        let (message, is_last) = match message {
            ws::Message::Text(text) => (Message::Text(text.as_str().to_owned()), false),
            ws::Message::Binary(bytes) => (Message::Binary(bytes), false),
            ws::Message::Close(frame) => {
                let frame =
                    frame.map(|frame| CloseFrame { code: frame.code, reason: frame.reason.to_string() });
                (Message::Close(frame), true)
            }
            ws::Message::Ping(_) | ws::Message::Pong(_) => continue,
        };
        // After the end, the stream is polled until the close frames are exchanged.
        if messages.send(message).await.is_err() || is_last {
            drop(messages);
            while let Ok(Some(Ok(_))) = timeout(CLOSE_TIMEOUT, stream.next()).await {}
            return None;
        }
    }
}
