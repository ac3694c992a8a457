//! Messages: user, assistant, tool results. Immutable; shared by `Arc`.
//!
//! Spec: UPP-1.2 §4

use std::sync::Arc;

use serde::de::{Error, MapAccess, SeqAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Serialize};

use super::content::{ContentBlock, raw_as_text};
use super::tool::{ToolCall, ToolResult};
use crate::ids::IdSource;
use crate::json::object::Field;
use crate::json::schema::{Definitions, JsonSchema, ObjectSchema};
use crate::json::tagged::CowStr;
use crate::json::{Extra, RawJson, RawObject};
use crate::time::{Clock, Timestamp};

/// Provider metadata by provider name. A provider reads and writes only its own namespace.
pub type Metadata = RawObject;

/// About the size in bytes of the members that all messages have, as JSON.
const MEMBERS_SIZE: usize = 256;

/// One message of a conversation.
#[derive(Debug, Clone, PartialEq)]
pub struct Message {
    /// The id: a UUIDv4, or the vendor's id.
    pub id: String,
    /// The time of creation.
    pub timestamp: Timestamp,
    /// Provider metadata by provider name.
    pub metadata: Option<Metadata>,
    /// The role and the content.
    pub body: Body,
    /// Unknown members.
    pub extra: Extra,
}

/// The content of a message, by role.
#[derive(Debug, Clone, PartialEq)]
pub enum Body {
    /// A user, or the application.
    User {
        /// The content blocks.
        content: Vec<ContentBlock>,
    },
    /// A model.
    Assistant {
        /// The content blocks; reasoning comes before text.
        content: Vec<ContentBlock>,
        /// The tool calls. `None` and an empty list differ in JSON.
        tool_calls: Option<Vec<ToolCall>>,
    },
    /// The application, with the results of tool calls.
    ToolResult {
        /// One result per call.
        results: Vec<ToolResult>,
    },
}

/// The role of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MessageKind {
    /// A user, or the application.
    User,
    /// A model.
    Assistant,
    /// Tool results.
    ToolResult,
}

impl MessageKind {
    /// The name in JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Assistant => "assistant",
            Self::ToolResult => "tool_result",
        }
    }
}

impl Message {
    /// A new message; id and time come from the caller's sources.
    pub fn new(body: Body, ids: &dyn IdSource, clock: &dyn Clock) -> Self {
        Self { id: ids.string(), timestamp: clock.now(), metadata: None, body, extra: Extra::new() }
    }

    /// A user's text.
    pub fn user(text: impl Into<String>, ids: &dyn IdSource, clock: &dyn Clock) -> Self {
        Self::new(Body::User { content: vec![ContentBlock::text(text)] }, ids, clock)
    }

    /// A model's text.
    pub fn assistant(text: impl Into<String>, ids: &dyn IdSource, clock: &dyn Clock) -> Self {
        Self::new(Body::Assistant { content: vec![ContentBlock::text(text)], tool_calls: None }, ids, clock)
    }

    /// Tool results.
    pub fn tool_results(results: Vec<ToolResult>, ids: &dyn IdSource, clock: &dyn Clock) -> Self {
        Self::new(Body::ToolResult { results }, ids, clock)
    }

    /// Frees unused memory of lists and texts: a list with one block has room for four (half a kilobyte), and a text that was
    /// streamed has up to twice its size.
    pub fn shrink_to_fit(&mut self) {
        match &mut self.body {
            Body::User { content } | Body::Assistant { content, tool_calls: None } => shrink(content),
            Body::Assistant { content, tool_calls: Some(calls) } => {
                shrink(content);
                calls.shrink_to_fit();
            }
            Body::ToolResult { results } => results.shrink_to_fit(),
        }
    }

    /// About the size of the JSON in bytes: that of texts, data, arguments and results, and of the members that all have.
    pub fn size_hint(&self) -> usize {
        let content = self.content().iter().map(ContentBlock::size_hint);
        let calls = self.tool_calls().iter().map(|call| call.arguments.get().len());
        let results = self.results().iter().map(|result| result.result.get().len());
        content.chain(calls).chain(results).fold(MEMBERS_SIZE, usize::saturating_add)
    }

    /// The role of a message.
    pub const fn kind(&self) -> MessageKind {
        match self.body {
            Body::User { .. } => MessageKind::User,
            Body::Assistant { .. } => MessageKind::Assistant,
            Body::ToolResult { .. } => MessageKind::ToolResult,
        }
    }

    /// The content blocks; none for tool results, see [`Self::synthetic_content`].
    pub fn content(&self) -> &[ContentBlock] {
        match &self.body {
            Body::User { content } | Body::Assistant { content, .. } => content,
            Body::ToolResult { .. } => &[],
        }
    }

    /// The tool calls; empty for other messages.
    pub fn tool_calls(&self) -> &[ToolCall] {
        match &self.body {
            Body::Assistant { tool_calls: Some(calls), .. } => calls,
            _ => &[],
        }
    }

    /// True if there are tool calls.
    pub fn has_tool_calls(&self) -> bool {
        !self.tool_calls().is_empty()
    }

    /// Results of tool calls; empty for other messages.
    pub fn results(&self) -> &[ToolResult] {
        match &self.body {
            Body::ToolResult { results } => results,
            _ => &[],
        }
    }

    /// The blocks that accessors use: for tool results one text block per result.
    pub fn synthetic_content(&self) -> std::borrow::Cow<'_, [ContentBlock]> {
        match &self.body {
            Body::ToolResult { results } => {
                results.iter().map(|result| ContentBlock::text(raw_as_text(&result.result))).collect()
            }
            _ => self.content().into(),
        }
    }

    /// All text blocks joined by a blank line; reasoning is not text.
    pub fn text(&self) -> String {
        let content = self.synthetic_content();
        let texts: Vec<&str> = content.iter().filter_map(ContentBlock::as_text).collect();
        texts.join("\n\n")
    }

    /// The metadata of one provider.
    pub fn namespace(&self, provider: &str) -> Option<RawObject> {
        self.metadata.as_ref()?.get(provider).and_then(RawObject::from_raw)
    }
}

fn shrink(content: &mut Vec<ContentBlock>) {
    content.shrink_to_fit();
    for block in content {
        match block {
            ContentBlock::Text(block) => block.text.shrink_to_fit(),
            ContentBlock::Reasoning(block) => block.text.shrink_to_fit(),
            _ => {}
        }
    }
}

/// The shape of UPP-1.2 §4.1: `id, type, content, metadata, timestamp`, then `toolCalls` or `results`.
impl Serialize for Message {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("id", &self.id)?;
        map.serialize_entry("type", self.kind().as_str())?;
        map.serialize_entry("content", self.content())?;
        if let Some(metadata) = &self.metadata {
            map.serialize_entry("metadata", metadata)?;
        }
        map.serialize_entry("timestamp", &self.timestamp)?;
        match &self.body {
            Body::Assistant { tool_calls: Some(calls), .. } => map.serialize_entry("toolCalls", calls)?,
            Body::ToolResult { results } => map.serialize_entry("results", results)?,
            Body::User { .. } | Body::Assistant { .. } => {}
        }
        self.extra.serialize_into(&mut map)?;
        map.end()
    }
}

/// Content as a list of blocks, or as one text.
#[derive(Default)]
struct Content(Vec<ContentBlock>);

impl<'de> Deserialize<'de> for Content {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Blocks;
        impl<'de> Visitor<'de> for Blocks {
            type Value = Content;
            fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str("a list of content blocks or a string")
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<Content, E> {
                Ok(Content(vec![ContentBlock::text(text)]))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut blocks: A) -> Result<Content, A::Error> {
                // Most messages have one block, and the default capacity of four takes half a kilobyte.
                let mut content = Vec::with_capacity(1);
                while let Some(block) = blocks.next_element()? {
                    content.push(block);
                }
                Ok(Content(content))
            }
        }
        deserializer.deserialize_any(Blocks)
    }
}

/// The members of all kinds of messages. The type may come after the content, so all members are read first.
#[derive(Default)]
struct Members {
    id: Option<String>,
    kind: Option<MessageKind>,
    content: Option<Content>,
    metadata: Option<Metadata>,
    timestamp: Option<Timestamp>,
    tool_calls: Option<Vec<ToolCall>>,
    results: Option<Vec<ToolResult>>,
    extra: Extra,
}

impl<'de> Deserialize<'de> for MessageKind {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match CowStr::deserialize(deserializer)?.as_str() {
            "user" => Ok(Self::User),
            "assistant" => Ok(Self::Assistant),
            "tool_result" => Ok(Self::ToolResult),
            other => Err(D::Error::custom(format_args!(
                "Unknown message type: {other}; use user, assistant or tool_result"
            ))),
        }
    }
}

impl Members {
    fn read<'de, A: MapAccess<'de>>(mut map: A) -> Result<Self, A::Error> {
        let mut members = Self::default();
        while let Some(key) = map.next_key::<CowStr<'de>>()? {
            match key.as_str() {
                "id" => members.id = Some(map.next_value()?),
                "type" => members.kind = Some(map.next_value()?),
                "content" => members.content = map.next_value()?,
                "metadata" => members.metadata = map.next_value()?,
                "timestamp" => members.timestamp = Some(map.next_value()?),
                "toolCalls" => members.tool_calls = map.next_value()?,
                "results" => members.results = map.next_value()?,
                _ => {
                    let value: RawJson = map.next_value()?;
                    members.extra.push(key.as_str(), value);
                }
            }
        }
        members.extra.settle();
        Ok(members)
    }

    fn into_message<E: Error>(self) -> Result<Message, E> {
        let kind = self.kind.ok_or_else(|| E::missing_field("type"))?;
        let content = self.content.map(|content| content.0);
        let required = || E::missing_field("content");
        let body = match kind {
            MessageKind::User => Body::User { content: content.ok_or_else(required)? },
            MessageKind::Assistant => {
                Body::Assistant { content: content.ok_or_else(required)?, tool_calls: self.tool_calls }
            }
            MessageKind::ToolResult => Body::ToolResult { results: self.results.unwrap_or_default() },
        };
        Ok(Message {
            id: self.id.ok_or_else(|| E::missing_field("id"))?,
            timestamp: self.timestamp.ok_or_else(|| E::missing_field("timestamp"))?,
            metadata: self.metadata,
            body,
            extra: self.extra,
        })
    }
}

impl<'de> Deserialize<'de> for Message {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct AnyMessage;
        impl<'de> Visitor<'de> for AnyMessage {
            type Value = Message;
            fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str("a message")
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Message, A::Error> {
                Members::read(map)?.into_message()
            }
        }
        deserializer.deserialize_map(AnyMessage)
    }
}

/// A list of messages. (Deserializing `Vec<Arc<Message>>` allocates each message twice and moves it once more.)
#[derive(Debug, Clone, PartialEq)]
pub(super) struct SharedMessages(pub(super) Vec<Arc<Message>>);

impl Field for SharedMessages {}

impl JsonSchema for SharedMessages {
    fn schema(definitions: &mut Definitions) -> serde_json::Value {
        Vec::<Message>::schema(definitions)
    }
}

impl Serialize for SharedMessages {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(&self.0)
    }
}

impl<'de> Deserialize<'de> for SharedMessages {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct List;
        impl<'de> Visitor<'de> for List {
            type Value = SharedMessages;
            fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str("a list of messages")
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<SharedMessages, A::Error> {
                let mut messages = Vec::new();
                while let Some(message) = list.next_element::<Message>()? {
                    messages.push(Arc::new(message));
                }
                Ok(SharedMessages(messages))
            }
        }
        deserializer.deserialize_seq(List)
    }
}

/// A persistent vector of shared messages. Cloning copies no message.
pub type History = imbl::Vector<Arc<Message>>;

impl JsonSchema for Message {
    fn schema(definitions: &mut Definitions) -> serde_json::Value {
        definitions.reference("Message", |definitions| {
            let kinds = [MessageKind::User, MessageKind::Assistant, MessageKind::ToolResult];
            let one_of: Vec<_> = kinds.into_iter().map(|kind| kind.schema(definitions)).collect();
            serde_json::json!({ "oneOf": one_of })
        })
    }
}

impl MessageKind {
    /// The schema of messages of this kind.
    pub fn schema(self, definitions: &mut Definitions) -> serde_json::Value {
        let name = match self {
            Self::User => "UserMessage",
            Self::Assistant => "AssistantMessage",
            Self::ToolResult => "ToolResultMessage",
        };
        definitions.reference(name, |definitions| {
            let mut object = ObjectSchema::new(name);
            object.member("id", String::schema(definitions), "The id: a UUIDv4, or the vendor's id.", true);
            object.tag("type", self.as_str());
            let content = Vec::<ContentBlock>::schema(definitions);
            let content = serde_json::json!({ "anyOf": [content, { "type": "string" }] });
            object.member("content", content, "The content blocks, or a text.", self != Self::ToolResult);
            object.member(
                "metadata",
                Option::<Metadata>::schema(definitions),
                "Provider metadata by provider name.",
                false,
            );
            object.member("timestamp", Timestamp::schema(definitions), "The time of creation.", true);
            match self {
                Self::Assistant => {
                    let calls = Option::<Vec<ToolCall>>::schema(definitions);
                    object.member("toolCalls", calls, "The tool calls.", false);
                }
                Self::ToolResult => {
                    let results = Option::<Vec<ToolResult>>::schema(definitions);
                    object.member("results", results, "One result per call.", false);
                }
                Self::User => {}
            }
            object.finish()
        })
    }
}
