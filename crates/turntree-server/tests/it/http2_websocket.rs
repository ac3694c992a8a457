//! WebSocket connections over HTTP/2 (RFC 8441).

use std::time::Duration;

use bytes::Bytes;
use h2::client::SendRequest;
use h2::ext::Protocol;
use h2::{RecvStream, SendStream};
use http::{Method, Request, StatusCode};
use tokio::net::TcpStream;
use turntree_server::{Server, ServerConfig, Service};

use crate::application::{Behaviours, Events, PATIENCE, next};

/// The connection window of the client: what it does not read on one stream leaves room for the others.
const WINDOW: u32 = 1024 * 1024;

struct Client {
    server: Server,
    requests: SendRequest<Bytes>,
}

impl Client {
    /// Starts a server and connects to it.
    async fn connect(config: ServerConfig) -> (Self, Events) {
        let (behaviours, mut events) = Behaviours::new();
        let server = Server::start(Service::new(behaviours), config).await.unwrap();
        let stream = TcpStream::connect(server.address()).await.unwrap();
        let (requests, connection) = h2::client::Builder::new()
            .initial_connection_window_size(WINDOW)
            .handshake(stream)
            .await
            .unwrap();
        // How the server ends the connection does not matter.
        tokio::spawn(async move { drop(connection.await) });
        let mut client = Self { server, requests };
        // The server's settings have come with the first response.
        assert_eq!(client.get("/who").await, StatusCode::OK);
        assert!(client.requests.is_extended_connect_protocol_enabled());
        assert_eq!(next(&mut events).await, "/who");
        (client, events)
    }

    async fn get(&mut self, path: &str) -> StatusCode {
        let request = Request::get(format!("{}{path}", self.server.url())).body(()).unwrap();
        let (response, _) = self.requests.send_request(request, true).unwrap();
        tokio::time::timeout(PATIENCE, response).await.expect("no response").unwrap().status()
    }

    /// Asks for a WebSocket connection on a stream of its own.
    async fn upgrade(&mut self, path: &str) -> (StatusCode, SendStream<Bytes>, RecvStream) {
        let mut request = Request::builder()
            .method(Method::CONNECT)
            .uri(format!("{}{path}", self.server.url()))
            .header("sec-websocket-version", "13")
            .body(())
            .unwrap();
        request.extensions_mut().insert(Protocol::from_static("websocket"));
        let (response, sender) = self.requests.send_request(request, false).unwrap();
        let response = tokio::time::timeout(PATIENCE, response).await.expect("no response").unwrap();
        (response.status(), sender, response.into_body())
    }
}

/// A frame of a client with a short text. The mask is zero, so that the payload stays readable.
fn text(text: &str) -> Bytes {
    let length = u8::try_from(text.len()).unwrap();
    [&[0x81, 0x80 | length, 0, 0, 0, 0], text.as_bytes()].concat().into()
}

/// Reads as many bytes.
async fn read(stream: &mut RecvStream, size: usize) -> Vec<u8> {
    let mut seen = Vec::new();
    while seen.len() < size {
        let data = tokio::time::timeout(PATIENCE, stream.data()).await.expect("no data").unwrap().unwrap();
        stream.flow_control().release_capacity(data.len()).unwrap();
        seen.extend_from_slice(&data);
    }
    seen
}

#[tokio::test]
async fn messages_pass_in_both_directions_over_http2() {
    let (mut client, mut events) = Client::connect(ServerConfig::default()).await;
    let (status, mut sender, mut receiver) = client.upgrade("/echo").await;

    sender.send_data(text("hello"), false).unwrap();

    assert_eq!(status, StatusCode::OK);
    assert_eq!(read(&mut receiver, 7).await, b"\x81\x05hello");
    drop((sender, receiver));
    assert_eq!(next(&mut events).await, "dropped websocket");
}

#[tokio::test]
async fn a_refused_handshake_over_http2_has_the_applications_response() {
    let (mut client, _events) = Client::connect(ServerConfig::default()).await;

    assert_eq!(client.upgrade("/refused").await.0, StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(client.upgrade("/elsewhere").await.0, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn a_stream_of_messages_that_is_not_read_ends_and_the_others_of_its_connection_go_on() {
    let config = ServerConfig { write_timeout: Duration::from_millis(300), ..ServerConfig::default() };
    let (mut client, mut events) = Client::connect(config).await;

    let (status, _sender, unread) = client.upgrade("/flood").await;
    let (_, mut other_sender, mut other) = client.upgrade("/echo").await;

    assert_eq!(status, StatusCode::OK);
    assert_eq!(next(&mut events).await, "dropped websocket");
    other_sender.send_data(text("still here"), false).unwrap();
    assert_eq!(read(&mut other, 12).await, b"\x81\x0astill here");
    assert_eq!(client.get("/who").await, StatusCode::OK);
    drop(unread);
}

#[tokio::test]
async fn a_client_over_http2_that_does_not_answer_pings_of_its_websocket_is_given_up() {
    let config = ServerConfig { ping_interval: Duration::from_secs(2), ..ServerConfig::default() };
    let (mut client, mut events) = Client::connect(config).await;

    // The connection answers its own pings: only the stream is quiet.
    let (_, _sender, _receiver) = client.upgrade("/echo").await;

    assert_eq!(next(&mut events).await, "dropped websocket");
}
