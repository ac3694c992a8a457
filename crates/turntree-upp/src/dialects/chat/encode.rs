//! Writes requests, without intermediate JSON values.
//!
//! Spec: UPP-1.2 §19.3

use std::borrow::Cow;
use std::fmt::Write as _;

use serde::ser::{SerializeMap, SerializeSeq};
use serde::{Deserialize, Serialize, Serializer};
use sha2::{Digest as _, Sha256};

use super::content::{Picture, UserContent, refused_from_user};
use super::{CallIds, ChatOptions, Replay, StructureForm};
use crate::dialects::common::{
    BlockLocation, BodyWriter, Concatenated, ResultContent, ResultPart, ResultText, StructureSchema,
    refuse_choices, result_parts, stream_options, system_text, tool_metadata_value,
};
use crate::error::UppError;
use crate::provenance::{ModelIdentity, Provenance};
use crate::request::{ModelRequest, System};
use turntree_core::json::{RawJson, RawObject};
use turntree_core::message::content::ContentBlock;
use turntree_core::message::message::History;
use turntree_core::message::{Body, Message, ToolCall, ToolDefinition, ToolResult};

/// The name of the structured output.
const STRUCTURE_NAME: &str = "json_response";

/// The cache mark of texts and tools, for hosts that support it.
const CACHE_CONTROL: &str = "cache_control";

/// Writes the body of a request.
pub(super) fn body(
    options: &ChatOptions,
    model_id: &str,
    request: &ModelRequest,
    streaming: bool,
) -> Result<Vec<u8>, UppError> {
    let provider = &*options.endpoint.provider;
    check(options, &request.messages)?;
    refuse_choices(provider, &request.params, "n")?;
    let schema = request.structure.as_deref();
    let schema =
        schema.map(|structure| StructureSchema::new(provider, structure, request.strict)).transpose()?;
    let system = system(options, request, schema.as_ref())?;

    let mut body = BodyWriter::new(provider, &request.params);
    body.member("model", model_id)?;
    body.member("messages", &Conversation { system, history: &request.messages, options, model_id })?;
    if !request.tools.is_empty() {
        let native = if options.native_tools { native_tools(provider, &request.params)? } else { Vec::new() };
        body.member("tools", &Tools { native, ours: &request.tools, options })?;
    }
    if let Some(schema) = schema {
        body.member(
            "response_format",
            &match options.structure {
                StructureForm::JsonSchema => {
                    ResponseFormat { kind: "json_schema", json_schema: Some(Format(schema)) }
                }
                StructureForm::JsonObject => ResponseFormat { kind: "json_object", json_schema: None },
            },
        )?;
    }
    if streaming {
        body.member("stream", &true)?;
        if options.stream_options {
            body.member("stream_options", &stream_options(&request.params))?;
        } else {
            body.reserve("stream_options");
        }
    } else {
        body.reserve("stream");
        body.reserve("stream_options");
    }
    Ok(body.finish())
}

/// The system prompt.
#[derive(Serialize)]
#[serde(untagged)]
enum SystemContent<'a> {
    Text(Cow<'a, str>),
    /// Blocks as the caller passed them, with their cache marks.
    Blocks(&'a RawJson),
}

fn system<'a>(
    options: &ChatOptions,
    request: &'a ModelRequest,
    schema: Option<&StructureSchema>,
) -> Result<Option<SystemContent<'a>>, UppError> {
    let provider = &*options.endpoint.provider;
    let reported = schema.filter(|_| options.structure == StructureForm::JsonObject);
    if let (Some(System::Blocks(blocks)), true, None) =
        (request.system.as_deref(), options.cache_control, reported)
    {
        check_blocks(provider, blocks)?;
        return Ok(Some(SystemContent::Blocks(blocks)));
    }
    let text = request.system.as_deref().map(|system| system_text(provider, system)).transpose()?;
    let Some(StructureSchema { schema, .. }) = reported else { return Ok(text.map(SystemContent::Text)) };
    let schema = RawJson::from_value(schema).unwrap_or_default();
    let mut text = text.map(Cow::into_owned).unwrap_or_default();
    let gap = if text.is_empty() { "" } else { "\n\n" };
    // Writing to a string cannot fail.
    let _ = write!(
        text,
        "{gap}Answer in json: one object that follows this JSON Schema, and nothing else.\n{schema}"
    );
    Ok(Some(SystemContent::Text(text.into())))
}

fn check_blocks(provider: &str, blocks: &RawJson) -> Result<(), UppError> {
    #[derive(Deserialize)]
    struct TextBlock {
        #[serde(rename = "type")]
        kind: String,
        #[serde(rename = "text")]
        _text: String,
    }
    let read: Result<Vec<TextBlock>, _> = blocks.to();
    match read {
        Ok(read) if read.iter().all(|block| block.kind == "text") => Ok(()),
        _ => Err(UppError::invalid_request(
            provider,
            "system: each block needs \"type\": \"text\" and a \"text\" that is a string",
        )),
    }
}

/// Provider tools, from `params.tools`.
fn native_tools(provider: &str, params: &RawObject) -> Result<Vec<RawJson>, UppError> {
    match params.get("tools").filter(|tools| !tools.is_null()) {
        None => Ok(Vec::new()),
        Some(tools) => tools.to().map_err(|_| {
            UppError::invalid_request(provider, "params.tools: expected a list of provider tools")
        }),
    }
}

/// Rejects unsupported content before anything is written.
fn check(options: &ChatOptions, history: &History) -> Result<(), UppError> {
    let provider = &*options.endpoint.provider;
    for (message_place, message) in history.iter().enumerate() {
        for (block_place, block) in message.content().iter().enumerate() {
            let remedy = match &message.body {
                Body::User { .. } => refused_from_user(options, block),
                Body::Assistant { .. } => refused_from_assistant(options, block),
                Body::ToolResult { .. } => None,
            };
            if let Some(remedy) = remedy {
                let location = BlockLocation { provider, message: message_place, block: block_place };
                return Err(location.unsupported(message, block, remedy));
            }
        }
        for result in message.results() {
            ResultContent::new(result, |part| match part {
                ResultPart::Media(block) => {
                    refused_from_user(options, block).map_or(Ok(RawJson::default()), Err)
                }
                ResultPart::Text(_) => Ok(RawJson::default()),
            })
            .map_err(|kind| kind.at(provider, message_place, message, result))?;
        }
    }
    Ok(())
}

fn refused_from_assistant(options: &ChatOptions, block: &ContentBlock) -> Option<&'static str> {
    match block {
        ContentBlock::Text(_) | ContentBlock::Reasoning(_) => None,
        ContentBlock::Image(_) if options.images_in_answers => None,
        _ => Some("assistant messages support only text and tool calls here; move it into a user message"),
    }
}

struct Conversation<'a> {
    system: Option<SystemContent<'a>>,
    history: &'a History,
    options: &'a ChatOptions,
    model_id: &'a str,
}

impl Serialize for Conversation<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let options = self.options;
        let mut messages = serializer.serialize_seq(None)?;
        if let Some(system) = &self.system {
            messages.serialize_element(&TextMessage { role: "system", content: system })?;
        }
        let mut is_after_results = false;
        for message in self.history {
            let was_after_results =
                std::mem::replace(&mut is_after_results, matches!(message.body, Body::ToolResult { .. }));
            match &message.body {
                Body::User { content } => {
                    if let Some(bridge) = options.after_results.filter(|_| was_after_results) {
                        messages.serialize_element(&TextMessage { role: "assistant", content: bridge })?;
                    }
                    let mark = || message_metadata_value(message, &options.endpoint.provider, CACHE_CONTROL);
                    let content = UserContent {
                        blocks: content,
                        documents: options.documents,
                        cache_control: options.cache_control.then(mark).flatten(),
                    };
                    messages.serialize_element(&TextMessage { role: "user", content })?;
                }
                Body::Assistant { .. } => {
                    messages.serialize_element(&Assistant { message, options, model_id: self.model_id })?;
                }
                Body::ToolResult { results } => {
                    let mut media = Vec::new();
                    for result in results {
                        messages.serialize_element(&ToolReturn::new(result, options, &mut media))?;
                    }
                    if !media.is_empty() {
                        is_after_results = false;
                        if let Some(bridge) = options.after_results {
                            messages
                                .serialize_element(&TextMessage { role: "assistant", content: bridge })?;
                        }
                        let content =
                            UserContent { blocks: &media, documents: options.documents, cache_control: None };
                        messages.serialize_element(&TextMessage { role: "user", content })?;
                    }
                }
            }
        }
        messages.end()
    }
}

/// A value of a message's metadata under a provider's name.
fn message_metadata_value(message: &Message, provider: &str, name: &str) -> Option<RawJson> {
    message.metadata.as_ref()?.get(provider).and_then(RawObject::from_raw)?.remove(name)
}

#[derive(Serialize)]
struct TextMessage<C> {
    role: &'static str,
    content: C,
}

#[derive(Serialize)]
struct ToolReturn<'a> {
    role: &'static str,
    tool_call_id: Cow<'a, str>,
    content: ReturnedText<'a>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum ReturnedText<'a> {
    Whole(ResultText<'a>),
    /// The texts of a result whose media follow in a message of the user.
    Texts(String),
}

impl<'a> ToolReturn<'a> {
    /// The result of a tool is text in this format: its media are added to `media`.
    fn new(result: &'a ToolResult, options: &ChatOptions, media: &mut Vec<ContentBlock>) -> Self {
        let tool_call_id = options.call_ids.sent(&result.tool_call_id);
        let Some(parts) = result_parts(&result.result) else {
            return Self {
                role: "tool",
                tool_call_id,
                content: ReturnedText::Whole(ResultText(&result.result)),
            };
        };
        let mut texts = Vec::new();
        media.push(ContentBlock::text(format!("The result of the tool call {tool_call_id}:")));
        for part in parts {
            match part {
                ResultPart::Text(text) => texts.push(text),
                ResultPart::Media(block) => {
                    texts.push(format!("[{}: see the next message]", block.kind()));
                    media.push(*block);
                }
            }
        }
        Self { role: "tool", tool_call_id, content: ReturnedText::Texts(texts.join("\n")) }
    }
}

impl CallIds {
    /// The length of short ids.
    const SHORT: usize = 9;

    /// The id as it is sent: the same for a call and its result.
    fn sent(self, id: &str) -> Cow<'_, str> {
        const DIGITS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
        let is_taken = id.len() == Self::SHORT && id.bytes().all(|byte| byte.is_ascii_alphanumeric());
        if self == Self::Any || is_taken {
            return Cow::Borrowed(id);
        }
        let digits = Sha256::digest(id).into_iter().take(Self::SHORT);
        let digits = digits.map(|byte| DIGITS.get(usize::from(byte) % DIGITS.len()).copied().unwrap_or(b'0'));
        digits.map(char::from).collect::<String>().into()
    }
}

struct Assistant<'a> {
    message: &'a Message,
    options: &'a ChatOptions,
    model_id: &'a str,
}

impl<'a> Assistant<'a> {
    fn thoughts(&self) -> impl Iterator<Item = &'a str> + Clone {
        self.message.content().iter().filter_map(|block| match block {
            ContentBlock::Reasoning(block) => Some(block.text.as_str()),
            _ => None,
        })
    }

    /// The reasoning as a member: from the metadata, or else from the blocks.
    fn reasoning<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        let (name, is_required) = match self.options.reasoning {
            Replay::Dropped | Replay::Parts => return Ok(()),
            Replay::Member(name) => (name, false),
            Replay::RequiredWithCalls(name) => (name, !self.message.tool_calls().is_empty()),
        };
        let stored = message_metadata_value(self.message, &self.options.endpoint.provider, name)
            .filter(RawJson::is_string);
        let thoughts = self.thoughts();
        match stored {
            Some(stored) => map.serialize_entry(name, &stored),
            None if is_required || thoughts.clone().next().is_some() => {
                map.serialize_entry(name, &Concatenated { texts: thoughts, separator: "\n" })
            }
            None => Ok(()),
        }
    }

    fn details<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        const NAME: &str = "reasoning_details";
        if !self.options.reasoning_details {
            return Ok(());
        }
        let producer = ModelIdentity { provider: &self.options.endpoint.provider, model_id: self.model_id };
        let stored = message_metadata_value(self.message, producer.provider, NAME).filter(RawJson::is_array);
        // Signatures and encrypted parts are only for the model that created them.
        let stored = stored.filter(|_| producer.made(Provenance::of(self.message, producer.provider)));
        stored.map_or(Ok(()), |details| map.serialize_entry(NAME, &details))
    }
}

impl Serialize for Assistant<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let content = self.message.content();
        let texts = content.iter().filter_map(ContentBlock::as_text);
        let calls = self.message.tool_calls();
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("role", "assistant")?;
        let has_text = texts.clone().any(|text| !text.is_empty());
        if self.options.reasoning == Replay::Parts && self.thoughts().any(|thought| !thought.is_empty()) {
            map.serialize_entry("content", &Parts { thoughts: self.thoughts(), texts })?;
        } else if calls.is_empty() || has_text {
            map.serialize_entry("content", &Concatenated { texts, separator: "" })?;
        } else {
            // `null` only for messages with calls and no text. Otherwise hosts require a string, even an empty one.
            map.serialize_entry("content", &())?;
        }
        self.reasoning(&mut map)?;
        self.details(&mut map)?;
        let images = content.iter().filter_map(|block| match block {
            ContentBlock::Image(image) => Some(Picture(image)),
            _ => None,
        });
        let images: Vec<Picture<'_>> = images.collect();
        if !images.is_empty() {
            map.serialize_entry("images", &images)?;
        }
        if !calls.is_empty() {
            map.serialize_entry("tool_calls", &Calls { calls, ids: self.options.call_ids })?;
        }
        map.end()
    }
}

/// Reasoning and texts as parts of one content.
struct Parts<T, U> {
    thoughts: T,
    texts: U,
}

impl<'t, T, U> Serialize for Parts<T, U>
where
    T: Iterator<Item = &'t str> + Clone,
    U: Iterator<Item = &'t str> + Clone,
{
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        #[serde(untagged)]
        enum Part<'a> {
            Thinking(Thinking<'a>),
            Text(Text<'a>),
        }
        #[derive(Serialize)]
        #[serde(tag = "type", rename = "thinking")]
        struct Thinking<'a> {
            thinking: [Text<'a>; 1],
        }
        #[derive(Serialize)]
        #[serde(tag = "type", rename = "text")]
        struct Text<'a> {
            text: &'a str,
        }
        let thoughts =
            self.thoughts.clone().map(|text| Part::Thinking(Thinking { thinking: [Text { text }] }));
        let texts = self.texts.clone().map(|text| Part::Text(Text { text }));
        serializer.collect_seq(thoughts.chain(texts))
    }
}

struct Calls<'a> {
    calls: &'a [ToolCall],
    ids: CallIds,
}

impl Serialize for Calls<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Call<'a> {
            id: Cow<'a, str>,
            #[serde(rename = "type")]
            kind: &'static str,
            function: Function<'a>,
        }
        #[derive(Serialize)]
        struct Function<'a> {
            name: &'a str,
            arguments: &'a str,
        }
        serializer.collect_seq(self.calls.iter().map(|call| Call {
            id: self.ids.sent(&call.tool_call_id),
            kind: "function",
            function: Function { name: &call.tool_name, arguments: call.arguments.get() },
        }))
    }
}

struct Tools<'a> {
    native: Vec<RawJson>,
    ours: &'a [ToolDefinition],
    options: &'a ChatOptions,
}

impl Serialize for Tools<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Function<'a> {
            name: &'a str,
            description: &'a str,
            parameters: &'a RawJson,
            #[serde(skip_serializing_if = "Option::is_none")]
            strict: Option<RawJson>,
        }
        #[derive(Serialize)]
        struct Tool<'a> {
            #[serde(rename = "type")]
            kind: &'static str,
            function: Function<'a>,
            #[serde(skip_serializing_if = "Option::is_none")]
            cache_control: Option<RawJson>,
        }
        let mut list = serializer.serialize_seq(Some(self.native.len() + self.ours.len()))?;
        self.native.iter().try_for_each(|tool| list.serialize_element(tool))?;
        for tool in self.ours {
            let mark = || tool_metadata_value(tool, &self.options.endpoint.provider, CACHE_CONTROL);
            list.serialize_element(&Tool {
                kind: "function",
                function: Function {
                    name: &tool.name,
                    description: &tool.description,
                    parameters: &tool.parameters,
                    strict: tool_metadata_value(tool, &self.options.endpoint.provider, "strict"),
                },
                cache_control: self.options.cache_control.then(mark).flatten(),
            })?;
        }
        list.end()
    }
}

#[derive(Serialize)]
struct ResponseFormat {
    #[serde(rename = "type")]
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    json_schema: Option<Format>,
}

/// `{"name", "description"?, "schema", "strict"}`
struct Format(StructureSchema);

impl Serialize for Format {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(StructureSchema { description, schema, strict }) = self;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("name", STRUCTURE_NAME)?;
        if let Some(description) = description {
            map.serialize_entry("description", description)?;
        }
        map.serialize_entry("schema", schema)?;
        map.serialize_entry("strict", strict)?;
        map.end()
    }
}
