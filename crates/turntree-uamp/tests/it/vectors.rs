//! The transcripts of `tests/conformance/uamp`, over every transport.

use std::collections::HashMap;
use std::path::Path;

use http::{HeaderName, Method};
use serde::Deserialize;
use serde_json::{Value, json};
use turntree_core::json::RawJson;
use turntree_server::{Body, TestClient};
use turntree_uamp::service::AgentService;
use turntree_upp::providers::scripted::Reply;
use turntree_upp::{ErrorCode, UppError};

use crate::wire::{Socket, service_with};

#[derive(Deserialize)]
struct Transcript {
    #[serde(skip)]
    name: String,
    description: String,
    replies: Vec<Value>,
    #[serde(default)]
    batch: bool,
    transport: Option<String>,
    steps: Vec<Step>,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
enum Step {
    Send(Value),
    Expect(Value),
}

fn transcripts() -> Vec<Transcript> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/conformance/uamp");
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let json = files.filter(|path| path.extension().is_some_and(|extension| extension == "json"));
    let read = |path: std::path::PathBuf| {
        let mut transcript: Transcript =
            serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
        transcript.name = path.file_stem().unwrap().to_string_lossy().into_owned();
        assert!(!transcript.description.is_empty());
        transcript
    };
    let all: Vec<Transcript> = json.map(read).collect();
    assert!(all.len() >= 9, "the transcripts are not where this test looks");
    all
}

impl Transcript {
    fn service(&self) -> AgentService {
        let reply = |reply: &Value| match (reply["tool"].as_str(), reply["error"].as_str()) {
            (Some(tool), _) => Reply::tool_call(tool, RawJson::from_text("{}".to_owned()).unwrap()),
            (_, Some(error)) => Reply::from(UppError::new(ErrorCode::ProviderError, "scripted", error)),
            _ => Reply::from(reply.as_str().unwrap()),
        };
        service_with(self.replies.iter().map(reply).collect()).service
    }
}

/// The values of the placeholders.
#[derive(Default)]
struct Values(HashMap<String, Value>);

impl Values {
    fn matches(&mut self, expected: &Value, found: &Value) -> bool {
        match expected {
            Value::String(name) if name == "$*" => true,
            Value::String(name) if name.starts_with('$') => {
                !found.is_null() && self.0.entry(name.clone()).or_insert_with(|| found.clone()) == found
            }
            Value::Object(members) => members.iter().all(|(key, value)| self.matches(value, &found[key])),
            Value::Array(items) => found.as_array().is_some_and(|others| {
                items.len() == others.len()
                    && items.iter().zip(others).all(|(item, other)| self.matches(item, other))
            }),
            other => other == found,
        }
    }

    /// An event to send; members whose placeholder has no value are left out.
    fn fill(&self, event: &Value) -> Value {
        let members = event.as_object().unwrap().iter().filter_map(|(key, value)| match value.as_str() {
            Some(name) if name.starts_with('$') => Some((key.clone(), self.0.get(name)?.clone())),
            _ => Some((key.clone(), value.clone())),
        });
        Value::Object(members.collect())
    }
}

/// Events that a transcript does not have to mention.
fn is_optional(event: &Value) -> bool {
    matches!(event["type"].as_str(), Some("usage.delta" | "progress"))
        || event["delta"]["type"] == "tool_call"
}

/// The received events, with joined text deltas, compared with the transcript.
#[derive(Default)]
struct Checker {
    values: Values,
    held: Option<Value>,
}

impl Checker {
    /// The events that are complete when the next one has come: a text delta waits for its neighbours.
    fn join(&mut self, event: Value) -> Vec<Value> {
        // Answers to events that belong to no session have none.
        assert!(event["session_id"].is_string() || event["reply_to"].is_string(), "{event}");
        let is_text = event["delta"]["type"] == "text";
        if is_text && let Some(held) = &mut self.held {
            let text = format!(
                "{}{}",
                held["delta"]["text"].as_str().unwrap(),
                event["delta"]["text"].as_str().unwrap()
            );
            held["delta"]["text"] = json!(text);
            return Vec::new();
        }
        if is_text {
            self.held = Some(event);
            return Vec::new();
        }
        if is_optional(&event) {
            return Vec::new();
        }
        self.held.take().into_iter().chain([event]).collect()
    }

    fn check(&mut self, name: &str, expected: &Value, found: &Value) {
        assert!(self.values.matches(expected, found), "{name}:\nexpected {expected}\nfound    {found}");
    }
}

#[tokio::test]
async fn the_transcripts_hold_over_websocket() {
    for transcript in transcripts() {
        let mut socket = Socket::open(&transcript.service(), "/uamp").await;
        let (mut checker, mut ready) = (Checker::default(), std::collections::VecDeque::new());
        for step in &transcript.steps {
            match step {
                Step::Send(event) => socket.send(checker.values.fill(event)).await,
                Step::Expect(expected) => {
                    while ready.is_empty() {
                        ready.extend(checker.join(socket.event().await));
                    }
                    checker.check(&transcript.name, expected, &ready.pop_front().unwrap());
                }
            }
        }
    }
}

#[tokio::test]
async fn the_transcripts_hold_over_server_sent_events() {
    for transcript in transcripts().into_iter().filter(|transcript| transcript.transport.is_none()) {
        let mut client = TestClient::new(transcript.service());
        let (mut checker, mut ready) = (Checker::default(), std::collections::VecDeque::new());
        let (mut stream, mut text) = (None, String::new());
        for step in &transcript.steps {
            match step {
                Step::Send(event) => {
                    let response = client.post("/events", &checker.values.fill(event)).await.unwrap();
                    assert!(response.status.is_success(), "{}: {}", transcript.name, response.text());
                    if stream.is_none() {
                        let session = response.header("x-session-id").unwrap().to_owned();
                        client = client.with_header(HeaderName::from_static("x-session-id"), &session);
                        let request = client.request(Method::GET, "/events/stream", Body::empty());
                        stream = Some(client.stream(request).await.into_body());
                    }
                }
                Step::Expect(expected) => {
                    while ready.is_empty() {
                        let chunk = stream.as_mut().unwrap().next().await.unwrap().unwrap();
                        text.push_str(std::str::from_utf8(&chunk).unwrap());
                        while let Some((event, rest)) = text.split_once("\n\n") {
                            let data = event.lines().find_map(|line| line.strip_prefix("data: "));
                            let parsed = data.map(|data| serde_json::from_str(data).unwrap());
                            text = rest.to_owned();
                            ready.extend(parsed.map(|event| checker.join(event)).into_iter().flatten());
                        }
                    }
                    checker.check(&transcript.name, expected, &ready.pop_front().unwrap());
                }
            }
        }
    }
}

#[tokio::test]
async fn the_transcripts_hold_as_batches() {
    for transcript in transcripts().into_iter().filter(|transcript| transcript.batch) {
        let client = TestClient::new(transcript.service());
        let mut checker = Checker::default();
        let sent: Vec<Value> = transcript
            .steps
            .iter()
            .filter_map(|step| match step {
                Step::Send(event) => Some(checker.values.fill(event)),
                Step::Expect(_) => None,
            })
            .collect();
        let response = client.post("/uamp", &sent).await.unwrap();
        assert_eq!(response.status, 200, "{}", response.text());
        let mut found = Vec::new();
        for event in response.json().as_array().unwrap() {
            found.extend(checker.join(event.clone()));
        }
        let expected = transcript.steps.iter().filter_map(|step| match step {
            Step::Expect(event) => Some(event),
            Step::Send(_) => None,
        });
        let expected: Vec<&Value> = expected.collect();
        assert_eq!(found.len(), expected.len(), "{}: {found:?}", transcript.name);
        for (expected, found) in expected.into_iter().zip(&found) {
            checker.check(&transcript.name, expected, found);
        }
    }
}
