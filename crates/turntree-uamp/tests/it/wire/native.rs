//! The wire on a real socket.

use std::time::Duration;

use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::client_async;
use tokio_tungstenite::tungstenite::Message;
use turntree_server::{Server, ServerConfig, Service};
use turntree_upp::providers::scripted::Reply;

use super::service_with;

#[tokio::test]
async fn a_client_talks_to_the_native_server_over_a_socket() {
    let hosted = service_with(vec![Reply::from("hello")]);
    let server = Server::start(Service::new(hosted.service), ServerConfig::default()).await.unwrap();
    let stream = TcpStream::connect(server.address()).await.unwrap();
    let url = format!("ws://{}/agents/guide/uamp", server.address());
    let (mut socket, _) = client_async(url, stream).await.unwrap();
    for event in [
        json!({"type": "session.create", "uamp_version": "1.0", "session": {"modalities": ["text"]}}),
        json!({"type": "input.text", "text": "hi"}),
        json!({"type": "response.create"}),
    ] {
        socket.send(Message::text(event.to_string())).await.unwrap();
    }

    let mut kinds = Vec::new();
    while kinds.last().is_none_or(|kind| kind != "response.done") {
        let message = tokio::time::timeout(super::PATIENCE, socket.next()).await.unwrap().unwrap().unwrap();
        let event: Value = serde_json::from_str(message.to_text().unwrap()).unwrap();
        kinds.push(event["type"].as_str().unwrap().to_owned());
    }
    assert_eq!(kinds[..3], ["session.created", "capabilities", "response.created"]);
    drop(socket);
    assert_eq!(hosted.wire.session_count(), 1, "the session outlives its connection");
    tokio::time::timeout(Duration::from_secs(15), server.shutdown()).await.unwrap();
    super::eventually(|| hosted.wire.session_count() == 0).await;
}
