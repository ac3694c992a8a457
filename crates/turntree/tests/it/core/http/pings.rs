//! Pings of HTTP/2 connections, against a server that speaks its frames. RFC 9113 §6.7

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::sleep;
use turntree::core::http::Http2;

use super::*;

const INTERVAL: Duration = Duration::from_millis(200);
const PREFACE: usize = 24;

const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const ACK: u8 = 1;
const END_STREAM_AND_HEADERS: u8 = 5;
/// `:status: 200` of the static table of HPACK.
const STATUS_OK: &[u8] = &[0x88];

/// Answers each request after a delay, and pings if it is alive.
#[derive(Clone)]
struct Http2Server {
    delay: Duration,
    answers_pings: bool,
    pings: Arc<AtomicUsize>,
}

impl Http2Server {
    fn new(delay: Duration, answers_pings: bool) -> Self {
        Self { delay, answers_pings, pings: Arc::default() }
    }

    fn pings(&self) -> usize {
        self.pings.load(Ordering::SeqCst)
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
                    self.pings.fetch_add(1, Ordering::SeqCst);
                    if self.answers_pings {
                        let _ = writer.lock().await.write_all(&frame(PING, ACK, 0, &payload)).await;
                    }
                }
                HEADERS => {
                    let (delay, stream) = (self.delay, u32::from_be_bytes(stream));
                    tokio::spawn(async move {
                        sleep(delay).await;
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
    let server = Http2Server::new(Duration::from_secs(60), false);
    let url = server.start().await;
    let started = Instant::now();

    let error = get(&client(), &url).await.unwrap_err();

    assert!(matches!(error, HttpError::Network { .. }), "{error}");
    assert!(error.is_retryable());
    assert_eq!(server.pings(), 1);
    assert!(started.elapsed() < Duration::from_secs(20));
}

#[tokio::test]
async fn a_slow_server_that_answers_pings_is_waited_for() {
    let server = Http2Server::new(INTERVAL * 6, true);
    let url = server.start().await;

    let response = get(&client(), &url).await.unwrap();

    assert_eq!(response.status, 200);
    assert!(server.pings() >= 2, "{}", server.pings());
}

#[tokio::test]
async fn a_connection_without_requests_is_not_pinged() {
    let server = Http2Server::new(Duration::ZERO, true);
    let url = server.start().await;
    let client = client();
    get(&client, &url).await.unwrap();
    let pings = server.pings();

    sleep(INTERVAL * 6).await;

    assert_eq!(server.pings(), pings);
    assert_eq!(get(&client, &url).await.unwrap().status, 200);
}
