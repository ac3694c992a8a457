//! WebSocket connections of the ASGI application.

use std::pin::pin;

use crate::prelude::*;
use futures_util::future::{Either, select};
use pyo3::intern;
use tokio::sync::{mpsc, oneshot};

use super::asgi::{Channel, Event};
use super::asgi_scope::Scope;
use turntree_server::websocket::Handshake;
use turntree_server::{CloseFrame, Message, Service, WebSocketUpgrade};

/// The normal end of a connection.
const NORMAL: u16 = 1000;

/// Serves one connection to its end.
pub(super) async fn serve(service: Service, scope: Scope, channel: Channel) -> PyResult<()> {
    let Event::Connect = channel.receive().await? else { return Ok(()) };
    let (upgrade, answered) = WebSocketUpgrade::new(scope.subprotocols);
    let application = service.websocket(scope.head, scope.connection, upgrade);
    let connection = connection(&channel, answered, scope.can_reject);
    match select(pin!(application), pin!(connection)).await {
        // The rest of its messages is sent.
        Either::Left(((), connection)) => connection.await,
        // The client has gone. The application has seen the end of its messages and ends as well.
        Either::Right((Ok(()), application)) => {
            application.await;
            Ok(())
        }
        Either::Right((Err(error), _)) => Err(error),
    }
}

/// Refuses a handshake whose head cannot be read. The server answers 403.
pub(super) async fn refuse(channel: Channel) -> PyResult<()> {
    let Event::Connect = channel.receive().await? else { return Ok(()) };
    close(&channel, None).await
}

/// Sends the answer to the handshake, then moves messages in both directions.
async fn connection(
    channel: &Channel,
    answered: oneshot::Receiver<Handshake>,
    can_reject: bool,
) -> PyResult<()> {
    let socket = match answered.await {
        Ok(Handshake::Accepted(socket)) => socket,
        Ok(Handshake::Rejected(response)) if can_reject => {
            return channel.respond("websocket.http.response", response).await;
        }
        // The server answers 403.
        Ok(Handshake::Rejected(_)) | Err(_) => return close(channel, None).await,
    };
    let subprotocol = socket.subprotocol.clone();
    channel
        .send("websocket.accept", |event| event.set_item(intern!(event.py(), "subprotocol"), subprotocol))
        .await?;
    let (from_application, to_application) = socket.split();
    // On the heap, so that it can be dropped early.
    let reading = Box::pin(read(channel, to_application));
    let frame = match select(pin!(write(channel, from_application)), reading).await {
        // granian closes a connection only when `receive` is not waiting.
        Either::Left((frame, reading)) => {
            drop(reading);
            frame?
        }
        // After a disconnect nothing can be sent.
        Either::Right((outcome, _)) => return outcome,
    };
    close(channel, frame).await
}

/// Sends the application's messages. Returns how it closes the connection.
async fn write(channel: &Channel, mut messages: mpsc::Receiver<Message>) -> PyResult<Option<CloseFrame>> {
    loop {
        match messages.recv().await {
            Some(Message::Text(text)) => {
                channel
                    .send("websocket.send", |event| event.set_item(intern!(event.py(), "text"), text))
                    .await?;
            }
            Some(Message::Binary(bytes)) => {
                channel
                    .send("websocket.send", |event| {
                        let py = event.py();
                        event.set_item(intern!(py, "bytes"), pyo3::types::PyBytes::new(py, &bytes))
                    })
                    .await?;
            }
            Some(Message::Close(frame)) => return Ok(frame),
            None => return Ok(None),
        }
    }
}

async fn close(channel: &Channel, frame: Option<CloseFrame>) -> PyResult<()> {
    let frame = frame.unwrap_or(CloseFrame { code: NORMAL, reason: String::new() });
    channel
        .send("websocket.close", |event| {
            let py = event.py();
            event.set_item(intern!(py, "code"), frame.code)?;
            event.set_item(intern!(py, "reason"), frame.reason)
        })
        .await
}

/// Hands the client's messages to the application, until the client has gone.
async fn read(channel: &Channel, messages: mpsc::Sender<Message>) -> PyResult<()> {
    loop {
        let message = match channel.receive().await? {
            Event::Text(text) => Message::Text(text),
            Event::Binary(bytes) => Message::Binary(bytes),
            Event::Disconnect(code, reason) => {
                // The application may have ended already.
                drop(messages.send(Message::Close(Some(CloseFrame { code, reason }))).await);
                return Ok(());
            }
            _ => continue,
        };
        if messages.send(message).await.is_err() {
            // The application has closed the connection; the writer sends that and ends.
            return std::future::pending().await;
        }
    }
}
