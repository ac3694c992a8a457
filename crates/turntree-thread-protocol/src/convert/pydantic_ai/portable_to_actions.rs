//! Encoding in the portable profile: the same actions, in the same order, as the stream of the run.
//!
//! Spec: UI message stream, §10 to §12.

use super::message_builder::MessageBuilder;
use super::model::{Kind, ModelMessage};
use super::roundtrip_metadata::ObjectWriter;
use super::to_actions::Encoder;
use super::usage::{USAGE, counted};
use crate::action::Action;
use crate::convert::portable::{normalize, system};
use turntree_core::json::RawJson;
use turntree_core::time::Timestamp;

impl Encoder<'_, '_> {
    /// Appends the actions of a message in the portable profile.
    pub(super) fn finish_portable(
        &mut self,
        message: &ModelMessage<'_>,
        mut builder: MessageBuilder,
        agent_id: &str,
    ) {
        if self.options.usage_actions
            && let Some(usage) = usage_action(message, &builder, agent_id, &self.timestamp)
        {
            builder.annotate(usage);
        }
        // Deferred actions of a response follow its results, and results precede other user content.
        let last_result = builder.actions.iter().rposition(|action| matches!(action, Action::ToolReturn(_)));
        let results = match message.kind {
            Kind::Request => last_result.map_or(0, |index| index + 1),
            _ => 0,
        };
        let rest = builder.actions.split_off(results);
        builder.actions.into_iter().for_each(|action| self.emit(action));
        if message.kind == Kind::Request {
            self.portable.deferred.defer(std::mem::take(&mut builder.deferred));
        }
        self.settle();
        for action in rest {
            if results == 0 && matches!(action, Action::UserMessage(_)) {
                self.portable.begin_turn();
            }
            self.emit(action);
        }
        self.portable.deferred.defer(builder.deferred);
    }

    /// Appends the deferred actions whose results will not follow any more.
    pub(super) fn settle(&mut self) {
        for deferred in self.portable.deferred.take() {
            if let Some(action) = self.portable.deferred.insert(deferred, &mut self.actions) {
                self.emit(action);
            }
        }
    }

    /// Appends an action of the portable profile.
    fn emit(&mut self, mut action: Action) {
        normalize(&mut action);
        self.clamp(&mut action);
        action.timestamp().clone_into(&mut self.timestamp);
        self.push(action);
    }

    /// Raises a timestamp that would decrease to the latest one (decision 10).
    fn clamp(&mut self, action: &mut Action) {
        let Ok(timestamp) = action.timestamp().parse::<Timestamp>() else { return };
        match self.clamp {
            Some(latest) if timestamp < latest => action.set_timestamp(self.timestamp.as_str().into()),
            _ => self.clamp = Some(timestamp),
        }
    }
}

/// The usage of a response without text. Decision 14.
fn usage_action(
    message: &ModelMessage<'_>,
    builder: &MessageBuilder,
    agent_id: &str,
    timestamp: &str,
) -> Option<Action> {
    if builder.actions.iter().any(|action| matches!(action, Action::AssistantMessage(_))) {
        return None;
    }
    let counted = counted(message.usage.as_ref()?)?;
    let mut data = ObjectWriter::default();
    data.text("agent_id", agent_id);
    data.json("input_tokens", &counted.input_tokens.to_string());
    data.json("output_tokens", &counted.output_tokens.to_string());
    if let Some(reason) = message.text("finish_reason") {
        data.text("finish_reason", &reason);
    }
    let timestamp = builder.actions.last().map_or(timestamp, Action::timestamp);
    Some(system(USAGE, timestamp, RawJson::from_text(data.finish()).unwrap_or_default()))
}
