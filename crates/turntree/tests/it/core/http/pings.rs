//! Pings of HTTP/2 connections, against a server that speaks its frames. RFC 9113 §6.7

use std::sync::Arc;
use std::time::Instant;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::sleep;
use turntree::core::http::Http2;

use super::*;

/// Long enough for an answer to a ping on a machine that stalls.
const INTERVAL: Duration = Duration::from_secs(2);
const PREFACE: usize = 24;

const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const ACK: u8 = 1;
const END_STREAM_AND_HEADERS: u8 = 5;
/// `:status: 200` of the static table of HPACK.
const STATUS_OK: &[u8] = &[0x88];

/// Answers requests after a number of pings, and pings if it is alive.
#[derive(Clone)]
struct Http2Server {
    answers_after: usize,
    answers_pings: bool,
    pings: watch::Sender<usize>,
}

impl Http2Server {
    fn new(answers_after: usize, answers_pings: bool) -> Self {
        Self { answers_after, answers_pings, pings: watch::Sender::new(0) }
    }

    fn pings(&self) -> usize {
        *self.pings.borrow()
    }

    /// Waits for this number of pings.
    async fn pinged(&self, count: usize) {
        self.pings.subscribe().wait_for(|pings| *pings >= count).await.unwrap();
    }

    /// Starts, and returns the URL.
    async fn start(&self) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/v1", listener.local_addr().unwrap());
        let server = self.clone();
        tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                tokio::spawn(server.clone().serve(socket));
            }
        });
        url
    }

    async fn serve(self, mut socket: TcpStream) {
        let mut preface = [0; PREFACE];
        socket.read_exact(&mut preface).await.unwrap();
        socket.write_all(&frame(SETTINGS, 0, 0, &[])).await.unwrap();
        let (mut reader, writer) = socket.into_split();
        let writer = Arc::new(tokio::sync::Mutex::new(writer));
        let mut head = [0; 9];
        while reader.read_exact(&mut head).await.is_ok() {
            let [a, b, c, kind, flags, stream @ ..] = head;
            let mut payload = vec![0; u32::from_be_bytes([0, a, b, c]) as usize];
            reader.read_exact(&mut payload).await.unwrap();
            let writer = Arc::clone(&writer);
            match kind {
                PING if flags & ACK == 0 => {
                    self.pings.send_modify(|pings| *pings += 1);
                    if self.answers_pings {
                        let _ = writer.lock().await.write_all(&frame(PING, ACK, 0, &payload)).await;
                    }
                }
                HEADERS => {
                    let (server, stream) = (self.clone(), u32::from_be_bytes(stream));
                    tokio::spawn(async move {
                        server.pinged(server.answers_after).await;
                        let answer = frame(HEADERS, END_STREAM_AND_HEADERS, stream, STATUS_OK);
                        let _ = writer.lock().await.write_all(&answer).await;
                    });
                }
                _ => {}
            }
        }
    }
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let [_, length @ ..] = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

fn client() -> HttpClient {
    let config = HttpConfig {
        http2: Http2::PriorKnowledge,
        ping_interval: INTERVAL,
        proxy: Proxy::Direct,
        ..HttpConfig::default()
    };
    HttpClient::isolated(&config).unwrap()
}

async fn get(client: &HttpClient, url: &str) -> Result<HttpResponse, HttpError> {
    let request = HttpRequest::post(url, "").response_type(ResponseType::Any);
    client.send(request, &RetryPolicy::default(), &CancellationToken::new()).await
}

#[tokio::test]
async fn a_server_that_does_not_answer_pings_fails_the_request() {
    let server = Http2Server::new(usize::MAX, false);
    let url = server.start().await;
    let started = Instant::now();

    let error = get(&client(), &url).await.unwrap_err();

    assert!(matches!(error, HttpError::Network { .. }), "{error}");
    assert!(error.is_retryable());
    assert!(started.elapsed() < PATIENCE);
    tokio::time::timeout(PATIENCE, server.pinged(1)).await.expect("no ping");
    assert_eq!(server.pings(), 1);
}

#[tokio::test]
async fn a_slow_server_that_answers_pings_is_waited_for() {
    let server = Http2Server::new(2, true);
    let url = server.start().await;

    let response = tokio::time::timeout(PATIENCE, get(&client(), &url)).await.expect("no ping").unwrap();

    assert_eq!(response.status, 200);
}

#[tokio::test]
async fn a_connection_without_requests_is_not_pinged() {
    let server = Http2Server::new(0, true);
    let url = server.start().await;
    let client = client();
    get(&client, &url).await.unwrap();
    let pings = server.pings();

    sleep(INTERVAL * 3).await;

    assert_eq!(server.pings(), pings);
    assert_eq!(get(&client, &url).await.unwrap().status, 200);
}
