//! JSON Schema of the document's unions and collections; its objects describe themselves where they are defined.

use serde_json::{Value, json};

use super::action::{
    Action, AssistantMessageAction, SystemAction, ThinkingAction, ToolCallAction, ToolReturnAction,
    UserMessageAction,
};
use super::content::{ContentPart, MessageContent};
use super::document::{Actions, AgentConfig, AgentRegistry};
use crate::core::json::schema::{Definitions, JsonSchema};

impl JsonSchema for MessageContent {
    fn schema(definitions: &mut Definitions) -> Value {
        json!({ "anyOf": [{ "type": "string" }, Vec::<ContentPart>::schema(definitions)] })
    }
}

impl JsonSchema for Action {
    fn schema(definitions: &mut Definitions) -> Value {
        definitions.reference("Action", |definitions| {
            let known = [
                UserMessageAction::schema(definitions),
                AssistantMessageAction::schema(definitions),
                ThinkingAction::schema(definitions),
                ToolCallAction::schema(definitions),
                ToolReturnAction::schema(definitions),
            ];
            let names = json!(["user_message", "assistant_message", "thinking", "tool_call", "tool_return"]);
            let system = json!({
                "allOf": [
                    SystemAction::schema(definitions),
                    { "properties": { "action_type": { "pattern": "^system\\." } }, "required": ["action_type"] },
                ],
            });
            let mut other = other_than("action_type", &names);
            if let Some(tag) = other.pointer_mut("/properties/action_type/not") {
                *tag = json!({ "anyOf": [{ "enum": names }, { "pattern": "^system\\." }] });
            }
            json!({ "anyOf": [{ "oneOf": known }, system, other] })
        })
    }
}

impl JsonSchema for Actions {
    fn schema(definitions: &mut Definitions) -> Value {
        json!({ "type": "array", "items": Action::schema(definitions) })
    }
}

impl JsonSchema for AgentRegistry {
    fn schema(definitions: &mut Definitions) -> Value {
        json!({ "type": "object", "additionalProperties": AgentConfig::schema(definitions) })
    }
}

/// An object whose tag is none of the known names: kept as it is.
fn other_than(tag: &str, names: &Value) -> Value {
    json!({
        "type": "object",
        "properties": { tag: { "type": "string", "not": { "enum": names } } },
        "required": [tag],
    })
}
