//! The fields of a request that select an answer. Other fields are skipped.

use std::borrow::Cow;

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// The fields of a request that select an answer, for both APIs.
#[derive(Debug, Deserialize)]
pub(crate) struct Selection<'a> {
    /// The name of the model.
    #[serde(borrow)]
    pub(crate) model: Cow<'a, str>,
    /// True for server-sent events instead of one JSON document.
    #[serde(default)]
    pub(crate) stream: bool,
    #[serde(default)]
    stream_options: Option<StreamOptions>,
    /// `messages` of Chat Completions, `input` of Responses.
    #[serde(default, alias = "input")]
    messages: Conversation,
}

impl Selection<'_> {
    /// True if the request contains a tool result.
    pub(crate) fn has_tool_result(&self) -> bool {
        self.messages.tool_result
    }

    /// True if a Chat Completions stream ends with its usage.
    pub(crate) fn wants_usage(&self) -> bool {
        self.stream_options.as_ref().is_some_and(|options| options.include_usage)
    }
}

#[derive(Debug, Deserialize)]
struct StreamOptions {
    #[serde(default)]
    include_usage: bool,
}

/// A list of messages or items, or a text, which Responses also accepts.
#[derive(Debug, Default)]
struct Conversation {
    tool_result: bool,
}

impl<'de> Deserialize<'de> for Conversation {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ConversationVisitor)
    }
}

struct ConversationVisitor;

impl<'de> Visitor<'de> for ConversationVisitor {
    type Value = Conversation;

    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("a text or a list of messages")
    }

    fn visit_str<E>(self, _text: &str) -> Result<Conversation, E> {
        Ok(Conversation::default())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Conversation, A::Error> {
        let mut tool_result = false;
        while let Some(item) = items.next_element::<Item>()? {
            tool_result |= item.is_tool_result;
        }
        Ok(Conversation { tool_result })
    }
}

/// One message (`role`) or one item (`type`).
struct Item {
    is_tool_result: bool,
}

impl<'de> Deserialize<'de> for Item {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(ItemVisitor)
    }
}

struct ItemVisitor;

impl<'de> Visitor<'de> for ItemVisitor {
    type Value = Item;

    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("a message")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Item, A::Error> {
        let mut is_tool_result = false;
        while let Some(key) = fields.next_key::<Cow<'de, str>>()? {
            match key.as_ref() {
                "role" => is_tool_result |= fields.next_value::<Cow<'de, str>>()? == "tool",
                "type" => is_tool_result |= fields.next_value::<Cow<'de, str>>()? == "function_call_output",
                _ => drop(fields.next_value::<IgnoredAny>()?),
            }
        }
        Ok(Item { is_tool_result })
    }
}
