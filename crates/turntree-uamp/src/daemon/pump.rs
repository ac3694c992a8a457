//! Moves messages between a socket and the application's end of a connection.

use std::pin::pin;
use std::time::Duration;

use futures_util::future::{Either, select};
use futures_util::{SinkExt as _, StreamExt as _};
use tokio_tungstenite::tungstenite::Message as Frame;
use turntree_core::runtime;
use turntree_server::{Message, WebSocket};

use crate::client::socket::Socket;

/// The silence after which the router is asked whether it is there.
const KEEP_ALIVE: Duration = Duration::from_secs(20);

/// The number of such questions without an answer after which the connection is lost.
const UNANSWERED: u32 = 2;

/// Moves messages until one side ends. What the application has sent is written first.
pub(super) async fn pump(socket: Socket, face: WebSocket) {
    let (mut sink, mut stream) = socket.split();
    let (mut from_application, to_application) = face.split();
    let (asks, mut asked) = tokio::sync::mpsc::channel::<()>(1);
    let reading = async {
        let mut unanswered = 0;
        loop {
            let next = match select(stream.next(), pin!(runtime::sleep(KEEP_ALIVE))).await {
                Either::Left((next, _)) => next,
                Either::Right(_) if unanswered >= UNANSWERED => return,
                Either::Right(_) => {
                    unanswered += 1;
                    // If it fails, a question waits already.
                    let _ = asks.try_send(());
                    continue;
                }
            };
            unanswered = 0;
            let message = match next {
                Some(Ok(Frame::Text(text))) => Message::Text(text.as_str().to_owned()),
                Some(Ok(Frame::Binary(bytes))) => Message::Binary(bytes),
                Some(Ok(Frame::Close(_)) | Err(_)) | None => return,
                Some(Ok(_)) => continue,
            };
            if to_application.send(message).await.is_err() {
                return;
            }
        }
    };
    let writing = async {
        loop {
            let frame = match select(pin!(from_application.recv()), pin!(asked.recv())).await {
                Either::Left((Some(Message::Text(text)), _)) => Frame::text(text),
                Either::Left((Some(Message::Binary(bytes)), _)) => Frame::Binary(bytes),
                Either::Left((Some(Message::Close(_)) | None, _)) => return,
                Either::Right(_) => Frame::Ping(bytes::Bytes::new()),
            };
            if sink.feed(frame).await.is_err() || from_application.is_empty() && sink.flush().await.is_err() {
                return;
            }
        }
    };
    // The end of the application is the end of the writing; the reading ends with the socket.
    select(pin!(reading), pin!(writing)).await;
    // A router that has gone does not need the frame.
    drop(sink.close().await);
}
