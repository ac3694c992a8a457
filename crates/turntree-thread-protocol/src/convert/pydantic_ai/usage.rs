//! Token usage, and the fields of a message that follow from its actions.

use std::borrow::Cow;

use super::coerce;
use super::field_layout::{Expected, class_name};
use super::model::{Object, Value};
use super::read::read_object;
use super::thread_metadata::{ThreadMetadata, action_metadata};
use crate::action::{Action, AssistantMessageAction, ThinkingUsage, Usage};
use crate::document::Thread;

/// The action type with the usage of a response without text, in the portable profile.
pub(super) const USAGE: &str = "system.tp.usage";

/// A counter; `None` unless its text is a `u64`.
fn count(usage: &Object<'_>, key: &str) -> Option<u64> {
    usage.get(key)?.as_json()?.parse().ok()
}

/// Input and output tokens; `None` if both are zero.
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

impl Thread {
    /// The token usage of the whole thread: of assistant messages, and of responses without text, whose usage is in
    /// metadata or in `system.tp.usage` (decision 14). Unreadable metadata is ignored.
    pub fn usage(&self) -> Usage {
        let metadata = ThreadMetadata::of(self).unwrap_or_default();
        let mut total = Usage { total_tokens: Some(0), ..Usage::default() };
        for action in &self.actions.0 {
            let counted_tokens = match &**action {
                Action::AssistantMessage(message) => message.usage.as_deref().cloned(),
                Action::System(system) if system.action_type == USAGE => {
                    read_object(system.data.get()).as_ref().and_then(counted)
                }
                _ => None,
            };
            let stored_usage =
                action_metadata(action, &metadata).ok().flatten().and_then(|stored| stored.message);
            let stored_usage = stored_usage.map(|message| message.usage);
            let stored_usage = |key: &str| {
                let value = stored_usage.as_ref()?.0.iter().find(|(name, _)| name == key)?;
                value.1.get().parse::<u64>().ok()
            };
            let (input, output) =
                counted_tokens.map_or((0, 0), |usage| (usage.input_tokens, usage.output_tokens));
            let input = input.saturating_add(stored_usage("input_tokens").unwrap_or_default());
            let output = output.saturating_add(stored_usage("output_tokens").unwrap_or_default());
            total.input_tokens = total.input_tokens.saturating_add(input);
            total.output_tokens = total.output_tokens.saturating_add(output);
        }
        total.total_tokens = Some(total.input_tokens.saturating_add(total.output_tokens));
        total
    }
}

/// Thinking tokens: a counter of their own, or a detail of the provider.
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

/// The expected value of a message's field, given its actions.
pub(super) fn expected_of_message<'t>(
    actions: impl IntoIterator<Item = &'t Action, IntoIter: DoubleEndedIterator>,
    kind: &str,
    instructions: Option<&Value<'t>>,
    key: &str,
) -> Expected<'t> {
    let mut actions = actions.into_iter();
    match key {
        "parts" | "usage" => Expected::Value(Value::Field),
        "kind" => Expected::Value(Value::Text(class_name(kind))),
        "timestamp" => actions.next().map_or(Expected::Default, |first| coerce::time(first.timestamp())),
        "instructions" => match instructions {
            Some(text) => Expected::Value(text.clone()),
            None => Expected::Default,
        },
        "finish_reason" => match last_text(actions).and_then(|text| text.finish_reason.as_deref()) {
            Some(reason) => Expected::text(reason),
            None => Expected::Default,
        },
        _ => Expected::Default,
    }
}

/// The expected value of a usage counter, given the actions of its message.
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
