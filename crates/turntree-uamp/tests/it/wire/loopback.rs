//! Load and faults over real sockets of the loopback interface.
//!
//! `TURNTREE_UAMP_LOAD=full` runs the sizes of the target and prints the figures:
//! `TURNTREE_UAMP_LOAD=full cargo test --release -p turntree-uamp --test it loopback -- --nocapture --test-threads 1`

use std::fs;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::{BoxFuture, join_all};
use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::{WebSocketStream, client_async};
use turntree_agents::session::KeyValueStore;
use turntree_agents::{Agent, AgentOptions};
use turntree_core::ids::RandomIds;
use turntree_core::message::StreamEvent;
use turntree_core::persistence::{PersistenceAdapter, PersistenceError};
use turntree_core::time::SystemClock;
use turntree_server::{Server, ServerConfig, Service as HttpService};
use turntree_uamp::agent::{Conversations, RustHost, ServedAgent};
use turntree_uamp::wires::uamp::{Uamp, UampLimits};
use turntree_upp::providers::custom::{CustomModel, CustomResponse, EventSender, StreamClosed};
use turntree_upp::{Capabilities, ModelRequest};

use super::{PATIENCE, eventually, service};
use crate::service::site_of;

type Socket = WebSocketStream<TcpStream>;

/// True if the tests run at full size.
fn is_full() -> bool {
    std::env::var("TURNTREE_UAMP_LOAD").is_ok_and(|size| size == "full")
}

/// The environment variable of a test that runs in a process of its own.
const ALONE: &str = "TURNTREE_UAMP_ALONE";

/// Runs a test of this module in a process of its own, whose memory and files no other test changes. False in that process.
fn runs_in_another_process(test: &str) -> bool {
    if std::env::var_os(ALONE).is_some() {
        return false;
    }
    let (_, module) = module_path!().split_once("::").unwrap();
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", &format!("{module}::{test}"), "--nocapture"])
        .env(ALONE, "1")
        .output()
        .unwrap();
    let printed = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && printed.contains("1 passed"), "{printed}\n{errors}");
    print!("{printed}");
    true
}

/// How long one step may take: a full run in a debug build is slow.
fn patience() -> Duration {
    if is_full() { PATIENCE * 30 } else { PATIENCE }
}

struct Hosted {
    server: Server,
    wire: Uamp,
}

/// A model that streams words one at a time, no faster than they are read: a test of memory measures no script.
fn model(words: usize) -> CustomModel {
    let stream = move |_request: ModelRequest, events: EventSender| async move {
        for _ in 0..words {
            match events.send(StreamEvent::text(0, "word ")) {
                Err(StreamClosed) => break,
                Ok(true) => {}
                Ok(false) => {
                    let (has_space, waiting) = oneshot::channel();
                    events.on_space(Box::new(move || {
                        let _ = has_space.send(());
                    }));
                    let _ = waiting.await;
                }
            }
        }
        Ok(CustomResponse::default())
    };
    CustomModel::new("test", "words", Capabilities::TEXT)
        .with_stream(Arc::new(move |request, events| Box::pin(stream(request, events))))
}

/// Stores nothing: what a server keeps of conversations is not measured.
#[derive(Debug)]
struct Discards;

impl PersistenceAdapter for Discards {
    fn save(&self, _key: String, _data: String) -> BoxFuture<'_, Result<(), PersistenceError>> {
        Box::pin(async { Ok(()) })
    }

    fn load(&self, _key: String) -> BoxFuture<'_, Result<Option<String>, PersistenceError>> {
        Box::pin(async { Ok(None) })
    }

    fn delete(&self, _key: String) -> BoxFuture<'_, Result<(), PersistenceError>> {
        Box::pin(async { Ok(()) })
    }
}

/// A server of an agent that answers with this many words.
async fn host(words: usize, limits: UampLimits) -> Hosted {
    let options = AgentOptions {
        model: Some(Arc::new(model(words))),
        name: Some("a0".into()),
        ..AgentOptions::default()
    };
    let agent = ServedAgent::new(Agent::new(options, &RandomIds), Arc::new(RustHost));
    let mut site = site_of([agent]);
    let store = Arc::new(KeyValueStore::new(Arc::new(Discards)));
    site.conversations = Conversations::new(store, Arc::new(RandomIds), Arc::new(SystemClock));
    site.options.resume_window = Duration::from_millis(200);
    site.ids = Arc::new(RandomIds);
    let hosted = service(site, limits);
    let config = ServerConfig::default();
    let server = Server::start(HttpService::new(hosted.service), config).await.unwrap();
    Hosted { server, wire: hosted.wire }
}

impl Hosted {
    async fn connect(&self) -> Socket {
        let stream = TcpStream::connect(self.server.address()).await.unwrap();
        stream.set_nodelay(true).unwrap();
        client_async(format!("ws://{}/ws", self.server.address()), stream).await.unwrap().0
    }

    /// Waits until no session is left, and ends the server.
    async fn end(self) {
        let wire = self.wire.clone();
        eventually(|| wire.session_count() == 0).await;
        tokio::time::timeout(Duration::from_secs(20), self.server.shutdown()).await.unwrap();
    }
}

async fn send(socket: &mut Socket, event: Value) {
    socket.send(Message::text(event.to_string())).await.unwrap();
}

/// The next event; `None` at the end of the connection.
async fn next(socket: &mut Socket) -> Option<Value> {
    loop {
        match tokio::time::timeout(patience(), socket.next()).await.expect("no event")? {
            Ok(Message::Text(text)) => return Some(serde_json::from_str(text.as_str()).unwrap()),
            Ok(Message::Close(_)) | Err(_) => return None,
            Ok(_) => {}
        }
    }
}

async fn create(socket: &mut Socket) -> String {
    send(socket, json!({"type": "session.create"})).await;
    let created = next(socket).await.unwrap();
    assert_eq!(created["type"], "session.created", "{created}");
    assert_eq!(next(socket).await.unwrap()["type"], "capabilities");
    created["session_id"].as_str().unwrap().to_owned()
}

async fn ask(socket: &mut Socket, session: &str) {
    send(socket, json!({"type": "input.text", "session_id": session, "text": "write"})).await;
    send(socket, json!({"type": "response.create", "session_id": session})).await;
}

/// One response in each of some sessions of one connection. Returns the number of deltas.
async fn converse(hosted: &Hosted, sessions: usize, words: usize) -> usize {
    let mut socket = hosted.connect().await;
    let mut texts = std::collections::HashMap::new();
    for _ in 0..sessions {
        texts.insert(create(&mut socket).await, (String::new(), 0_u64));
    }
    let ids: Vec<String> = texts.keys().cloned().collect();
    for id in &ids {
        ask(&mut socket, id).await;
    }
    let (mut open, mut deltas) = (sessions, 0);
    while open > 0 {
        let event = next(&mut socket).await.expect("the connection was lost");
        let (text, seq) = texts.get_mut(event["session_id"].as_str().unwrap()).unwrap();
        let found = event["seq"].as_u64().unwrap();
        assert!(*seq == 0 || found == *seq + 1, "an event is lost or repeated");
        *seq = found;
        if let Some(piece) = event["delta"]["text"].as_str() {
            text.push_str(piece);
            deltas += 1;
        }
        open -= usize::from(event["type"] == "response.done");
    }
    let expected = "word ".repeat(words);
    assert!(texts.values().all(|(text, _)| *text == expected), "a delta is lost");
    deltas
}

/// The CPU time of this process in seconds.
fn cpu() -> f64 {
    let stat = fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    let ticks: u32 = fields[11].parse::<u32>().unwrap() + fields[12].parse::<u32>().unwrap();
    f64::from(ticks) / 100.0
}

/// The resident memory of this process in KiB.
fn memory() -> usize {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

fn open_files() -> usize {
    fs::read_dir("/proc/self/fd").unwrap().count()
}

fn per_second(count: usize, seconds: f64) -> f64 {
    f64::from(u32::try_from(count).unwrap()) / seconds
}

#[tokio::test]
async fn many_sessions_on_many_connections_lose_nothing() {
    let (sockets, sessions, words) = if is_full() { (200, 10, 500) } else { (10, 10, 40) };
    let hosted = host(words, UampLimits::default()).await;
    let (started, before) = (Instant::now(), cpu());
    let all = (0..sockets).map(|_| converse(&hosted, sessions, words));
    let deltas: usize = join_all(all).await.into_iter().sum();
    let (seconds, used) = (started.elapsed().as_secs_f64(), cpu() - before);
    if is_full() {
        let tokens = sockets * sessions * words;
        println!(
            "{} sessions on {sockets} sockets: {tokens} tokens in {deltas} deltas, {seconds:.2} s, {used:.2} s of CPU \
             with the clients: {:.0} deltas and {:.0} tokens for each second of CPU",
            sockets * sessions,
            per_second(deltas, used),
            per_second(tokens, used),
        );
    }
    hosted.end().await;
}

#[tokio::test]
async fn readers_that_do_not_read_cost_little_memory() {
    if runs_in_another_process("readers_that_do_not_read_cost_little_memory") {
        return;
    }
    let readers = if is_full() { 200 } else { 10 };
    let limits = UampLimits {
        slow_consumer: Duration::from_secs(if is_full() { 30 } else { 5 }),
        ..UampLimits::default()
    };
    // What the first answer of a process costs once belongs to no reader.
    let first = host(20_000, limits).await;
    assert!(converse(&first, 1, 20_000).await > 0);
    first.end().await;
    // Each answer is 5 MB as text, and more than 200 MB as events.
    let hosted = host(1_000_000, limits).await;
    let before = memory();
    let mut sockets = Vec::new();
    for _ in 0..readers {
        let mut socket = hosted.connect().await;
        let id = create(&mut socket).await;
        ask(&mut socket, &id).await;
        sockets.push(socket);
    }
    // A client that reads gets its whole answer meanwhile: then the others have what they can have.
    let quick = host(20_000, limits).await;
    assert!(converse(&quick, 1, 20_000).await > 0);
    quick.end().await;
    let grown = memory().saturating_sub(before) / readers;
    if is_full() {
        println!("{readers} readers that do not read: {grown} KiB each");
    }
    assert!(grown < 3 << 10, "{grown} KiB for each reader");
    drop(sockets);
    hosted.end().await;
}

#[tokio::test]
async fn connections_that_come_and_go_leave_nothing() {
    if runs_in_another_process("connections_that_come_and_go_leave_nothing") {
        return;
    }
    let rounds = if is_full() { 10_000 } else { 300 };
    let hosted = host(200, UampLimits::default()).await;
    let warm = rounds / 10;
    let mut before = (0, 0);
    for round in 0..rounds {
        let mut socket = hosted.connect().await;
        if round % 3 > 0 {
            let id = create(&mut socket).await;
            if round % 3 == 2 {
                ask(&mut socket, &id).await;
            }
        }
        // Aborted: without a closing handshake.
        socket.get_ref().set_zero_linger().unwrap();
        drop(socket);
        if round == warm {
            eventually(|| hosted.wire.session_count() == 0).await;
            before = (memory(), open_files());
        }
    }
    eventually(|| hosted.wire.session_count() == 0).await;
    eventually(|| open_files() <= before.1 + 8).await;
    let grown = memory().saturating_sub(before.0);
    if is_full() {
        println!("{rounds} connections that were aborted: {grown} KiB more, {} files open", open_files());
    }
    assert!(grown < 32 << 10, "{grown} KiB");
    hosted.end().await;
}

/// A masked frame of a client with this first byte.
fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![first];
    match payload.len() {
        length @ 0..=125 => bytes.push(0x80 | u8::try_from(length).unwrap()),
        length @ 126..=65_535 => {
            bytes.push(0x80 | 0x7e);
            bytes.extend(u16::try_from(length).unwrap().to_be_bytes());
        }
        length => {
            bytes.push(0x80 | 0x7f);
            bytes.extend(u64::try_from(length).unwrap().to_be_bytes());
        }
    }
    // A mask of zeros leaves the payload as it is.
    bytes.extend([0; 4]);
    bytes.extend(payload);
    bytes
}

const TEXT: u8 = 0x81;

#[tokio::test]
async fn damaged_frames_harm_no_other_connection() {
    let limits = UampLimits::default();
    let hosted = host(20, limits).await;
    let deep =
        format!(r#"{{"type":"input.text","text":"x","context":{}1{}}}"#, "[".repeat(5000), "]".repeat(5000));
    let long = format!(r#"{{"type":"input.text","text":"{}"}}"#, "x".repeat(limits.event.bytes + 1));
    let create = json!({"type": "session.create", "agent": "a0"}).to_string();
    let whole = frame(TEXT, create.as_bytes());
    let attacks: Vec<(&str, Vec<u8>)> = vec![
        ("half a frame", whole[..whole.len() / 2].to_vec()),
        ("a frame without its mask", [&[TEXT, 4], b"oops".as_slice()].concat()),
        ("an unknown opcode", frame(0x83, b"{}")),
        ("text that is not UTF-8", frame(TEXT, b"{\"type\":\"ping\xff\"}")),
        (
            "a length above all limits",
            vec![TEXT, 0xff, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0],
        ),
        ("an event that is too long", frame(TEXT, long.as_bytes())),
        ("JSON that is too deep", frame(TEXT, deep.as_bytes())),
        ("a fragment without its rest", frame(0x01, b"{\"type\":")),
        ("a control frame that is too long", frame(0x89, &[0; 126])),
    ];
    for (name, bytes) in attacks {
        let mut socket = hosted.connect().await;
        // The server may close the connection while the frame is written.
        let _ = socket.get_mut().write_all(&bytes).await;
        drop(socket);
        assert!(converse(&hosted, 1, 20).await > 0, "{name}");
    }
    hosted.end().await;
}

#[tokio::test]
async fn events_that_are_not_valid_are_answered_and_the_connection_goes_on() {
    let limits = UampLimits::default();
    let hosted = host(20, limits).await;
    let mut socket = hosted.connect().await;
    let deep =
        format!(r#"{{"type":"input.text","text":"x","context":{}1{}}}"#, "[".repeat(5000), "]".repeat(5000));
    for (text, code) in [(deep.as_str(), "invalid_json"), ("{", "invalid_json"), ("[1]", "invalid_event")] {
        socket.send(Message::text(text)).await.unwrap();
        assert_eq!(next(&mut socket).await.unwrap()["error"]["code"], code);
    }
    socket.send(Message::binary(b"{\"type\":\"\xff\"}".to_vec())).await.unwrap();
    assert_eq!(next(&mut socket).await.unwrap()["error"]["code"], "invalid_json");
    let id = create(&mut socket).await;
    ask(&mut socket, &id).await;
    while next(&mut socket).await.unwrap()["type"] != "response.done" {}
    drop(socket);
    hosted.end().await;
}

#[tokio::test]
async fn a_client_that_writes_one_byte_at_a_time_is_served() {
    let hosted = host(20, UampLimits::default()).await;
    let mut socket = hosted.connect().await;
    let events = [
        json!({"type": "session.create", "agent": "a0"}),
        json!({"type": "input.text", "text": "hi"}),
        json!({"type": "response.create"}),
    ];
    for event in events {
        for byte in frame(TEXT, event.to_string().as_bytes()) {
            socket.get_mut().write_all(&[byte]).await.unwrap();
            socket.get_mut().flush().await.unwrap();
        }
    }
    while next(&mut socket).await.unwrap()["type"] != "response.done" {}
    drop(socket);
    hosted.end().await;
}

#[tokio::test]
async fn clients_that_disconnect_in_the_middle_of_a_response_free_their_sessions() {
    let clients = if is_full() { 500 } else { 30 };
    let hosted = host(5_000, UampLimits::default()).await;
    for _ in 0..clients {
        let mut socket = hosted.connect().await;
        let id = create(&mut socket).await;
        ask(&mut socket, &id).await;
        while next(&mut socket).await.unwrap()["type"] != "response.delta" {}
    }
    hosted.end().await;
}
