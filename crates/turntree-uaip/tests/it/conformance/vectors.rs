//! The vectors of `tests/conformance/uaip`, in process: the protocol without sockets, Python, or an event loop. The README
//! there describes the format.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use http::{HeaderName, Method, header};
use serde_json::{Map, Value, json};
use turntree_core::secret::Secret;
use turntree_server::{BearerTokens, Body, Principal, Service, TestClient, TestResponse};
use turntree_uaip::engine::{Call, CallFailure, CallResult};
use turntree_uaip::service::Progress;
use turntree_uaip::store::ApprovalDecision;
use turntree_uaip::{CallContext, Profile, ServiceOptions, Workflow};

use crate::support::service::{Functions, Server};
use crate::support::{compile, workflow};

fn read(path: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

fn items(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

/// The definition of a workflow without the behaviour of its functions, which is added to `functions`.
fn definition(vector: &Value, functions: &mut Functions) -> Value {
    let mut made = vector.clone();
    let workflow = vector["name"].as_str().unwrap();
    for stage in made["stages"].as_array_mut().unwrap() {
        let name = stage["name"].as_str().unwrap().to_owned();
        for (hook, prefix) in [("on_enter", "enter"), ("on_exit", "exit")] {
            if let Some(behaviour) = stage.get(hook).cloned() {
                *functions = with(functions, &format!("{workflow}/{prefix} {name}"), behaviour, false);
                stage[hook] = json!(true);
            }
        }
        for task in stage.get_mut("tasks").and_then(Value::as_array_mut).into_iter().flatten() {
            let behaviour = task.as_object_mut().unwrap().remove("do").unwrap_or_default();
            let asks = task["approval"] == json!(true);
            let name = format!("{workflow}/{}", task["name"].as_str().unwrap());
            *functions = with(functions, &name, behaviour, asks);
        }
    }
    for transition in made["transitions"].as_array_mut().unwrap() {
        let Some(guard) = transition.as_object_mut().unwrap().remove("guard") else { continue };
        let key = guard["allow_if"].as_str().unwrap().to_owned();
        let stage = |end: &str| transition[end].as_str().unwrap().to_owned();
        let name = format!("{workflow}/{} -> {}", stage("from"), stage("to"));
        let allows = move |call: Call| CallResult::Guard { allowed: call.state.get(&key).is_some() };
        *functions = functions.clone().on(&name, allows);
        transition["guarded"] = json!(true);
    }
    made
}

/// Adds a function with a behaviour. One that asks needs the decision of a person first.
fn with(functions: &Functions, name: &str, behaviour: Value, asks: bool) -> Functions {
    functions.clone().on_async(name, move |call, context| {
        let behaviour = behaviour.clone();
        async move {
            match &context.approval {
                None if asks => CallResult::Failed(CallFailure::ApprovalRequired { request: Value::Null }),
                Some(ApprovalDecision::Denied { reason }) => {
                    CallResult::Failed(CallFailure::Task(reason.clone()))
                }
                _ => perform(&behaviour, call, context).await,
            }
        }
    })
}

/// Does what a behaviour says, in the order of the README.
async fn perform(behaviour: &Value, mut call: Call, context: CallContext) -> CallResult {
    for report in items(&behaviour["report"]) {
        context.progress.report(progress(report));
    }
    for (key, value) in behaviour["set"].as_object().into_iter().flatten() {
        call.state.set(key.as_str(), value.clone());
    }
    for key in items(&behaviour["delete"]) {
        call.state.delete(key.as_str().unwrap());
    }
    let counter = behaviour["increment"].as_str();
    let before = counter.and_then(|key| call.state.get(key)).and_then(Value::as_i64).unwrap_or(0);
    if let Some(seconds) = behaviour["wait"].as_f64() {
        tokio::time::sleep(Duration::from_secs_f64(seconds)).await;
    }
    if let Some(key) = counter {
        call.state.set(key, json!(before + 1));
    }
    match behaviour["raise"].as_str() {
        Some("task") => {
            let message = behaviour["message"].as_str().unwrap().to_owned();
            return CallResult::Failed(CallFailure::Task(message));
        }
        Some(_) => {
            let correlation_id = context.correlation_id.to_string();
            return CallResult::Failed(CallFailure::Internal { correlation_id });
        }
        None => {}
    }
    let stored = |key: &Value| call.state.get(key.as_str().unwrap()).cloned().unwrap_or_default();
    let value = if behaviour["return_state"].is_string() {
        stored(&behaviour["return_state"])
    } else if behaviour["return_states"].is_array() {
        items(&behaviour["return_states"]).iter().map(stored).collect()
    } else {
        behaviour["return"].clone()
    };
    CallResult::Done { value, state: call.state }
}

fn progress(report: &Value) -> Progress {
    let is_complete = report.as_object().is_some_and(|object| {
        !object.is_empty() && object.keys().all(|key| ["step", "message", "data"].contains(&key.as_str()))
    });
    match report {
        Value::String(message) => Progress { message: Some(message.clone()), ..Progress::default() },
        _ if is_complete => serde_json::from_value(report.clone()).unwrap(),
        _ => Progress { data: Some(report.clone()), ..Progress::default() },
    }
}

/// Plays the steps of one case.
struct Player {
    server: Server,
    client: TestClient,
    saved: HashMap<String, String>,
}

impl Player {
    fn new(case: &Value, definitions: &HashMap<String, Value>) -> Self {
        let mut functions = Functions::default();
        let workflows: Vec<Arc<Workflow>> = items(&case["workflows"])
            .iter()
            .map(|name| workflow(definition(&definitions[name.as_str().unwrap()], &mut functions)))
            .collect();
        let settings = &case["server"];
        let mut options = ServiceOptions::default();
        if settings["profile"] == json!("reference") {
            options.profile = Profile::Reference;
        }
        for (name, option) in
            [("idle_ttl", &mut options.idle_ttl), ("absolute_ttl", &mut options.absolute_ttl)]
        {
            if let Some(seconds) = settings[name].as_f64() {
                *option = Duration::from_secs_f64(seconds);
            }
        }
        if let Some(depth) = settings["queue_depth"].as_u64() {
            options.queue_depth = usize::try_from(depth).unwrap();
        }
        let server = Server::with(workflows, functions, options);
        let client = match settings["auth"].as_object() {
            None => server.client.clone(),
            Some(tokens) => {
                let tokens = tokens.iter().map(|(token, principal)| {
                    (Secret::new(token.as_str()), Principal::new(principal.as_str().unwrap()))
                });
                let service = Service::new(Arc::clone(&server.service));
                TestClient::for_service(service.with_authenticator(BearerTokens::new(tokens)))
            }
        };
        Self { server, client, saved: HashMap::new() }
    }

    async fn step(&mut self, step: &Value) {
        if let Some(seconds) = step["wait"].as_f64() {
            self.server.clock.advance(Duration::from_secs_f64(seconds));
        } else if step.get("concurrent").is_some() {
            let responses = join_all(items(&step["concurrent"]).iter().map(|request| self.send(request)));
            let mut found = BTreeMap::<String, u64>::new();
            for response in responses.await {
                *found.entry(response.status.as_u16().to_string()).or_default() += 1;
            }
            assert_eq!(json!(found), step["statuses"]);
        } else {
            let response = self.send(&step["request"]).await;
            self.check(&response, &step["response"]);
        }
    }

    async fn send(&self, request: &Value) -> TestResponse {
        let method: Method = request["method"].as_str().unwrap().parse().unwrap();
        let path = self.filled(request["path"].as_str().unwrap());
        let content = self.content(request);
        let is_empty = content.is_empty();
        let mut message = self.client.request(method, &path, Body::full(content));
        if !is_empty {
            message.headers_mut().insert(header::CONTENT_TYPE, "application/json".parse().unwrap());
        }
        for (name, value) in request["headers"].as_object().into_iter().flatten() {
            let name: HeaderName = name.parse().unwrap();
            match self.filled(value.as_str().unwrap()) {
                value if value.is_empty() => drop(message.headers_mut().remove(name)),
                value => drop(message.headers_mut().insert(name, value.parse().unwrap())),
            }
        }
        self.client.send(message).await.unwrap()
    }

    fn content(&self, request: &Value) -> Vec<u8> {
        if let Some(body) = request.get("json") {
            return self.filled(&body.to_string()).into_bytes();
        }
        if let Some(hex) = request["raw_hex"].as_str() {
            let digits = |start| u8::from_str_radix(&hex[start..start + 2], 16).unwrap();
            return (0..hex.len()).step_by(2).map(digits).collect();
        }
        if let Some(count) = request["raw_spaces"].as_u64() {
            return vec![b' '; usize::try_from(count).unwrap()];
        }
        request["raw"].as_str().unwrap_or_default().into()
    }

    /// Puts saved values in the place of their names.
    fn filled(&self, text: &str) -> String {
        let fill =
            |text: String, (name, value): (&String, &String)| text.replace(&format!("{{{name}}}"), value);
        self.saved.iter().fold(text.to_owned(), fill)
    }

    fn check(&mut self, response: &TestResponse, expected: &Value) {
        let text = response.text();
        assert_eq!(json!(response.status.as_u16()), expected["status"], "{text}");
        for (name, value) in expected["headers"].as_object().into_iter().flatten() {
            self.assert_like(&json!(response.header(name)), value, &format!("header {name}"));
        }
        if expected.get("events").is_some() {
            assert!(response.header("content-type").unwrap().starts_with("text/event-stream"));
            self.assert_like(&events_of(&text), &expected["events"], "events");
            return;
        }
        let body = response.json();
        if let Some(json) = expected.get("json") {
            self.assert_like(&body, json, "");
        }
        if let Some(tools) = expected.get("tools") {
            let names: Value = items(&body["tools"]).iter().map(|tool| tool["name"].clone()).collect();
            assert_eq!(&names, tools, "{text}");
        }
        for pointer in items(&expected["absent"]) {
            assert_eq!(body.pointer(pointer.as_str().unwrap()), None, "{text}");
        }
        let compact = body.to_string();
        for part in items(&expected["contains"]) {
            assert!(compact.contains(part.as_str().unwrap()), "{part} is not in {text}");
        }
        for part in items(&expected["lacks"]) {
            assert!(!text.contains(part.as_str().unwrap()), "{part} is in {text}");
        }
        if let Some(limit) = expected["max_bytes"].as_u64() {
            assert!(response.body.len() as u64 <= limit);
        }
        if response.status.as_u16() >= 400 {
            assert!(body["detail"].is_string(), "{text}");
        }
        for (name, pointer) in expected["save"].as_object().into_iter().flatten() {
            let value = body.pointer(pointer.as_str().unwrap()).unwrap();
            let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            self.saved.insert(name.clone(), value);
        }
    }

    /// Compares: objects may have more members, lists have the same length, placeholders stand for values.
    fn assert_like(&self, found: &Value, expected: &Value, place: &str) {
        match (expected, found) {
            (Value::Object(members), Value::Object(_)) => {
                for (name, value) in members {
                    let place = format!("{place}/{name}");
                    let member = found.get(name).unwrap_or_else(|| panic!("{place} is missing in {found}"));
                    self.assert_like(member, value, &place);
                }
            }
            (Value::Array(values), Value::Array(items)) => {
                assert_eq!(items.len(), values.len(), "{place}: {found}");
                for (index, (item, value)) in items.iter().zip(values).enumerate() {
                    self.assert_like(item, value, &format!("{place}/{index}"));
                }
            }
            (Value::String(text), _) if text.starts_with('{') && text.ends_with('}') => match text.as_str() {
                "{any}" => assert!(!found.is_null(), "{place} is missing"),
                "{text}" => assert!(found.as_str().is_some_and(|text| !text.is_empty()), "{place}: {found}"),
                "{uuid}" => {
                    let id = uuid::Uuid::parse_str(found.as_str().unwrap_or_default());
                    assert_eq!(id.map(|id| id.get_version_num()), Ok(4), "{place}: {found}");
                }
                name => {
                    let saved = &self.saved[&name[1..name.len() - 1]];
                    assert_eq!(
                        found.as_str().map_or_else(|| found.to_string(), str::to_owned),
                        *saved,
                        "{place}"
                    );
                }
            },
            _ => assert_eq!(found, expected, "{place}"),
        }
    }
}

/// The name and the data of each server-sent event; comments are left out.
fn events_of(text: &str) -> Value {
    let text = text.replace("\r\n", "\n");
    let frames = text
        .split("\n\n")
        .map(|frame| frame.lines().filter_map(|line| line.split_once(": ")).collect::<HashMap<&str, &str>>());
    frames
        .filter(|fields| fields.contains_key("event"))
        .map(|fields| json!([fields["event"], serde_json::from_str::<Value>(fields["data"]).unwrap()]))
        .collect()
}

#[tokio::test]
async fn the_protocol_answers_as_the_vectors_say_without_a_socket() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/conformance/uaip");
    let workflows = read(&folder.join("workflows.json"));
    let named = |made: &Value| (made["name"].as_str().unwrap().to_owned(), made.clone());
    let definitions: HashMap<String, Value> = items(&workflows["workflows"]).iter().map(named).collect();
    let (mut played, mut refused) = (0, 0);

    for file in ["definitions", "reference", "requests", "results", "sessions", "stages", "state"] {
        let vectors = read(&folder.join(file).with_extension("json"));
        for case in items(&vectors["cases"]) {
            // The place of a failure, which cargo shows with it.
            println!("{file}/{}", case["id"].as_str().unwrap());
            if let Some(definition) = case.get("definition") {
                let error = compile(self::definition(definition, &mut Functions::default())).unwrap_err();
                for part in items(&case["error"]) {
                    assert!(error.to_string().contains(part.as_str().unwrap()), "{error}");
                }
                refused += 1;
                continue;
            }
            let mut player = Player::new(case, &definitions);
            for step in items(&case["steps"]) {
                println!("  {step}");
                player.step(step).await;
            }
            played += 1;
        }
    }

    assert!(played >= 49 && refused >= 9, "{played} cases played, {refused} definitions refused");
}

#[test]
fn every_file_of_vectors_is_played() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/conformance/uaip");
    let mut found: Vec<String> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "json"))
        .filter(|path| {
            read(path).as_object().is_some_and(|file: &Map<String, Value>| file.contains_key("cases"))
        })
        .map(|path| path.file_stem().unwrap().to_string_lossy().into_owned())
        .collect();
    found.sort();
    assert_eq!(found, ["definitions", "reference", "requests", "results", "sessions", "stages", "state"]);
}
