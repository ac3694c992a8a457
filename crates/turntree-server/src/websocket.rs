//! WebSocket connections as messages.
//!
//! A face moves messages between its socket and two bounded channels. The application sees a [`WebSocket`]. A full channel
//! stops the reading of the socket, or makes the application wait.

use bytes::Bytes;
use http::{HeaderMap, header};
use tokio::sync::{mpsc, oneshot};

use crate::application::Response;
use crate::error::ServerError;

/// Messages that wait in each direction. Applications with a queue of their own need no more.
const CAPACITY: usize = 8;

/// A message of a WebSocket connection. Pings are answered by the server and are not seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message {
    /// Text in UTF-8.
    Text(String),
    /// Bytes.
    Binary(Bytes),
    /// The end of the connection; nothing follows.
    Close(Option<CloseFrame>),
}

/// Why a connection was closed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CloseFrame {
    /// The code, for example 1000 for a normal end, 1008 for a policy or 1013 to try again later.
    pub code: u16,
    /// A short reason of at most 123 bytes.
    pub reason: String,
}

/// An open WebSocket connection. Dropping it closes the connection with code 1000.
#[derive(Debug)]
pub struct WebSocket {
    /// The subprotocol that was agreed on.
    pub subprotocol: Option<String>,
    incoming: mpsc::Receiver<Message>,
    outgoing: mpsc::Sender<Message>,
}

impl WebSocket {
    /// Two connected ends; the first is the application's.
    pub fn pair(subprotocol: Option<String>) -> (Self, Self) {
        let (to_application, from_client) = mpsc::channel(CAPACITY);
        let (to_client, from_application) = mpsc::channel(CAPACITY);
        (
            Self { subprotocol: subprotocol.clone(), incoming: from_client, outgoing: to_client },
            Self { subprotocol, incoming: from_application, outgoing: to_application },
        )
    }

    /// The next message; None after the end of the connection.
    ///
    /// # Cancel safety
    /// Dropping the future loses no message.
    pub async fn receive(&mut self) -> Option<Message> {
        self.incoming.recv().await
    }

    /// Sends a message. Waits while the client reads slowly.
    ///
    /// # Errors
    /// [`ServerError::WebSocketClosed`] after the end of the connection.
    ///
    /// # Cancel safety
    /// The message is sent or not sent, never in part.
    pub async fn send(&self, message: Message) -> Result<(), ServerError> {
        self.outgoing.send(message).await.map_err(|_| ServerError::WebSocketClosed)
    }

    /// The receiving and the sending half, for two tasks.
    pub fn split(self) -> (mpsc::Receiver<Message>, mpsc::Sender<Message>) {
        (self.incoming, self.outgoing)
    }
}

/// The answer to a WebSocket handshake.
#[derive(Debug)]
pub enum Handshake {
    /// The connection is open; this is the face's end.
    Accepted(WebSocket),
    /// The connection is refused with a response.
    Rejected(Response),
}

/// A WebSocket handshake that the application answers.
#[derive(Debug)]
pub struct WebSocketUpgrade {
    subprotocols: Vec<String>,
    answer: oneshot::Sender<Handshake>,
}

impl WebSocketUpgrade {
    /// A handshake for the subprotocols that the client offers, and its answer, which the face sends.
    pub fn new(subprotocols: Vec<String>) -> (Self, oneshot::Receiver<Handshake>) {
        let (answer, answered) = oneshot::channel();
        (Self { subprotocols, answer }, answered)
    }

    /// The subprotocols that the client offers, in its order.
    pub fn subprotocols(&self) -> &[String] {
        &self.subprotocols
    }

    /// Opens the connection.
    ///
    /// # Errors
    /// [`ServerError::Disconnected`] if the client has gone.
    pub fn accept(self, subprotocol: Option<String>) -> Result<WebSocket, ServerError> {
        let (application, face) = WebSocket::pair(subprotocol);
        self.answer.send(Handshake::Accepted(face)).map_err(|_| ServerError::Disconnected)?;
        Ok(application)
    }

    /// Refuses the connection. A client that has gone does not see the response.
    pub fn reject(self, response: Response) {
        drop(self.answer.send(Handshake::Rejected(response)));
    }
}

/// The subprotocols of a handshake, in the client's order.
pub fn offered_subprotocols(headers: &HeaderMap) -> Vec<String> {
    let values =
        headers.get_all(header::SEC_WEBSOCKET_PROTOCOL).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).map(|name| name.trim().to_owned()).collect()
}
