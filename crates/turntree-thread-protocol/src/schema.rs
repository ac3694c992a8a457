//! JSON Schema (2020-12): the schemas of unions and collections, and the published schema with the rules of the
//! protocol. The schemas of objects are defined beside the objects.

use serde_json::{Value, json};

use super::action::{
    Action, AssistantMessageAction, SystemAction, ThinkingAction, ToolCallAction, ToolReturnAction,
    UserMessageAction,
};
use super::content::{ContentPart, MessageContent};
use super::document::{Actions, AgentConfig, AgentRegistry, Thread};
use turntree_core::json::schema::{Definitions, JsonSchema};

/// The pattern of a timestamp. It does not check the days per month.
pub const TIMESTAMP: &str = concat!(
    "^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]",
    r"(\.[0-9]{1,9})?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9])?)?(?![\s\S])"
);

/// The pattern of a system action's type: a name without white space.
const SYSTEM_TYPE: &str = concat!(
    r"^system\.[^\t-\r \u0085\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+",
    r"(?![\s\S])"
);

/// The members that are counts: 64 bits.
const COUNTS: [&str; 5] = [
    "Usage/properties/input_tokens",
    "Usage/properties/output_tokens",
    "Usage/properties/total_tokens/anyOf/0",
    "ThinkingUsage/properties/thinking_tokens/anyOf/0",
    "Attachment/properties/size_bytes/anyOf/0",
];

/// Rules that JSON Schema cannot express: they compare members, count, or need a calendar.
pub const BEYOND_THE_SCHEMA: &[&str] = &[
    "sequence: consecutive integers from 1",
    "sequence, tokens and size_bytes: written without a fraction, an exponent or a sign (1, not 1.0)",
    "tool_call_id: a return has an open call",
    "tool_name: a return has the tool name of its call",
    "agent_id: a key of the registry",
    "agent_key: the key of an agent is its agent_id",
    "timestamp: the day exists in its month, and the year is 0000 or later",
];

/// The published schema. A document matches it exactly when it can be read and [`Thread::validate`] finds no error,
/// except for the rules in [`BEYOND_THE_SCHEMA`].
pub fn published() -> Value {
    let mut document = turntree_core::json::schema::document::<Thread>();
    let comment = format!("Rules beyond this schema: {}.", BEYOND_THE_SCHEMA.join("; "));
    narrow(&mut document, "", &json!({ "title": "ThreadProtocol 1.0.0", "$comment": comment }));
    let time = json!({ "pattern": TIMESTAMP });
    for thread in ["", "/$defs/Thread"] {
        narrow(&mut document, &format!("{thread}/properties/version"), &json!({ "const": super::VERSION }));
        narrow(&mut document, &format!("{thread}/properties/thread_id"), &json!({ "minLength": 1 }));
        narrow(&mut document, &format!("{thread}/properties/created_at"), &time);
        narrow(&mut document, &format!("{thread}/properties/updated_at"), &time);
        let names = json!({ "propertyNames": { "minLength": 1 } });
        narrow(&mut document, &format!("{thread}/properties/agents"), &names);
    }
    narrow(&mut document, "/$defs/AgentConfig/properties/created_at", &time);
    let actions = [
        "UserMessageAction",
        "AssistantMessageAction",
        "ThinkingAction",
        "ToolCallAction",
        "ToolReturnAction",
        "SystemAction",
    ];
    for action in actions {
        let members = format!("/$defs/{action}/properties");
        narrow(&mut document, &format!("{members}/timestamp"), &time);
        narrow(&mut document, &format!("{members}/sequence"), &json!({ "minimum": 1, "maximum": u64::MAX }));
    }
    for count in COUNTS {
        narrow(&mut document, &format!("/$defs/{count}"), &json!({ "maximum": u64::MAX }));
    }
    let reasons = json!({ "enum": ["stop", "tool_call", "length", "content_filter", null] });
    narrow(&mut document, "/$defs/AssistantMessageAction/properties/finish_reason", &reasons);
    let statuses = json!({ "enum": ["success", "error", "validation_error"] });
    narrow(&mut document, "/$defs/ToolReturnAction/properties/status", &statuses);
    let system_type = json!({ "pattern": SYSTEM_TYPE });
    narrow(&mut document, "/$defs/Action/anyOf/1/allOf/1/properties/action_type", &system_type);
    // Any other type can be read, but breaks rule 4.
    if let Some(Value::Array(kinds)) = document.pointer_mut("/$defs/Action/anyOf") {
        kinds.truncate(2);
    }
    document
}

/// Adds keywords to the schema at a JSON pointer.
fn narrow(document: &mut Value, pointer: &str, keywords: &Value) {
    if let (Some(Value::Object(schema)), Value::Object(keywords)) = (document.pointer_mut(pointer), keywords)
    {
        schema.extend(keywords.clone());
    }
}

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

/// The schema of an object whose tag is not one of the known names.
fn other_than(tag: &str, names: &Value) -> Value {
    json!({
        "type": "object",
        "properties": { tag: { "type": "string", "not": { "enum": names } } },
        "required": [tag],
    })
}
