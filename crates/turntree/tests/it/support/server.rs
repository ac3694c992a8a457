//! A scripted HTTP/1.1 server on a raw loopback socket, with faults.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

/// How long a test waits for what must happen.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// Lets the other tasks of the runtime do what they can do now. A number of turns and not a time: on a machine that stalls
/// they may get no turn in any time. The runtime must have one thread.
pub(crate) async fn settle() {
    for _ in 0..50 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// One step of the response to a request.
#[derive(Debug, Clone)]
pub(crate) enum Step {
    /// Write these bytes.
    Send(Vec<u8>),
    /// Write these bytes one by one, each in a packet of its own.
    Drip(Vec<u8>),
    /// Wait for this duration.
    Wait(Duration),
    /// Write these bytes repeatedly until the client disconnects.
    Flood(Vec<u8>),
    /// Wait until the client disconnects.
    AwaitHangUp,
    /// Close with RST.
    Reset,
    /// Close with FIN.
    Close,
}

/// A received request.
#[derive(Debug, Clone)]
pub(crate) struct Recorded {
    /// Request line and headers.
    pub(crate) head: String,
    /// The body.
    pub(crate) body: Vec<u8>,
    /// The number of its connection, from 1.
    pub(crate) connection: usize,
}

/// The server; it stops with the runtime of its test.
#[derive(Debug)]
pub(crate) struct Server {
    address: String,
    requests: Arc<Mutex<Vec<Recorded>>>,
    hang_ups: mpsc::UnboundedReceiver<()>,
}

type Scripts = Arc<Mutex<VecDeque<Vec<Step>>>>;

struct Connection {
    number: usize,
    scripts: Scripts,
    requests: Arc<Mutex<Vec<Recorded>>>,
    hang_ups: mpsc::UnboundedSender<()>,
}

impl Server {
    /// Starts a server that plays one script for each request, in order, over any number of connections.
    pub(crate) async fn start(scripts: impl IntoIterator<Item = Vec<Step>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let scripts: Scripts = Arc::new(Mutex::new(scripts.into_iter().collect()));
        let requests = Arc::new(Mutex::new(Vec::new()));
        let (sender, hang_ups) = mpsc::unbounded_channel();
        let recorded = Arc::clone(&requests);
        tokio::spawn(async move {
            for number in 1.. {
                let (socket, _) = listener.accept().await.unwrap();
                socket.set_nodelay(true).unwrap();
                let connection = Connection {
                    number,
                    scripts: Arc::clone(&scripts),
                    requests: Arc::clone(&recorded),
                    hang_ups: sender.clone(),
                };
                tokio::spawn(connection.serve(socket));
            }
        });
        Self { address, requests, hang_ups }
    }

    /// A URL on this server.
    pub(crate) fn url(&self, path: &str) -> String {
        format!("{}{path}", self.address)
    }

    /// The requests so far.
    pub(crate) fn requests(&self) -> Vec<Recorded> {
        self.requests.lock().unwrap().clone()
    }

    /// Waits until the first request is here.
    pub(crate) async fn requested(&self) {
        while self.requests().is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Waits until a client disconnects during `AwaitHangUp` or `Flood`.
    pub(crate) async fn hung_up(&mut self) {
        let waited = tokio::time::timeout(PATIENCE, self.hang_ups.recv()).await;
        waited.expect("the client keeps its connection open").unwrap();
    }
}

impl Connection {
    async fn serve(self, mut socket: TcpStream) {
        while let Some(request) = read_request(&mut socket, self.number).await {
            self.requests.lock().unwrap().push(request);
            let script = self.scripts.lock().unwrap().pop_front().expect("a request without a script");
            for step in script {
                match step {
                    Step::Send(bytes) => _ = socket.write_all(&bytes).await,
                    Step::Drip(bytes) => drip(&mut socket, &bytes).await,
                    Step::Wait(duration) => tokio::time::sleep(duration).await,
                    Step::Flood(bytes) => {
                        while socket.write_all(&bytes).await.is_ok() {}
                        let _ = self.hang_ups.send(());
                    }
                    Step::AwaitHangUp => {
                        let mut byte = [0];
                        while socket.read(&mut byte).await.is_ok_and(|count| count > 0) {}
                        let _ = self.hang_ups.send(());
                    }
                    Step::Reset => {
                        socket.set_zero_linger().unwrap();
                        return;
                    }
                    Step::Close => return,
                }
            }
        }
    }
}

async fn drip(socket: &mut TcpStream, bytes: &[u8]) {
    for byte in bytes {
        socket.write_all(&[*byte]).await.unwrap();
        tokio::task::yield_now().await;
    }
}

async fn read_request(socket: &mut TcpStream, connection: usize) -> Option<Recorded> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        if socket.read(&mut byte).await.ok()? == 0 {
            return None;
        }
        head.push(byte[0]);
    }
    let head = String::from_utf8(head).unwrap();
    let length = head
        .lines()
        .find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length:").map(str::to_owned))
        .map_or(0, |length| length.trim().parse().unwrap());
    let mut body = vec![0; length];
    socket.read_exact(&mut body).await.ok()?;
    Some(Recorded { head, body, connection })
}

/// A complete response with `Content-Length`.
pub(crate) fn response(status: &str, headers: &[(&str, &str)], body: &str) -> Vec<Step> {
    let headers =
        headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect::<Vec<_>>().concat();
    let length = body.len();
    vec![send(format!("HTTP/1.1 {status}\r\n{headers}Content-Length: {length}\r\n\r\n{body}"))]
}

/// A response with status 200 and a JSON body.
pub(crate) fn json(body: &str) -> Vec<Step> {
    response("200 OK", &[("Content-Type", "application/json"), ("x-request-id", "req_7")], body)
}

/// The head of a chunked event stream.
pub(crate) fn event_stream() -> Step {
    send("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
}

/// One chunk of a chunked body.
pub(crate) fn chunk(text: &str) -> Step {
    send(format!("{:x}\r\n{text}\r\n", text.len()))
}

/// The end of a chunked body.
pub(crate) fn last_chunk() -> Step {
    send("0\r\n\r\n")
}

/// A step that sends these bytes.
pub(crate) fn send(text: impl Into<String>) -> Step {
    Step::Send(text.into().into_bytes())
}
