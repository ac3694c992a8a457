//! HTTP/2 with prior knowledge.

use std::time::Duration;

use h2::client::SendRequest;
use http::{Request, StatusCode, Version};
use tokio::net::TcpStream;
use turntree_server::{Server, ServerConfig, Service};

use crate::application::{Behaviours, PATIENCE, http_client, next, serve};

/// A client that answers pings, and reads only what it is told to; and the end of its connection.
async fn client_of(server: &Server) -> (SendRequest<bytes::Bytes>, tokio::task::JoinHandle<()>) {
    let stream = TcpStream::connect(server.address()).await.unwrap();
    let (requests, connection) = h2::client::handshake(stream).await.unwrap();
    // How the server ends the connection does not matter.
    let connection = tokio::spawn(async move { drop(connection.await) });
    (requests.ready().await.unwrap(), connection)
}

fn get(server: &Server, path: &str) -> Request<()> {
    Request::get(format!("{}{path}", server.url())).body(()).unwrap()
}

#[tokio::test]
async fn a_client_that_does_not_read_a_stream_is_disconnected_although_it_answers_pings() {
    let (behaviours, mut events) = Behaviours::new();
    // Long enough for an answer to a ping on a machine that stalls.
    let config = ServerConfig {
        write_timeout: Duration::from_secs(5),
        ping_interval: Duration::from_secs(2),
        ..ServerConfig::default()
    };
    let server = Server::start(Service::new(behaviours), config).await.unwrap();
    let (mut requests, connection) = client_of(&server).await;

    let (response, _) = requests.send_request(get(&server, "/flood"), true).unwrap();
    // The window of the stream is never opened again.
    let unread = response.await.unwrap();

    assert_eq!([next(&mut events).await, next(&mut events).await], ["/flood", "dropped flood"]);
    tokio::time::timeout(PATIENCE, connection).await.expect("the connection is open").unwrap();
    drop(unread);
}

#[tokio::test]
async fn a_stream_that_waits_for_the_application_is_not_stalled() {
    let (behaviours, mut events) = Behaviours::new();
    let finish = std::sync::Arc::clone(&behaviours.finish);
    let config = ServerConfig { write_timeout: Duration::from_millis(500), ..ServerConfig::default() };
    let server = Server::start(Service::new(behaviours), config).await.unwrap();
    let (mut requests, _connection) = client_of(&server).await;

    // A stream that is open and quiet: each comment is read as it comes.
    let (quiet, _) = requests.send_request(get(&server, "/events"), true).unwrap();
    let mut quiet = quiet.await.unwrap().into_body();
    assert_eq!(next(&mut events).await, "/events");
    for _ in 0..50 {
        let data = tokio::time::timeout(PATIENCE, quiet.data()).await.unwrap().unwrap().unwrap();
        quiet.flow_control().release_capacity(data.len()).unwrap();
    }
    let (response, _) = requests.send_request(get(&server, "/finish"), true).unwrap();
    assert_eq!(next(&mut events).await, "/finish");
    finish.notify_one();

    assert_eq!(response.await.unwrap().status(), StatusCode::OK);
}

#[tokio::test]
async fn a_flood_of_reset_streams_leaves_no_request_and_the_server_answers_others() {
    let (server, _, mut events) = serve().await;
    let (mut requests, connection) = client_of(&server).await;

    for _ in 0..3000 {
        match requests.send_request(get(&server, "/hang"), true) {
            Ok((_, mut stream)) => stream.send_reset(h2::Reason::CANCEL),
            // The server has ended the connection.
            Err(_) => break,
        }
        tokio::task::yield_now().await;
        requests = match requests.ready().await {
            Ok(ready) => ready,
            Err(_) => break,
        };
    }
    connection.abort();

    let answer = http_client(Version::HTTP_2).get(format!("{}/who", server.url())).send().await.unwrap();
    assert_eq!(answer.status(), StatusCode::OK);
    // Every request that has begun is dropped.
    let mut open: i64 = 0;
    loop {
        match &*next(&mut events).await {
            "/hang" => open += 1,
            "dropped hang" => open -= 1,
            "/who" => break,
            other => panic!("{other}"),
        }
    }
    while open > 0 {
        match &*next(&mut events).await {
            "dropped hang" => open -= 1,
            "/hang" => open += 1,
            other => panic!("{other}"),
        }
    }
}

#[tokio::test]
async fn requests_share_one_connection() {
    let (server, behaviours, mut events) = serve().await;
    let client = http_client(Version::HTTP_2);

    let waiting = tokio::spawn(client.get(format!("{}/finish", server.url())).send());
    assert_eq!(next(&mut events).await, "/finish");
    let echo = client.post(format!("{}/echo", server.url())).body("hello").send().await.unwrap();
    assert_eq!((echo.version(), echo.status()), (Version::HTTP_2, StatusCode::OK));
    assert_eq!(echo.text().await.unwrap(), "hello");
    behaviours.finish.notify_one();

    assert_eq!(waiting.await.unwrap().unwrap().text().await.unwrap(), "finished");
}

#[tokio::test]
async fn a_reset_stream_drops_its_request_only() {
    let (server, _, mut events) = serve().await;
    let client = http_client(Version::HTTP_2);

    let hanging = tokio::spawn(client.get(format!("{}/hang", server.url())).send());
    assert_eq!(next(&mut events).await, "/hang");
    hanging.abort();
    assert_eq!(next(&mut events).await, "dropped hang");

    let who = client.get(format!("{}/who", server.url())).send().await.unwrap();
    assert_eq!(who.status(), StatusCode::OK);
}

#[tokio::test]
async fn a_body_over_the_limit_is_refused() {
    let (server, ..) = serve().await;

    let answer = http_client(Version::HTTP_2)
        .post(format!("{}/echo", server.url()))
        .body("x".repeat(1025))
        .send()
        .await
        .unwrap();

    assert_eq!(answer.status(), StatusCode::PAYLOAD_TOO_LARGE);
}
