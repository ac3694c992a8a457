//! Helpers of the dialect tests: requests from JSON, responses of fixtures, streams without sockets.

use std::sync::Arc;

use turntree::core::ids::CountingIds;
use turntree::core::json::{RawJson, RawObject};
use turntree::core::time::{FixedClock, Timestamp};
use turntree::message::{Message, StreamEvent, ToolDefinition};
use turntree::upp::dialect::{Dialect, Sources};
use turntree::upp::{ModelRequest, ModelResponse, System, UppError};

use crate::support::fixtures::assert_unique_indexes;

/// A request with these messages; ids and timestamps are optional.
pub(crate) fn request(messages: serde_json::Value) -> ModelRequest {
    let serde_json::Value::Array(messages) = messages else { panic!("messages are a list") };
    let messages = messages.into_iter().enumerate().map(|(place, mut message)| {
        let members = message.as_object_mut().unwrap();
        members.entry("id").or_insert_with(|| format!("m{place}").into());
        members.entry("timestamp").or_insert_with(|| "2026-01-01T00:00:00Z".into());
        Arc::new(serde_json::from_str(&message.to_string()).unwrap())
    });
    ModelRequest { messages: messages.collect(), ..ModelRequest::default() }
}

pub(crate) fn hello() -> ModelRequest {
    request(serde_json::json!([{"type": "user", "content": "Hello"}]))
}

pub(crate) fn with_params(request: ModelRequest, params: &str) -> ModelRequest {
    ModelRequest { params: Arc::new(serde_json::from_str::<RawObject>(params).unwrap()), ..request }
}

pub(crate) fn with_system(request: ModelRequest, system: System) -> ModelRequest {
    ModelRequest { system: Some(Arc::new(system)), ..request }
}

pub(crate) fn with_structure(request: ModelRequest, schema: &str) -> ModelRequest {
    ModelRequest { structure: Some(Arc::new(raw(schema))), ..request }
}

pub(crate) fn with_tools(request: ModelRequest, tools: &str) -> ModelRequest {
    ModelRequest { tools: serde_json::from_str::<Vec<ToolDefinition>>(tools).unwrap().into(), ..request }
}

pub(crate) fn raw(text: &str) -> RawJson {
    RawJson::from_text(text.to_owned()).unwrap()
}

/// The encoded body.
pub(crate) fn encoded(dialect: &dyn Dialect, request: &ModelRequest, streaming: bool) -> String {
    String::from_utf8(dialect.encode("the-model", request, streaming).unwrap()).unwrap()
}

/// The JSON of one member of the encoded body.
pub(crate) fn member(dialect: &dyn Dialect, request: &ModelRequest, name: &str) -> String {
    let body: RawObject = serde_json::from_str(&encoded(dialect, request, false)).unwrap();
    body.get(name).map_or_else(|| "(missing)".to_owned(), ToString::to_string)
}

pub(crate) fn clock() -> FixedClock {
    FixedClock("2026-01-01T00:00:00Z".parse::<Timestamp>().unwrap())
}

pub(crate) fn decoded(
    dialect: &dyn Dialect,
    body: &str,
    request: &ModelRequest,
) -> Result<ModelResponse, UppError> {
    dialect.decode(body, request, Sources { ids: &CountingIds::default(), clock: &clock() })
}

/// The events of a stream and its result.
pub(crate) fn streamed<'a>(
    dialect: &dyn Dialect,
    frames: impl IntoIterator<Item = &'a str>,
    request: &ModelRequest,
) -> (Vec<StreamEvent>, Result<ModelResponse, UppError>) {
    let mut decoder = dialect.stream_decoder(request);
    let mut events = Vec::new();
    for frame in frames {
        if let Err(error) = decoder.frame(None, frame, &mut events) {
            return (events, Err(error));
        }
    }
    let end = decoder.finish(Sources { ids: &CountingIds::default(), clock: &clock() }, &mut events);
    assert_unique_indexes(&dialect.provider().into(), &events);
    (events, end)
}

/// The data of the server-sent events of a fixture, without the end marker.
pub(crate) fn frames(fixture: &str) -> impl Iterator<Item = &str> {
    fixture.lines().filter_map(|line| line.strip_prefix("data: ")).filter(|data| *data != "[DONE]")
}

/// One line for each event: type, index, delta.
pub(crate) fn shown(events: &[StreamEvent]) -> String {
    let lines = events.iter().map(|event| {
        let json = serde_json::to_value(event).unwrap();
        format!("{} {} {}\n", event.delta.kind(), event.index, json["delta"])
    });
    lines.collect()
}

/// The JSON of the message.
pub(crate) fn message_json(response: &ModelResponse) -> String {
    serde_json::to_string(&response.message).unwrap()
}

/// The model that made a message, from its metadata. Opaque parts are sent only to this model.
pub(crate) fn answering_model(message: &Message) -> String {
    let mut namespaces = message.metadata.iter().flat_map(RawObject::iter);
    let metadata: Option<serde_json::Value> = namespaces.next().and_then(|(_, metadata)| metadata.to().ok());
    metadata
        .and_then(|metadata| metadata["model"].as_str().map(str::to_owned))
        .unwrap_or_else(|| "m".to_owned())
}
