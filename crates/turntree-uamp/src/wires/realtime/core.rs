//! A connection as a state machine without I/O: events of the client in, effects out.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Map, Value, json};
use turntree_core::ids::IdSource;
use turntree_core::json::RawJson;
use turntree_core::limits::Limits;
use turntree_core::time::Clock;

use super::items::{Item, ItemParam, audio_item, decoded};
use super::names::Generation;
use super::response::ActiveResponse;
use crate::agent::messages::tools_to_upp;
use crate::agent::{RunInput, RunOptions, ServedAgent, messages_to_upp};
use crate::types::{FunctionDefinition, FunctionTool, Message, ToolDefinition, UsageStats};
use crate::wires::openai::conversation::{apply_parameters, check_calls, run_input};
use crate::wires::openai::error::ApiError;
use crate::wires::openai::parameters::{Parameters, ToolChoice};
use crate::wires::openai::reply::{Ending, ReplyPart};

/// Limits of an event.
const LIMITS: Limits = Limits { bytes: 24 * 1024 * 1024, depth: 64, values: 200_000 };

/// The largest number of bytes of audio that wait for a commit.
const MAX_AUDIO: usize = 32 * 1024 * 1024;

/// The largest number of bytes of a conversation, which is in memory.
const MAX_BYTES: usize = 32 * 1024 * 1024;

/// The part of these bytes that the settings of the session may have.
const SETTINGS_PART: usize = 8;

/// The largest number of items of a conversation.
const MAX_ITEMS: usize = 10_000;

/// What a connection must do, in this order.
#[derive(Debug)]
pub enum Effect {
    /// Send an event.
    Send(String),
    /// Start the agent.
    Start(Box<Start>),
    /// Cancel the agent.
    Cancel,
}

/// A run of the agent.
#[derive(Debug)]
pub struct Start {
    /// The response.
    pub response_id: String,
    /// The conversation.
    pub input: RunInput,
    /// What the run has in addition.
    pub options: RunOptions,
}

/// An event of the client. Which members it has depends on its type.
#[derive(Debug, Default, Deserialize)]
struct ClientEvent {
    #[serde(rename = "type")]
    kind: String,
    event_id: Option<String>,
    session: Option<Map<String, Value>>,
    audio: Option<String>,
    item: Option<ItemParam>,
    item_id: Option<String>,
    previous_item_id: Option<String>,
    content_index: Option<u64>,
    audio_end_ms: Option<u64>,
    response: Option<ResponseParam>,
    response_id: Option<String>,
}

/// The settings of one response. They replace those of the session.
#[derive(Debug, Default, Deserialize)]
struct ResponseParam {
    instructions: Option<String>,
    tools: Option<RawJson>,
    tool_choice: Option<RawJson>,
    conversation: Option<String>,
    metadata: Option<Value>,
    input: Option<Vec<ItemParam>>,
}

#[derive(Debug, Deserialize)]
struct ToolParam {
    #[serde(rename = "type")]
    kind: Option<String>,
    name: String,
    description: Option<String>,
    parameters: Option<RawJson>,
}

/// A connection.
#[derive(Debug)]
pub struct Core {
    generation: Generation,
    agent: Arc<ServedAgent>,
    ids: Arc<dyn IdSource>,
    clock: Arc<dyn Clock>,
    session: Map<String, Value>,
    items: Vec<Item>,
    /// The bytes of the items.
    bytes: usize,
    max_bytes: usize,
    audio: Vec<u8>,
    active: Option<ActiveResponse>,
}

impl Core {
    /// A connection without items.
    pub fn new(
        generation: Generation,
        agent: &Arc<ServedAgent>,
        ids: Arc<dyn IdSource>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let mut session = Map::new();
        session.insert("id".to_owned(), format!("sess_{}", ids.uuid().simple()).into());
        session.insert("object".to_owned(), "realtime.session".into());
        if generation == Generation::Current {
            session.insert("type".to_owned(), "realtime".into());
        }
        session.insert("model".to_owned(), agent.name().to_string().into());
        session.insert(generation.modalities().to_owned(), json!(["text"]));
        session.insert("instructions".to_owned(), "".into());
        session.insert("tools".to_owned(), json!([]));
        session.insert("tool_choice".to_owned(), "auto".into());
        let agent = Arc::clone(agent);
        let (items, audio) = (Vec::new(), Vec::new());
        let max_bytes = MAX_BYTES;
        Self { generation, agent, ids, clock, session, items, bytes: 0, max_bytes, audio, active: None }
    }

    /// Sets how many bytes the items of the conversation have at most: 32 MiB. The settings of the session have at most
    /// an eighth of it.
    #[must_use]
    pub fn with_max_bytes(self, max_bytes: usize) -> Self {
        Self { max_bytes, ..self }
    }

    fn new_id(&self, prefix: &str) -> String {
        format!("{prefix}_{}", self.ids.uuid().simple())
    }

    /// The first event.
    pub fn created(&self) -> Effect {
        self.send(json!({ "type": "session.created", "session": self.session }))
    }

    /// An event with its id.
    fn send(&self, mut event: Value) -> Effect {
        if let Some(event) = event.as_object_mut() {
            event.insert("event_id".to_owned(), self.new_id("event").into());
        }
        Effect::Send(event.to_string())
    }

    fn error(&self, error: &ApiError, event_id: Option<&str>) -> Effect {
        let mut object = error.object();
        if let Some(object) = object.as_object_mut() {
            object.insert("event_id".to_owned(), event_id.into());
        }
        self.send(json!({ "type": "error", "error": object }))
    }

    /// An event of the client.
    pub fn on(&mut self, text: &str) -> Vec<Effect> {
        let event: ClientEvent = match turntree_core::json::parse(text, &LIMITS) {
            Ok(event) => event,
            Err(error) => return vec![self.error(&ApiError::from(error), None)],
        };
        let event_id = event.event_id.clone();
        self.perform(event).unwrap_or_else(|error| vec![self.error(&error, event_id.as_deref())])
    }

    /// A message that is not text.
    pub fn on_binary(&self) -> Vec<Effect> {
        let error = ApiError::invalid("type", "events are text; send JSON in text messages");
        vec![self.error(&error, None)]
    }

    fn perform(&mut self, event: ClientEvent) -> Result<Vec<Effect>, ApiError> {
        match event.kind.as_str() {
            "session.update" => self.update(event.session),
            "input_audio_buffer.append" => self.append(event.audio),
            "input_audio_buffer.commit" => self.commit(),
            "input_audio_buffer.clear" => {
                self.audio.clear();
                Ok(vec![self.send(json!({ "type": "input_audio_buffer.cleared" }))])
            }
            "conversation.item.create" => self.create_item(event.item, event.previous_item_id.as_deref()),
            "conversation.item.retrieve" => {
                let place = self.place_of(event.item_id.as_deref())?;
                let item = self.items.get(place).map(|item| item.json.clone());
                Ok(vec![self.send(json!({ "type": "conversation.item.retrieved", "item": item }))])
            }
            "conversation.item.delete" => {
                let place = self.place_of(event.item_id.as_deref())?;
                let Item { id, .. } = self.remove(place);
                Ok(vec![self.send(json!({ "type": "conversation.item.deleted", "item_id": id }))])
            }
            "conversation.item.truncate" => self.truncate(&event),
            "response.create" => self.create_response(event.response.unwrap_or_default()),
            "response.cancel" => self.cancel(event.response_id.as_deref()),
            // The server has no buffer of output.
            "output_audio_buffer.clear" => Ok(Vec::new()),
            kind => Err(ApiError::invalid("type", format!("the type \"{kind}\" of the event is not known"))),
        }
    }

    fn update(&mut self, session: Option<Map<String, Value>>) -> Result<Vec<Effect>, ApiError> {
        let changes = session.ok_or_else(|| ApiError::missing("session", "session.update needs session"))?;
        let tools = changes.get("tools").map(RawJson::from_value).transpose();
        let tools = tools.map_err(|error| ApiError::invalid("session.tools", error.to_string()))?;
        client_tools(tools.as_ref(), "session.tools")?;
        if changes.get("instructions").is_some_and(|text| !text.is_string()) {
            return Err(ApiError::invalid("session.instructions", "instructions are a text"));
        }
        let mut session = self.session.clone();
        for (name, value) in changes {
            let is_fixed = matches!(name.as_str(), "id" | "object" | "type" | "model");
            // Output is text, and speech is not detected.
            let is_absent = matches!(name.as_str(), "modalities" | "output_modalities" | "turn_detection");
            if !is_fixed && !is_absent {
                session.insert(name, value);
            }
        }
        let limit = self.max_bytes / SETTINGS_PART;
        if serde_json::to_string(&session).map_or(usize::MAX, |text| text.len()) > limit {
            let message = format!("the settings of a session have at most {limit} bytes; send less");
            return Err(ApiError::invalid("session", message));
        }
        self.session = session;
        Ok(vec![self.send(json!({ "type": "session.updated", "session": self.session }))])
    }

    fn append(&mut self, audio: Option<String>) -> Result<Vec<Effect>, ApiError> {
        let audio =
            audio.ok_or_else(|| ApiError::missing("audio", "input_audio_buffer.append needs audio"))?;
        let bytes = decoded(&audio)?;
        if self.audio.len().saturating_add(bytes.len()) > MAX_AUDIO {
            let message = format!("the buffer holds at most {MAX_AUDIO} bytes; commit or clear it first");
            return Err(ApiError::invalid("audio", message).with_code("input_audio_buffer_full"));
        }
        self.audio.extend(bytes);
        Ok(Vec::new())
    }

    fn commit(&mut self) -> Result<Vec<Effect>, ApiError> {
        if self.audio.is_empty() {
            let message = "the buffer is empty; append audio before you commit it";
            return Err(ApiError::invalid("audio", message).with_code("input_audio_buffer_commit_empty"));
        }
        let item = audio_item(self.new_id("item"), &self.audio, self.takes_audio())?;
        self.audio.clear();
        let previous = self.items.last().map(|item| item.id.clone());
        let event = json!({
            "type": "input_audio_buffer.committed", "previous_item_id": previous, "item_id": item.id,
        });
        let mut effects = vec![self.send(event)];
        effects.extend(self.insert(item, self.items.len())?);
        Ok(effects)
    }

    fn takes_audio(&self) -> bool {
        let model = self.agent.agent().options().model.as_ref();
        model.is_some_and(|model| model.capabilities().audio_input)
    }

    fn place_of(&self, id: Option<&str>) -> Result<usize, ApiError> {
        let id = id.ok_or_else(|| ApiError::missing("item_id", "the event needs item_id"))?;
        let place = self.items.iter().position(|item| item.id == id);
        place.ok_or_else(|| {
            ApiError::invalid("item_id", format!("the conversation has no item \"{id}\""))
                .with_code("item_not_found")
        })
    }

    fn create_item(
        &mut self,
        item: Option<ItemParam>,
        previous: Option<&str>,
    ) -> Result<Vec<Effect>, ApiError> {
        let item = item.ok_or_else(|| ApiError::missing("item", "conversation.item.create needs item"))?;
        let id = item.id.clone().unwrap_or_else(|| self.new_id("item"));
        if self.items.iter().any(|item| item.id == id) {
            return Err(ApiError::invalid(
                "item.id",
                format!("the conversation already has an item \"{id}\""),
            ));
        }
        let place = match previous {
            None => self.items.len(),
            Some("root") => 0,
            Some(previous) => {
                let place = self.place_of(Some(previous));
                place.map_err(|error| error.with_param("previous_item_id"))?.saturating_add(1)
            }
        };
        let item = item.into_item(id, self.takes_audio())?;
        self.insert(item, place)
    }

    fn insert(&mut self, item: Item, place: usize) -> Result<Vec<Effect>, ApiError> {
        if self.items.len() >= MAX_ITEMS {
            let message = format!("a conversation has at most {MAX_ITEMS} items; delete some");
            return Err(ApiError::invalid("item", message));
        }
        let bytes = self.bytes.saturating_add(item.size());
        if bytes > self.max_bytes {
            let message = format!("a conversation has at most {} bytes; delete items", self.max_bytes);
            return Err(ApiError::invalid("item", message));
        }
        self.bytes = bytes;
        let previous = place.checked_sub(1).and_then(|before| self.items.get(before));
        let previous = previous.map(|item| item.id.clone());
        let events =
            self.generation.item_events().iter().map(|kind| {
                self.send(json!({ "type": kind, "previous_item_id": previous, "item": item.json }))
            });
        let effects = events.collect();
        self.items.insert(place.min(self.items.len()), item);
        Ok(effects)
    }

    fn remove(&mut self, place: usize) -> Item {
        let item = self.items.remove(place);
        self.bytes = self.bytes.saturating_sub(item.size());
        item
    }

    /// The client has played less than the agent has said. The agent says text, which has no times: what was not played at
    /// all is removed from the conversation, and what was played in part stays as it is.
    fn truncate(&mut self, event: &ClientEvent) -> Result<Vec<Effect>, ApiError> {
        let place = self.place_of(event.item_id.as_deref())?;
        let item = self.items.get_mut(place);
        if item
            .as_ref()
            .is_some_and(|item| item.json.get("role").and_then(Value::as_str) != Some("assistant"))
        {
            let message = "only messages of the assistant can be truncated";
            return Err(ApiError::invalid("item_id", message));
        }
        if let (Some(item), Some(0), 0) = (item, event.audio_end_ms, event.content_index.unwrap_or(0)) {
            self.bytes = self.bytes.saturating_sub(item.size());
            item.empty();
            self.bytes = self.bytes.saturating_add(item.size());
        }
        Ok(vec![self.send(json!({
            "type": "conversation.item.truncated",
            "item_id": event.item_id,
            "content_index": event.content_index.unwrap_or(0),
            "audio_end_ms": event.audio_end_ms.unwrap_or(0),
        }))])
    }

    fn cancel(&self, id: Option<&str>) -> Result<Vec<Effect>, ApiError> {
        let is_active = self.active.as_ref().is_some_and(|active| id.is_none_or(|id| id == active.id));
        if is_active {
            return Ok(vec![Effect::Cancel]);
        }
        let message = "there is no response in progress that could be cancelled";
        Err(ApiError::invalid("response_id", message).with_code("response_cancel_not_active"))
    }

    fn create_response(&mut self, response: ResponseParam) -> Result<Vec<Effect>, ApiError> {
        if let Some(active) = &self.active {
            let message =
                format!("the response \"{}\" is in progress; wait for its end, or cancel it", active.id);
            return Err(
                ApiError::invalid("response", message).with_code("conversation_already_has_active_response")
            );
        }
        let messages = match response.input {
            None => self.items.iter().map(|item| item.message.clone()).collect(),
            Some(items) => {
                let takes_audio = self.takes_audio();
                let items = items.into_iter().map(|item| {
                    let id = item.id.clone().unwrap_or_default();
                    item.into_item(id, takes_audio).map(|item| item.message)
                });
                items.collect::<Result<Vec<Message>, ApiError>>()?
            }
        };
        let converted = messages_to_upp(&joined(messages), &*self.ids, &*self.clock)?;
        check_calls(&converted.messages, "conversation")?;
        let of_session = |name: &str| self.session.get(name).cloned();
        let instructions = response
            .instructions
            .or_else(|| of_session("instructions").and_then(|text| text.as_str().map(str::to_owned)));
        let raw = |name: &str| of_session(name).and_then(|value| RawJson::from_value(&value).ok());
        let mut tools = client_tools(response.tools.or_else(|| raw("tools")).as_ref(), "response.tools")?;
        let names: Vec<String> = tools.iter().map(|tool| tool.name.clone()).collect();
        let choice = response.tool_choice.or_else(|| raw("tool_choice"));
        let tool_choice = ToolChoice::read(choice.as_ref(), &names)?;
        if tool_choice == ToolChoice::None {
            tools.clear();
        }
        let mut all: Vec<String> = instructions.filter(|text| !text.is_empty()).into_iter().collect();
        all.extend(converted.instructions);
        let mut options = RunOptions { instructions: all, client_tools: tools, ..RunOptions::default() };
        let parameters = Parameters { tool_choice, ..Parameters::default() };
        apply_parameters(&self.agent, &parameters, &mut options);
        let response_id = self.new_id("resp");
        let in_conversation = response.conversation.as_deref() != Some("none");
        let metadata = response.metadata.unwrap_or_default();
        let active = ActiveResponse::new(self.generation, response_id.clone(), in_conversation, metadata);
        let created = self.send(active.created());
        self.active = Some(active);
        let input = run_input(converted.messages.into_iter().map(Arc::new).collect());
        Ok(vec![created, Effect::Start(Box::new(Start { response_id, input, options }))])
    }

    /// A part of the reply.
    pub fn on_part(&mut self, part: ReplyPart, usage: &UsageStats) -> Vec<Effect> {
        let Some(mut active) = self.active.take() else { return Vec::new() };
        if let ReplyPart::End(ending) = part {
            return self.end(active, &ending, usage);
        }
        let events = active.push(part, || self.new_id("item"));
        self.active = Some(active);
        events.into_iter().map(|event| self.send(event)).collect()
    }

    fn end(&mut self, mut active: ActiveResponse, ending: &Ending, usage: &UsageStats) -> Vec<Effect> {
        let events = active.end(ending, usage);
        let effects = events.into_iter().map(|event| self.send(event)).collect();
        if active.in_conversation {
            for item in active.into_output() {
                self.bytes = self.bytes.saturating_add(item.size());
                self.items.push(item);
            }
        }
        effects
    }

    /// The events of a response that must not start.
    pub fn refused(&mut self, error: &ApiError) -> Vec<String> {
        let ending = Ending::Failed(Box::new(error.details()));
        let effects = self.on_part(ReplyPart::End(ending), &UsageStats::default());
        let events = effects.into_iter().chain([self.error(error, None)]);
        events
            .filter_map(|effect| match effect {
                Effect::Send(event) => Some(event),
                Effect::Start(_) | Effect::Cancel => None,
            })
            .collect()
    }
}

/// Messages in which calls in a row, and the text before them, are one message.
fn joined(messages: Vec<Message>) -> Vec<Message> {
    let mut all: Vec<Message> = Vec::with_capacity(messages.len());
    for message in messages {
        let calls = message.tool_calls.clone().unwrap_or_default();
        match all.last_mut() {
            Some(last) if !calls.is_empty() && last.role == message.role => {
                last.tool_calls.get_or_insert_default().extend(calls);
            }
            _ => all.push(message),
        }
    }
    all
}

/// The tools of a session or of a response.
fn client_tools(
    tools: Option<&RawJson>,
    param: &str,
) -> Result<Vec<turntree_core::message::ToolDefinition>, ApiError> {
    let Some(tools) = tools.filter(|tools| !tools.is_null()) else { return Ok(Vec::new()) };
    let tools: Vec<ToolParam> =
        tools.to().map_err(|error| ApiError::invalid(param, format!("the tools are not valid: {error}")))?;
    if tools.iter().any(|tool| tool.kind.as_deref().is_some_and(|kind| kind != "function")) {
        return Err(ApiError::unsupported(param, "only tools of the type \"function\" are supported"));
    }
    let tools: Vec<ToolDefinition> = tools
        .into_iter()
        .map(|tool| {
            let ToolParam { name, description, parameters, .. } = tool;
            let function =
                FunctionDefinition { name, description, parameters, ..FunctionDefinition::default() };
            ToolDefinition::Function(Box::new(FunctionTool { function, ..FunctionTool::default() }))
        })
        .collect();
    tools_to_upp(&tools).map_err(|error| ApiError::from(error).with_param(param))
}
