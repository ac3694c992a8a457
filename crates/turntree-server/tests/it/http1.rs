//! HTTP/1.1: limits, slow clients, disconnects.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::{StatusCode, Version};
use turntree_server::access_log::{AccessLog, AccessRecord};
use turntree_server::{Limits, Server, ServerConfig, Service};

use crate::application::{
    Behaviours, FLOOD_CHUNK, RawClient, SOON, config, http_client, limits, next, serve, serve_with,
};

#[tokio::test]
async fn several_requests_share_a_connection() {
    let (server, ..) = serve().await;
    let mut client = RawClient::connect(server.address()).await;

    for body in ["one", "two"] {
        client.send(&format!("POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\n{body}")).await;
        let answer = client.read_until(body).await;
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    }
}

#[tokio::test]
async fn a_body_over_the_limit_is_refused_before_it_is_read() {
    let (server, _, mut events) = serve().await;
    let mut client = RawClient::connect(server.address()).await;

    client.send("POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 1025\r\n\r\n").await;

    let answer = client.read_until("}}").await;
    assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
    assert!(answer.contains("\"code\":\"body_too_large\""), "{answer}");
    events.try_recv().expect_err("the application was called");
}

#[tokio::test]
async fn a_client_that_sends_a_refused_body_first_reads_the_answer_and_keeps_its_connection() {
    let (server, ..) = serve().await;
    let mut client = RawClient::connect(server.address()).await;

    // Larger than the buffers of both sockets: the client cannot send it unless the server reads it.
    let body = "x".repeat(16 * 1024 * 1024);
    let length = body.len();
    client.send(&format!("POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n{body}")).await;
    assert!(client.read_until("}}").await.starts_with("HTTP/1.1 413 "));

    client.send("POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\none").await;
    assert!(client.read_until("one").await.contains("HTTP/1.1 200 OK\r\n"));
}

#[tokio::test]
async fn a_client_that_waits_for_continue_is_not_told_to_send_a_refused_body() {
    let (server, ..) = serve().await;
    let mut client = RawClient::connect(server.address()).await;

    let head = "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 1025\r\nExpect: 100-continue\r\n\r\n";
    client.send(head).await;

    assert!(client.read_until("}}").await.starts_with("HTTP/1.1 413 "));
}

#[tokio::test]
async fn a_chunked_body_over_the_limit_is_refused_while_it_is_read() {
    let (server, _, mut events) = serve().await;
    let mut client = RawClient::connect(server.address()).await;

    let chunk = "x".repeat(1000);
    let head = "POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
    client.send(&format!("{head}3e8\r\n{chunk}\r\n3e8\r\n{chunk}\r\n")).await;

    assert!(client.read_until("}}").await.starts_with("HTTP/1.1 413 "));
    assert_eq!([next(&mut events).await, next(&mut events).await], ["/echo", "body_too_large"]);
}

#[tokio::test]
async fn a_slow_body_is_refused() {
    let (server, ..) = serve_with(config(), Limits { body_timeout: SOON, ..limits() }).await;
    let mut client = RawClient::connect(server.address()).await;

    client.send("POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nabc").await;

    assert!(client.read_until("}}").await.starts_with("HTTP/1.1 408 "));
}

#[tokio::test]
async fn a_connection_without_a_whole_head_is_closed() {
    let config = ServerConfig { header_timeout: SOON, ..config() };
    let (server, _, mut events) = serve_with(config, limits()).await;

    for beginning in ["", "PRI * HT", "PRI * HTTP/2.0\r\n", "GET / HTTP/1.1\r\nHost:"] {
        let mut client = RawClient::connect(server.address()).await;
        client.send(beginning).await;
        assert_eq!(client.read_to_end().await, "", "{beginning:?}");
    }
    events.try_recv().expect_err("the application was called");
}

#[tokio::test]
async fn a_head_over_the_limit_is_refused() {
    let (server, ..) = serve().await;
    let mut client = RawClient::connect(server.address()).await;

    client.send(&format!("GET /who HTTP/1.1\r\nHost: a\r\nX-Long: {}", "x".repeat(9000))).await;

    assert!(client.read_to_end().await.starts_with("HTTP/1.1 431 "));
}

#[tokio::test]
async fn bytes_that_are_not_http_are_refused() {
    let (server, ..) = serve().await;

    for bytes in ["\x16\x03\x01 hello\r\n\r\n", "GET\r\n\r\n", "GET / HTTP/9.9\r\n\r\n"] {
        let mut client = RawClient::connect(server.address()).await;
        client.send(bytes).await;
        assert!(client.read_to_end().await.starts_with("HTTP/1.1 400 "), "{bytes:?}");
    }
}

#[tokio::test]
async fn a_disconnect_drops_the_request() {
    let (server, _, mut events) = serve().await;
    let mut client = RawClient::connect(server.address()).await;

    client.send("GET /hang HTTP/1.1\r\nHost: a\r\n\r\n").await;
    assert_eq!(next(&mut events).await, "/hang");
    drop(client);

    assert_eq!(next(&mut events).await, "dropped hang");
}

#[tokio::test]
async fn a_disconnect_in_the_middle_of_a_body_is_an_error_of_the_body() {
    let (server, _, mut events) = serve().await;
    let mut client = RawClient::connect(server.address()).await;

    client.send("POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nabc").await;
    assert_eq!(next(&mut events).await, "/echo");
    drop(client);

    assert_eq!(next(&mut events).await, "incomplete_body");
}

#[tokio::test]
async fn a_quiet_event_stream_gets_comments_and_ends_with_its_client() {
    let (server, _, mut events) = serve().await;
    let mut client = RawClient::connect(server.address()).await;

    client.send("GET /events HTTP/1.1\r\nHost: a\r\n\r\n").await;
    let answer = client.read_until(": keep-alive\n\n").await;
    assert!(answer.contains("content-type: text/event-stream\r\n"), "{answer}");
    assert!(answer.contains("id: 1\ndata: first\n\n"), "{answer}");
    client.read_until(": keep-alive\n\n").await;
    drop(client);

    assert_eq!([next(&mut events).await, next(&mut events).await], ["/events", "dropped events"]);
}

#[tokio::test]
async fn a_body_is_made_only_as_fast_as_the_client_reads() {
    let (server, behaviours, mut events) = serve().await;
    let mut client = RawClient::connect(server.address()).await;

    client.send("GET /flood HTTP/1.1\r\nHost: a\r\n\r\n").await;
    client.read_until("xxxx").await;
    drop(client);

    assert_eq!([next(&mut events).await, next(&mut events).await], ["/flood", "dropped flood"]);
    // The sockets' buffers hold a few megabytes of the gigabyte.
    let made = behaviours.chunks.load(Ordering::Relaxed) * FLOOD_CHUNK;
    assert!(made < 64 * 1024 * 1024, "{made} bytes were made for a client that read 4096");
}

#[tokio::test]
async fn a_client_that_does_not_read_is_disconnected() {
    let (behaviours, mut events) = Behaviours::new();
    let config = ServerConfig { write_timeout: Duration::from_millis(100), ..config() };
    let server = Server::start(Service::new(behaviours), config).await.unwrap();
    let mut client = RawClient::connect(server.address()).await;

    client.send("GET /flood HTTP/1.1\r\nHost: a\r\n\r\n").await;

    assert_eq!([next(&mut events).await, next(&mut events).await], ["/flood", "dropped flood"]);
    drop(client);
}

#[tokio::test]
async fn health_endpoints_say_whether_the_application_is_ready() {
    let (server, ..) = serve().await;

    let live = reqwest_get(&server, "/healthz").await;
    let ready = reqwest_get(&server, "/readyz").await;

    assert_eq!(live, (StatusCode::OK, "{\"status\":\"ok\"}".to_owned()));
    assert_eq!(ready.0, StatusCode::SERVICE_UNAVAILABLE);
    assert!(ready.1.contains("the store cannot be reached"));
}

#[tokio::test]
async fn hundreds_of_aborted_requests_leave_no_connection() {
    let (server, _, mut events) = serve().await;

    for _ in 0..300 {
        let mut client = RawClient::connect(server.address()).await;
        client.send("GET /hang HTTP/1.1\r\nHost: a\r\n\r\n").await;
        assert_eq!(next(&mut events).await, "/hang");
        drop(client);
        assert_eq!(next(&mut events).await, "dropped hang");
    }

    // Without a leak the shutdown does not need its drain limit.
    tokio::time::timeout(crate::application::PATIENCE, server.shutdown()).await.unwrap();
}

#[derive(Debug, Clone, Default)]
struct Records(Arc<Mutex<Vec<AccessRecord>>>);

impl AccessLog for Records {
    fn is_enabled(&self) -> bool {
        true
    }

    fn write(&self, record: AccessRecord) {
        self.0.lock().unwrap().push(record);
    }
}

#[tokio::test]
async fn each_request_has_a_record_without_its_query_and_ids() {
    let (behaviours, _events) = Behaviours::new();
    let records = Records::default();
    let service = Service::new(behaviours).with_access_log(records.clone());
    let server = Server::start(service, config()).await.unwrap();

    reqwest_get(&server, "/who?token=secret").await;
    reqwest_get(&server, "/sessions/s-1/history").await;
    server.shutdown().await;

    let records = records.0.lock().unwrap();
    let lines: Vec<_> =
        records.iter().map(|record| (&*record.path, record.status.as_u16(), record.complete)).collect();
    assert_eq!(lines, [("/who", 200, true), ("/sessions/***/history", 404, true)]);
    assert_eq!(records[1].bytes, 9);
}

async fn reqwest_get(server: &Server, path: &str) -> (StatusCode, String) {
    let response = http_client(Version::HTTP_11).get(format!("{}{path}", server.url())).send().await.unwrap();
    (response.status(), response.text().await.unwrap())
}
