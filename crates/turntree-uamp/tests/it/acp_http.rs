//! ACP over Streamable HTTP, WebSocket and byte streams.

use std::io::{BufRead as _, BufReader, Read, Write};
use std::sync::Arc;

use futures_util::StreamExt as _;
use http::{HeaderName, HeaderValue, Method};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use turntree_core::json::RawJson;
use turntree_core::runtime;
use turntree_server::{Body, TestClient, TestResponse};
use turntree_uamp::agent::RustHost;
use turntree_uamp::wires::acp::stdio;
use turntree_upp::providers::scripted::Reply;

use crate::a2a::{agent_with, tool};
use crate::service::{served, service_of, site_of};

/// A connection over HTTP.
struct Http {
    client: TestClient,
    connection: String,
}

fn initialize() -> Value {
    json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": { "protocolVersion": 1 } })
}

impl Http {
    async fn new(client: TestClient) -> Self {
        let response = client.post("/acp", &initialize()).await.unwrap();
        assert_eq!(
            (response.status.as_u16(), &response.json()["result"]["protocolVersion"]),
            (200, &json!(1))
        );
        let connection = response.header("acp-connection-id").unwrap().to_owned();
        Self { client, connection }
    }

    fn request(&self, method: Method, session: Option<&str>, body: &Value) -> turntree_server::Request {
        let mut request = self.client.request(method, "/acp", Body::json(body));
        let headers = request.headers_mut();
        let mut set = |name: &'static str, value: &str| {
            headers.insert(HeaderName::from_static(name), HeaderValue::from_str(value).unwrap());
        };
        set("content-type", "application/json");
        set("acp-connection-id", &self.connection);
        if let Some(session) = session {
            set("acp-session-id", session);
        }
        request
    }

    async fn post(&self, session: Option<&str>, body: &Value) -> TestResponse {
        self.client.send(self.request(Method::POST, session, body)).await.unwrap()
    }

    async fn stream(&self, session: Option<&str>) -> Events {
        let response = self.client.stream(self.request(Method::GET, session, &Value::Null)).await;
        assert_eq!(response.status().as_u16(), 200);
        Events { body: Box::pin(response.into_body()), text: String::new() }
    }
}

/// Reads server-sent events.
struct Events {
    body: std::pin::Pin<Box<Body>>,
    text: String,
}

impl Events {
    /// The next message; `None` at the end.
    async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some((event, rest)) = self.text.split_once("\n\n") {
                let data = event.strip_prefix("data: ").map(|data| serde_json::from_str(data).unwrap());
                self.text = rest.to_owned();
                if data.is_some() {
                    return data;
                }
            } else {
                let chunk = self.body.next().await?.unwrap();
                self.text.push_str(std::str::from_utf8(&chunk).unwrap());
            }
        }
    }
}

fn call(id: u64, method: &str, params: &Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
}

#[tokio::test]
async fn messages_of_a_session_come_on_its_stream_and_a_deleted_connection_ends() {
    let http = Http::new(TestClient::new(service_of([served("a", &["hello you"])]))).await;
    let mut connection = http.stream(None).await;
    let new = call(1, "session/new", &json!({ "cwd": "/", "mcpServers": [] }));
    assert_eq!(http.post(None, &new).await.status.as_u16(), 202);
    let session = connection.next().await.unwrap()["result"]["sessionId"].as_str().unwrap().to_owned();

    let params = json!({ "sessionId": session, "prompt": [{ "type": "text", "text": "hi" }] });
    let prompt = call(2, "session/prompt", &params);
    assert_eq!(http.post(None, &prompt).await.status.as_u16(), 400, "the header is missing");
    assert_eq!(http.post(Some("other"), &prompt).await.status.as_u16(), 400);
    assert_eq!(http.post(Some(&session), &prompt).await.status.as_u16(), 202);
    // The messages wait until the stream is read.
    let mut events = http.stream(Some(&session)).await;
    let (mut text, answer) = (String::new(), 2);
    loop {
        let message = events.next().await.unwrap();
        if message["id"] == answer {
            assert_eq!(message["result"]["stopReason"], "end_turn");
            break;
        }
        text.push_str(message["params"]["update"]["content"]["text"].as_str().unwrap_or_default());
    }
    assert_eq!(text, "hello you");
    let second = http.client.stream(http.request(Method::GET, Some(&session), &Value::Null)).await;
    assert_eq!(second.status().as_u16(), 409, "a stream has one reader");

    let deleted = http.client.send(http.request(Method::DELETE, None, &Value::Null)).await.unwrap();
    assert_eq!(deleted.status.as_u16(), 202);
    assert_eq!((events.next().await, connection.next().await), (None, None));
    assert_eq!(http.post(None, &new).await.status.as_u16(), 404);
}

#[tokio::test]
async fn requests_that_are_not_of_a_connection_are_refused() {
    let client = TestClient::new(service_of([served("a", &[])]));
    let send = async |kind: &str, body: &str| {
        let mut request = client.request(Method::POST, "/acp", Body::full(body.to_owned()));
        request.headers_mut().insert("content-type", HeaderValue::from_str(kind).unwrap());
        let response = client.send(request).await.unwrap();
        (response.status.as_u16(), response.json()["error"]["code"].clone())
    };
    let new = call(1, "session/new", &json!({ "cwd": "/" })).to_string();
    assert_eq!(send("text/plain", &initialize().to_string()).await, (415, json!(-32_600)));
    assert_eq!(send("application/json", "{").await, (400, json!(-32_700)));
    assert_eq!(send("application/json", "[]").await, (400, json!(-32_600)));
    assert_eq!(send("application/json", &new).await, (400, json!(-32_600)));
    let no_version = call(1, "initialize", &json!({})).to_string();
    assert_eq!(send("application/json; charset=utf-8", &no_version).await, (400, json!(-32_602)));
    assert_eq!(client.get("/acp").await.unwrap().status.as_u16(), 400);
    let http = Http::new(client).await;
    assert_eq!(http.post(None, &initialize()).await.status.as_u16(), 400, "it is initialized");
}

#[tokio::test]
async fn an_agent_is_served_over_two_byte_streams_until_the_input_ends() {
    let site = Arc::new(site_of([served("a", &["hello you"])]));
    let agent = Arc::clone(site.agents.only().unwrap());
    let (mut to_agent, input, output, from_agent) = pipes();
    let served = tokio::spawn(stdio::serve(site, agent, input, output, CancellationToken::new()));
    let answers = runtime::spawn_blocking(move || {
        let mut lines = BufReader::new(from_agent).lines();
        let mut request = |message: &str| {
            to_agent.write_all(message.as_bytes()).unwrap();
            let line = lines.next().unwrap().unwrap();
            serde_json::from_str::<Value>(&line).unwrap()
        };
        let malformed = request("\n  \nnot json\n");
        let initialized = request(&format!("{}\r\n", initialize()));
        drop(to_agent);
        (malformed, initialized, lines.next().is_none())
    });

    let (malformed, initialized, is_over) = answers.await.unwrap();
    assert_eq!(malformed["error"]["code"], -32_700);
    assert_eq!((&initialized["id"], &initialized["result"]["protocolVersion"]), (&json!(0), &json!(1)));
    assert!(is_over, "the output ends");
    served.await.unwrap();
}

#[tokio::test]
async fn a_line_without_end_is_refused_and_the_next_one_is_read() {
    let site = Arc::new(site_of([served("a", &[])]));
    let agent = Arc::clone(site.agents.only().unwrap());
    let (mut to_agent, input, output, from_agent) = pipes();
    let served = tokio::spawn(stdio::serve(site, agent, input, output, CancellationToken::new()));
    let answers = runtime::spawn_blocking(move || {
        let long = vec![b'x'; 1 << 20];
        for _ in 0..18 {
            to_agent.write_all(&long).unwrap();
        }
        to_agent.write_all(format!("\n{}\n", initialize()).as_bytes()).unwrap();
        drop(to_agent);
        BufReader::new(from_agent).lines().map(|line| serde_json::from_str(&line.unwrap()).unwrap()).collect()
    });
    let answers: Vec<Value> = answers.await.unwrap();
    assert_eq!((answers.len(), &answers[0]["error"]["code"]), (2, &json!(-32_600)));
    assert_eq!(answers[1]["id"], 0);
    served.await.unwrap();
}

#[tokio::test]
async fn a_stopped_stream_waits_for_the_tools_of_its_prompts() {
    let (started, stop) = (Arc::new(tokio::sync::Notify::new()), CancellationToken::new());
    let hang = {
        let started = Arc::clone(&started);
        tool("hang").with_function(move |_| {
            started.notify_one();
            std::future::pending()
        })
    };
    let agent =
        agent_with(vec![Reply::tool_call("hang", RawJson::empty_object())], vec![hang], Arc::new(RustHost));
    let site = Arc::new(site_of([agent]));
    let agent = Arc::clone(site.agents.only().unwrap());
    let (mut to_agent, input, output, from_agent) = pipes();
    let served = tokio::spawn(stdio::serve(site, agent, input, output, stop.clone()));
    let client = runtime::spawn_blocking(move || {
        let mut lines = BufReader::new(from_agent).lines();
        let mut send = |message: &Value| to_agent.write_all(format!("{message}\n").as_bytes()).unwrap();
        send(&initialize());
        send(&call(1, "session/new", &json!({ "cwd": "/", "mcpServers": [] })));
        lines.next();
        let new: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
        let params = json!({
            "sessionId": new["result"]["sessionId"], "prompt": [{ "type": "text", "text": "wait" }],
        });
        send(&call(2, "session/prompt", &params));
        // The input stays open: only the stop ends the service.
        let rest: Vec<String> = lines.map_while(Result::ok).collect();
        (to_agent, rest)
    });
    started.notified().await;
    stop.cancel();
    served.await.unwrap();
    let (_open, rest) = client.await.unwrap();
    let last: Value = serde_json::from_str(rest.last().unwrap()).unwrap();
    assert_eq!((&last["id"], &last["result"]["stopReason"]), (&json!(2), &json!("cancelled")), "{rest:?}");
}

/// The client's and the agent's ends of two pipes.
fn pipes() -> (impl Write + Send, impl Read + Send, impl Write + Send, impl Read + Send) {
    let (input, to_agent) = std::io::pipe().unwrap();
    let (from_agent, output) = std::io::pipe().unwrap();
    (to_agent, input, output, from_agent)
}
