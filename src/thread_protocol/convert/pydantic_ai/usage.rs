//! What an answer cost, and what the actions of a message say about the message itself.

use std::borrow::Cow;

use super::model::{Object, Value};
use super::profile::{Expected, class_name};
use crate::thread_protocol::action::{Action, AssistantMessageAction, ThinkingUsage, Usage};

/// A count, if it is one that a `u64` holds as it is written.
fn count(usage: &Object<'_>, key: &str) -> Option<u64> {
    usage.get(key)?.as_json()?.parse().ok()
}

/// Input and output tokens, if something was counted.
pub(super) fn counted(usage: &Object<'_>) -> Option<Usage> {
    let input_tokens = count(usage, "input_tokens").or_else(|| count(usage, "request_tokens"))?;
    let output_tokens = count(usage, "output_tokens").or_else(|| count(usage, "response_tokens"))?;
    let total_tokens = input_tokens.checked_add(output_tokens)?;
    (total_tokens > 0).then(|| Usage {
        input_tokens,
        output_tokens,
        total_tokens: Some(total_tokens),
        ..Usage::default()
    })
}

/// Tokens of thinking: counted apart, or among the provider's details.
pub(super) fn thinking(usage: &Object<'_>) -> Option<ThinkingUsage> {
    #[derive(serde::Deserialize)]
    struct Details {
        reasoning_tokens: Option<u64>,
    }
    let apart = count(usage, "output_reasoning_tokens").filter(|tokens| *tokens > 0);
    let tokens = apart.or_else(|| {
        let details = usage.get("details").filter(|details| details.is_object())?;
        serde_json::from_str::<Details>(&details.to_json()).ok()?.reasoning_tokens
    })?;
    Some(ThinkingUsage { thinking_tokens: Some(tokens), ..ThinkingUsage::default() })
}

fn last_text<'t>(actions: impl DoubleEndedIterator<Item = &'t Action>) -> Option<&'t AssistantMessageAction> {
    actions.rev().find_map(|action| match action {
        Action::AssistantMessage(text) => Some(text),
        _ => None,
    })
}

/// What a member of a message should be, as its actions say.
pub(super) fn expected_of_message<'t>(
    actions: impl IntoIterator<Item = &'t Action, IntoIter: DoubleEndedIterator>,
    kind: &str,
    instructions: Option<&Cow<'t, str>>,
    key: &str,
) -> Expected<'t> {
    let mut actions = actions.into_iter();
    match key {
        "parts" | "usage" => Expected::Value(Value::Field),
        "kind" => Expected::Value(Value::Text(class_name(kind))),
        "timestamp" => actions.next().map_or(Expected::Default, |first| Expected::text(first.timestamp())),
        "instructions" => match instructions {
            Some(text) => Expected::Value(Value::Text(text.clone())),
            None => Expected::Default,
        },
        "finish_reason" => match last_text(actions).and_then(|text| text.finish_reason.as_deref()) {
            Some(reason) => Expected::text(reason),
            None => Expected::Default,
        },
        _ => Expected::Default,
    }
}

/// What a member of a usage should be, as the actions of its message say.
pub(super) fn expected_of_usage<'t>(
    actions: impl IntoIterator<Item = &'t Action, IntoIter: DoubleEndedIterator>,
    key: &str,
) -> Expected<'t> {
    if !matches!(key, "input_tokens" | "output_tokens" | "request_tokens" | "response_tokens") {
        return Expected::Default;
    }
    let Some(usage) = last_text(actions.into_iter()).and_then(|text| text.usage.as_ref()) else {
        return Expected::Default;
    };
    let tokens = if key.starts_with("in") || key.starts_with("req") {
        usage.input_tokens
    } else {
        usage.output_tokens
    };
    Expected::Value(Value::Json(Cow::Owned(tokens.to_string())))
}
