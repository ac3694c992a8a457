//! Runs the fixtures of a dialect: encodes requests, decodes complete and streamed responses.
//!
//! The format is described in `tests/data/upp/README.md`.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use futures_util::StreamExt as _;
use serde_json::{Value, json};
use turntree::core::ids::CountingIds;
use turntree::core::json::RawJson;
use turntree::core::time::{FixedClock, Timestamp};
use turntree::message::fold::Fold;
use turntree::message::{Delta, Message, StreamEvent, TokenUsage};
use turntree::upp::dialect::{Dialect, Sources};
use turntree::upp::http_model::HttpModel;
use turntree::upp::{Model as _, ModelEvent, ModelRequest, ModelResponse, ProviderConfig, System, UppError};

use crate::support::server::{Recorded, Server, chunk, event_stream, json as json_body, last_chunk};

/// Makes the dialect of a case from its `options`.
pub(crate) type Make = fn(&Value) -> Box<dyn Dialect>;

pub(crate) fn cases(file: &str) -> Vec<Value> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/upp").join(file);
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn raw(value: &Value) -> RawJson {
    RawJson::from_value(value).unwrap()
}

/// The request of a case; ids and timestamps of messages are optional.
pub(crate) fn request_of(case: &Value) -> ModelRequest {
    let messages = case["messages"].as_array().into_iter().flatten().enumerate();
    let messages = messages.map(|(place, message)| {
        let mut message = message.clone();
        message["id"] = message.get("id").cloned().unwrap_or_else(|| json!(format!("m{place}")));
        message["timestamp"] = json!("2024-01-15T10:30:00Z");
        Arc::new(serde_json::from_value::<Message>(message).unwrap())
    });
    let tools = case.get("tools").map(|tools| serde_json::from_value(tools.clone()).unwrap());
    ModelRequest {
        messages: messages.collect(),
        system: case.get("system").map(|system| {
            Arc::new(match system {
                Value::String(text) => System::Text(text.clone()),
                blocks => System::Blocks(raw(blocks)),
            })
        }),
        params: case.get("params").map(|params| raw(params).to().unwrap()).map(Arc::new).unwrap_or_default(),
        tools: tools.map(|tools: Vec<_>| tools.into()).unwrap_or_default(),
        structure: case.get("structure").map(|structure| Arc::new(raw(structure))),
        strict: None,
    }
}

pub(crate) fn with_sources<T>(run: impl FnOnce(Sources<'_>) -> T) -> T {
    let clock = FixedClock("2024-01-15T10:30:00Z".parse::<Timestamp>().unwrap());
    run(Sources { ids: &CountingIds::default(), clock: &clock })
}

pub(crate) fn encode_and_compare(file: &str, make: Make) {
    for case in cases(file) {
        let name = &case["name"];
        let dialect = make(&case["options"]);
        let streaming = case["streaming"] == true;
        let wire = dialect.encode("model-1", &request_of(&case), streaming);

        match (wire, case.get("error")) {
            (Ok(wire), None) => {
                let text = String::from_utf8(wire).unwrap();
                let value: Value = serde_json::from_str(&text).unwrap();
                assert_eq!(value, case["wire"], "{name}\n{text}");
            }
            (Err(error), Some(words)) => {
                assert_eq!(error.code.as_str(), "INVALID_REQUEST", "{name}: {error}");
                assert!(error.message.contains(words.as_str().unwrap()), "{name}: {error}");
            }
            (Ok(_), Some(_)) => panic!("{name}: accepted"),
            (Err(error), None) => panic!("{name}: {error:?}"),
        }
    }
}

/// Decodes frames: returns the events, and the response or the first error.
pub(crate) fn stream(
    dialect: &dyn Dialect,
    request: &ModelRequest,
    frames: &[String],
) -> (Vec<StreamEvent>, Result<ModelResponse, UppError>) {
    let mut decoder = dialect.stream_decoder(request);
    let mut events = Vec::new();
    for frame in frames {
        if let Err(error) = decoder.frame(None, frame, &mut events) {
            return (events, Err(error));
        }
    }
    let response = with_sources(|sources| decoder.finish(sources, &mut events));
    (events, response)
}

fn decode(dialect: &dyn Dialect, request: &ModelRequest, body: &str) -> Result<ModelResponse, UppError> {
    with_sources(|sources| dialect.decode(body, request, sources))
}

/// An event as one line.
fn line(event: &StreamEvent) -> String {
    let details = match &event.delta {
        Delta::Text(delta) | Delta::Reasoning(delta) | Delta::Object(delta) => delta.text.clone(),
        Delta::Image(delta) => delta.data.to_base64(),
        Delta::ToolCall(delta) => {
            format!("{} {} {}", delta.tool_call_id, delta.tool_name, delta.arguments_json)
        }
        _ => String::new(),
    };
    format!("{} {} {details}", event.delta.kind(), event.index).trim_end().to_owned()
}

fn shown(response: &ModelResponse) -> Value {
    let mut shown = serde_json::to_value(&*response.message).unwrap();
    for key in ["type", "timestamp"] {
        shown.as_object_mut().unwrap().remove(key);
    }
    let usage = &response.usage;
    shown["usage"] = json!([
        usage.input_tokens,
        usage.output_tokens,
        usage.total_tokens,
        usage.cache_read_tokens,
        usage.cache_write_tokens
    ]);
    shown["stopReason"] = json!(response.stop_reason.as_str());
    if let Some(data) = &response.data {
        shown["data"] = data.to::<serde_json::Value>().unwrap();
    }
    shown
}

pub(crate) fn frames_of(case: &Value) -> Vec<String> {
    case["stream"].as_array().into_iter().flatten().map(ToString::to_string).collect()
}

/// Checks every response case: complete, streamed, truncated at every frame, and with unknown members.
pub(crate) fn decode_and_compare(file: &str, make: Make) {
    for case in cases(file) {
        let name = &case["name"];
        let dialect = make(&case["options"]);
        let request = request_of(&case["request"]);
        if let Some(body) = case.get("body") {
            let response = decode(&*dialect, &request, &body.to_string()).unwrap();
            assert_eq!(shown(&response), case["response"], "{name}, whole");
            let body = with_unknown_members(body.clone()).to_string();
            assert_eq!(decode(&*dialect, &request, &body).unwrap(), response, "{name}, with unknown members");
            let mut silent = case["body"].clone();
            remove_usage(&mut silent);
            let silent = decode(&*dialect, &request, &silent.to_string()).unwrap();
            assert_eq!(
                silent,
                ModelResponse { usage: TokenUsage::default(), ..response },
                "{name}, no usage"
            );
        }
        if case.get("stream").is_some() {
            check_stream(&case, &*dialect, &request);
        }
    }
}

fn check_stream(case: &Value, dialect: &dyn Dialect, request: &ModelRequest) {
    let name = &case["name"];
    let frames = frames_of(case);

    let (events, response) = stream(dialect, request, &frames);
    let response = response.unwrap_or_else(|error| panic!("{name}: {error:?}"));

    assert_eq!(shown(&response), case["response"], "{name}, streamed");
    assert_unique_indexes(name, &events);
    if case.get("events").is_some() {
        assert_eq!(json!(events.iter().map(line).collect::<Vec<_>>()), case["events"], "{name}, events");
    }
    let mut fold = Fold::default();
    for event in &events {
        fold.push(event);
    }
    let folded = fold.finish();
    if case["folds"] != false {
        assert_eq!(folded.content, response.message.content(), "{name}, folded");
    }
    assert_eq!(folded.tool_calls, response.message.tool_calls(), "{name}, folded calls");
    // Frames after the end of the response, such as usage, are optional.
    let tail = usize::try_from(case["tail"].as_u64().unwrap_or(0)).unwrap();
    for length in 0..frames.len() - tail {
        let (_, cut) = stream(dialect, request, &frames[..length]);
        let error = cut.expect_err(&format!("{name}: {length} frames are not an answer"));
        assert_eq!(error.code.as_str(), "INVALID_RESPONSE", "{name}: {error:?}");
    }
    let sprinkled: Vec<String> = with_noise_frames(case["stream"].as_array().unwrap());
    let (same_events, same) = stream(dialect, request, &sprinkled);
    assert_eq!(same_events, events, "{name}, with unknown events");
    assert_eq!(same.unwrap(), response, "{name}, with unknown events");
    let silent: Vec<String> = case["stream"].as_array().unwrap().iter().map(without_usage).collect();
    let (same_events, silent) = stream(dialect, request, &silent);
    assert_eq!(same_events, events, "{name}, no usage");
    assert_eq!(
        silent.unwrap(),
        ModelResponse { usage: TokenUsage::default(), ..response },
        "{name}, no usage"
    );
}

/// Checks that blocks of two kinds, or two calls, have different indexes (UPP-1.2 §11.1).
pub(crate) fn assert_unique_indexes(name: &Value, events: &[StreamEvent]) {
    let mut kinds: BTreeMap<u32, &str> = BTreeMap::new();
    for event in events {
        let kind = match &event.delta {
            Delta::MessageStart(_)
            | Delta::MessageStop(_)
            | Delta::ContentBlockStart(_)
            | Delta::ContentBlockStop(_) => continue,
            Delta::Object(_) => "text_delta",
            Delta::ToolCall(call) => &call.tool_call_id,
            other => other.kind(),
        };
        let known: &str = kinds.entry(event.index).or_insert(kind);
        assert_eq!(known, kind, "{name}: two blocks have the index {}", event.index);
    }
}

fn without_usage(frame: &Value) -> String {
    let mut frame = frame.clone();
    remove_usage(&mut frame);
    frame.to_string()
}

/// Removes the token counts of a vendor.
fn remove_usage(value: &mut Value) {
    match value {
        Value::Object(members) => {
            for name in ["usage", "usageMetadata", "prompt_eval_count", "eval_count"] {
                members.remove(name);
            }
            members.values_mut().for_each(remove_usage);
        }
        Value::Array(items) => items.iter_mut().for_each(remove_usage),
        _ => {}
    }
}

fn with_noise_frames(frames: &[Value]) -> Vec<String> {
    let strangers = [
        json!({"type": "weather.changed", "delta": {"text": 5}, "index": "x", "output_index": {}, "item": 7}),
        json!({"type": "ping"}),
        json!({}),
    ];
    let known = frames.iter().map(|frame| {
        let mut frame = frame.clone();
        frame["tomorrow"] = json!({"index": [1], "text": null});
        frame.to_string()
    });
    let mut sprinkled = Vec::new();
    for frame in known {
        sprinkled.extend(strangers.iter().map(ToString::to_string));
        sprinkled.push(frame);
    }
    sprinkled
}

fn with_unknown_members(mut body: Value) -> Value {
    body["tomorrow"] = json!({"content": "x", "output": 1});
    body
}

pub(crate) fn errors_and_compare(file: &str, make: Make) {
    for case in cases(file) {
        let name = &case["name"];
        let dialect = make(&case["options"]);
        let request = ModelRequest::default();
        let expected = (case["code"].as_str().unwrap(), case["message"].as_str().unwrap());
        if let Some(status) = case["status"].as_u64() {
            let body = case["body"].as_str().map_or_else(|| case["body"].to_string(), str::to_owned);
            let (code, message) = dialect.error_of_body(u16::try_from(status).unwrap(), &body).unwrap();
            assert_eq!((code.as_str(), message.as_str()), expected, "{name}");
        } else if let Some(body) = case.get("body") {
            let body = body.as_str().map_or_else(|| body.to_string(), str::to_owned);
            let error = decode(&*dialect, &request, &body).unwrap_err();
            assert_eq!(error.code.as_str(), expected.0, "{name}: {error:?}");
            assert!(error.message.contains(expected.1), "{name}: {error:?}");
        }
        if case.get("stream").is_some() {
            let frames: Vec<String> = case["stream"]
                .as_array()
                .unwrap()
                .iter()
                .map(|frame| frame.as_str().map_or_else(|| frame.to_string(), str::to_owned))
                .collect();
            let (_, response) = stream(&*dialect, &request, &frames);
            let error = response.unwrap_err();
            assert_eq!(error.code.as_str(), expected.0, "{name}: {error:?}");
            assert!(error.message.contains(expected.1), "{name}: {error:?}");
        }
    }
}

/// The recorded exchanges of a folder of the corpus; `None` without a corpus.
pub(crate) fn exchanges(folder: &str) -> Option<Vec<(String, Value)>> {
    let corpus = PathBuf::from(std::env::var_os("TURNTREE_CORPUS")?);
    let mut files: Vec<PathBuf> = std::fs::read_dir(corpus.join("provider-traffic").join(folder))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    let read = |path: &PathBuf| serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    Some(files.iter().map(|path| (path.display().to_string(), read(path))).collect())
}

/// The `data` lines of a recorded stream, read without the SSE decoder.
pub(crate) fn data_lines(body: &str) -> Vec<String> {
    let normalised = body.replace("\r\n", "\n");
    let events = normalised.split("\n\n").map(|event| {
        let data = event.lines().filter_map(|line| line.strip_prefix("data:"));
        data.map(|line| line.strip_prefix(' ').unwrap_or(line)).collect::<Vec<_>>().join("\n")
    });
    events.filter(|data| !data.is_empty() && data != "[DONE]").collect()
}

/// Checks that streams with truncated frames end with an error or a response, without a panic.
pub(crate) fn assert_truncated_frames_do_not_panic(file: &str, make: Make) {
    for case in cases(file) {
        let dialect = make(&case["options"]);
        let frames = frames_of(&case);
        for (place, frame) in frames.iter().enumerate() {
            for length in (0..frame.len()).filter(|length| frame.is_char_boundary(*length)) {
                let mut cut = frames.clone();
                cut[place].truncate(length);
                let (_, response) = stream(&*dialect, &request_of(&case["request"]), &cut);
                assert!(response.is_err() || length == 0 || place + 1 < frames.len(), "{}", case["name"]);
            }
        }
    }
}

/// Calls a model over sockets, complete and streamed, and checks that both responses are equal. Returns the requests.
pub(crate) async fn call_over_sockets(
    make: impl Fn(&ProviderConfig) -> Arc<dyn Dialect>,
    configure: impl FnOnce(&Server) -> ProviderConfig,
    case: &Value,
) -> (Vec<Recorded>, ModelResponse) {
    let events: Vec<String> =
        frames_of(case).iter().map(|frame| format!("event: e\ndata: {frame}\n\n")).collect();
    // The end marker of chats; the other formats have an end event.
    let events = events.concat() + "data: [DONE]\n\n";
    let streamed = vec![event_stream(), chunk(&events), last_chunk()];
    let server = Server::start([json_body(&case["body"].to_string()), streamed]).await;
    let config = configure(&server);
    let clock = FixedClock("2024-01-15T10:30:00Z".parse::<Timestamp>().unwrap());
    let model = HttpModel::new(make(&config), "model-1", config)
        .with_prices(Arc::default())
        .with_sources(Arc::new(CountingIds::default()), Arc::new(clock));

    let whole = model.complete(request_of(&case["request"])).await.unwrap();
    let items: Vec<_> = model.stream(request_of(&case["request"])).collect().await;

    let last = items.into_iter().last().unwrap().unwrap();
    assert_eq!(last, ModelEvent::Done(whole.clone()));
    (server.requests(), whole)
}

pub(crate) fn header<'a>(request: &'a Recorded, name: &str) -> Vec<&'a str> {
    let lines = request.head.lines().filter_map(|line| line.split_once(": "));
    lines.filter(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value).collect()
}
