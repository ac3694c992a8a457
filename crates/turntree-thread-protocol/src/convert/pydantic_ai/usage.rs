//! Token usage, and the fields of a message that follow from its actions.

use std::borrow::Cow;

use super::coerce;
use super::field_layout::{Expected, class_name};
use super::model::{Object, Value};
use super::read::read_object;
use super::thread_metadata::{ThreadMetadata, action_metadata};
use crate::action::{Action, ThinkingUsage, Usage};
use crate::document::Thread;

pub(super) use crate::convert::agent_view::USAGE;

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

/// The action with the usage and the finish reason of a message: its last text, or `system.tp.usage` without one.
fn last_cost<'t>(actions: impl DoubleEndedIterator<Item = &'t Action>) -> Option<&'t Action> {
    let mut separate = None;
    for action in actions.rev() {
        match action {
            Action::AssistantMessage(_) => return Some(action),
            Action::System(system) if system.action_type == USAGE => {
                separate.get_or_insert(action);
            }
            _ => {}
        }
    }
    separate
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
        "finish_reason" => finish_reason(actions),
        _ => Expected::Default,
    }
}

/// The finish reason of the last text, or of a response without text.
fn finish_reason<'t>(actions: impl DoubleEndedIterator<Item = &'t Action>) -> Expected<'t> {
    let reason = match last_cost(actions) {
        Some(Action::AssistantMessage(message)) => message.finish_reason.as_deref().map(Value::text),
        Some(Action::System(separate)) => read_object(separate.data.get())
            .and_then(|data| data.get("finish_reason").filter(|reason| reason.is_text()).cloned()),
        _ => None,
    };
    reason.map_or(Expected::Default, Expected::Value)
}

/// The expected value of a usage counter, given the actions of its message.
pub(super) fn expected_of_usage<'t>(
    actions: impl IntoIterator<Item = &'t Action, IntoIter: DoubleEndedIterator>,
    key: &str,
) -> Expected<'t> {
    if !matches!(key, "input_tokens" | "output_tokens" | "request_tokens" | "response_tokens") {
        return Expected::Default;
    }
    let usage = match last_cost(actions.into_iter()) {
        Some(Action::AssistantMessage(message)) => message.usage.as_deref().cloned(),
        Some(Action::System(separate)) => read_object(separate.data.get()).as_ref().and_then(counted),
        _ => None,
    };
    let Some(usage) = usage else { return Expected::Default };
    let tokens = if key.starts_with("in") || key.starts_with("req") {
        usage.input_tokens
    } else {
        usage.output_tokens
    };
    Expected::Value(Value::Json(Cow::Owned(tokens.to_string())))
}
