//! WebSocket connections.

use futures_util::{SinkExt as _, StreamExt as _};
use http::StatusCode;
use http::header::{HeaderValue, SEC_WEBSOCKET_PROTOCOL};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::protocol::frame::Frame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{CloseCode, Data, OpCode};
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{WebSocketStream, client_async};
use turntree_server::{Server, ServerConfig};

use crate::application::{PATIENCE, SOON, config, limits, next, serve, serve_with};

type Client = WebSocketStream<TcpStream>;

async fn connect(server: &Server, path: &str, protocols: &str) -> Result<(Client, Option<String>), Error> {
    let mut request = format!("ws://{}{path}", server.address()).into_client_request()?;
    if !protocols.is_empty() {
        request.headers_mut().insert(SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_str(protocols).unwrap());
    }
    let stream = TcpStream::connect(server.address()).await.unwrap();
    let (client, response) = client_async(request, stream).await?;
    let chosen = response.headers().get(SEC_WEBSOCKET_PROTOCOL);
    Ok((client, chosen.map(|value| value.to_str().unwrap().to_owned())))
}

async fn receive(client: &mut Client) -> Message {
    tokio::time::timeout(PATIENCE, client.next()).await.expect("no message").unwrap().unwrap()
}

#[tokio::test]
async fn messages_pass_in_both_directions() {
    let (server, _, mut events) = serve().await;
    let (mut client, chosen) = connect(&server, "/echo", "v9, chat").await.unwrap();

    for message in [Message::text("grüße"), Message::binary(vec![0, 255]), Message::text("")] {
        client.send(message.clone()).await.unwrap();
        assert_eq!(receive(&mut client).await, message);
    }
    client.close(None).await.unwrap();

    assert_eq!(chosen.as_deref(), Some("chat"));
    assert!(matches!(receive(&mut client).await, Message::Close(_)));
    assert_eq!(next(&mut events).await, "dropped websocket");
}

#[tokio::test]
async fn a_client_that_sends_without_reading_does_not_block_for_ever() {
    let (server, ..) = serve().await;
    let (client, _) = connect(&server, "/echo", "").await.unwrap();
    let (mut sink, mut stream) = client.split();

    let sending = async {
        for index in 0..2000 {
            sink.send(Message::text(format!("{index:0>900}"))).await.unwrap();
        }
    };
    let receiving = async {
        for index in 0..2000 {
            assert_eq!(stream.next().await.unwrap().unwrap(), Message::text(format!("{index:0>900}")));
        }
    };

    tokio::time::timeout(PATIENCE, async { tokio::join!(sending, receiving) }).await.expect("a deadlock");
}

#[tokio::test]
async fn a_refused_handshake_has_the_applications_response() {
    let (server, ..) = serve().await;

    for (path, expected) in
        [("/refused", StatusCode::TOO_MANY_REQUESTS), ("/elsewhere", StatusCode::NOT_FOUND)]
    {
        let Err(Error::Http(response)) = connect(&server, path, "").await else { panic!("not refused") };
        assert_eq!(response.status(), expected);
    }
}

#[tokio::test]
async fn a_message_over_the_limit_ends_the_connection() {
    let (server, _, mut events) = serve().await;
    let (mut client, _) = connect(&server, "/echo", "").await.unwrap();

    client.send(Message::text("x".repeat(2000))).await.unwrap();

    let Message::Close(Some(frame)) = receive(&mut client).await else { panic!("not closed") };
    assert_eq!(frame.code, CloseCode::Size);
    assert_eq!(next(&mut events).await, "dropped websocket");
}

#[tokio::test]
async fn fragments_over_the_limit_end_the_connection_with_1009() {
    let (server, _, mut events) = serve().await;
    let (mut client, _) = connect(&server, "/echo", "").await.unwrap();
    let frame = |text: &str, opcode, is_final| {
        Message::Frame(Frame::message(text.to_owned().into_bytes(), OpCode::Data(opcode), is_final))
    };

    // A message of many small fragments within the limit is one message.
    client.send(frame("a", Data::Text, false)).await.unwrap();
    for _ in 0..500 {
        client.send(frame("", Data::Continue, false)).await.unwrap();
        client.send(frame("b", Data::Continue, false)).await.unwrap();
    }
    client.send(frame("c", Data::Continue, true)).await.unwrap();
    assert_eq!(receive(&mut client).await, Message::text(format!("a{}c", "b".repeat(500))));
    client.send(frame("a", Data::Text, false)).await.unwrap();
    for _ in 0..20 {
        client.send(frame(&"b".repeat(60), Data::Continue, false)).await.unwrap();
    }

    let Message::Close(Some(closed)) = receive(&mut client).await else { panic!("not closed") };
    assert_eq!(closed.code, CloseCode::Size);
    assert_eq!(next(&mut events).await, "dropped websocket");
}

#[tokio::test]
async fn frames_that_break_the_protocol_end_the_connection_with_their_codes() {
    let frame = |text: &[u8], opcode, is_final| {
        Message::Frame(Frame::message(text.to_vec(), OpCode::Data(opcode), is_final))
    };
    for (wrong, code) in [
        (frame(b"a", Data::Continue, true), CloseCode::Protocol),
        (frame(&[0xff, 0xfe], Data::Text, true), CloseCode::Invalid),
    ] {
        let (server, _, mut events) = serve().await;
        let (mut client, _) = connect(&server, "/echo", "").await.unwrap();
        client.send(wrong).await.unwrap();

        let Message::Close(Some(closed)) = receive(&mut client).await else { panic!("not closed") };
        assert_eq!(closed.code, code);
        assert_eq!(next(&mut events).await, "dropped websocket");
    }
}

#[tokio::test]
async fn a_vanished_client_ends_the_applications_stream() {
    let (server, _, mut events) = serve().await;
    let (client, _) = connect(&server, "/echo", "").await.unwrap();

    drop(client);

    assert_eq!(next(&mut events).await, "dropped websocket");
}

#[tokio::test]
async fn a_shutdown_closes_connections_with_going_away() {
    let (server, _, mut events) = serve_with(ServerConfig { drain: SOON, ..config() }, limits()).await;
    let (mut client, _) = connect(&server, "/echo", "").await.unwrap();

    let shutdown = tokio::spawn(server.shutdown());
    let Message::Close(Some(frame)) = receive(&mut client).await else { panic!("not closed") };

    assert_eq!(frame.code, CloseCode::Away);
    tokio::time::timeout(PATIENCE, shutdown).await.unwrap().unwrap();
    assert_eq!(next(&mut events).await, "dropped websocket");
}
