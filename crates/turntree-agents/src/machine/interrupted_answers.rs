//! Answers that are not the end of a turn: refused and failed ones raise an error, paused ones are continued.
//!
//! Spec: UPP-1.2 §12, §19.0

/// Answers that the model or a filter refused.
pub(super) mod refusals {
    use crate::machine::setup::Setup;
    use turntree_core::message::Message;
    use turntree_upp::settings::OnRefusal;
    use turntree_upp::{ErrorCode, StopReason, UppError, stop_reason};

    /// The error of a refused answer. By default, only an answer without content is an error.
    pub(in crate::machine) fn error_of(
        message: &Message,
        reason: StopReason,
        setup: &Setup,
    ) -> Option<UppError> {
        if reason != StopReason::ContentFilter {
            return None;
        }
        let is_empty = message.content().is_empty() && !message.has_tool_calls();
        let raises = match OnRefusal::of_params(&setup.params) {
            Some(OnRefusal::Raise) => true,
            Some(OnRefusal::Return) => false,
            None => is_empty,
        };
        raises.then(|| {
            let word = stop_reason::of_message(message);
            let said = message.text();
            let said = if said.is_empty() { String::new() } else { format!(": {said}") };
            let remedy = "change the input, or take the turn as it is with on_refusal=\"return\"";
            let message = format!("the model or its filter refused to answer ({word}){said}; {remedy}");
            UppError::new(ErrorCode::ContentFiltered, &*setup.provider, message)
        })
    }
}

/// Answers that the vendor ended with an error of its own, without content.
pub(super) mod failures {
    use crate::machine::setup::Setup;
    use turntree_core::message::{ContentBlock, Message};
    use turntree_upp::settings::OnRefusal;
    use turntree_upp::{ErrorCode, StopReason, UppError, stop_reason};

    /// The error of an answer without content that is not the model's own end.
    pub(in crate::machine) fn error_of(
        message: &Message,
        reason: StopReason,
        setup: &Setup,
    ) -> Option<UppError> {
        let is_answer = |block: &ContentBlock| !matches!(block, ContentBlock::Reasoning(_));
        let is_answered = message.content().iter().any(is_answer) || message.has_tool_calls();
        let is_returned = OnRefusal::of_params(&setup.params) == Some(OnRefusal::Return);
        if reason != StopReason::Error || is_answered || is_returned {
            return None;
        }
        let word = stop_reason::vendor_word(message);
        let said = if word.is_empty() { String::new() } else { format!(" ({word})") };
        let provider = &*setup.provider;
        let text = format!(
            "{provider} ended the answer without content{said}; send the request again, or take the turn as it is with \
             on_refusal=\"return\""
        );
        Some(UppError::new(ErrorCode::ProviderError, provider, text))
    }
}

/// Answers that the vendor paused, for example during a long search of its own.
pub(super) mod pauses {
    use turntree_core::message::message::History;
    use turntree_core::message::{Message, MessageKind};
    use turntree_upp::{StopReason, stop_reason};

    /// The most continuations of one answer.
    const MAX_CONTINUATIONS: usize = 16;

    /// True if the model is to be called again with the paused answer at the end of the conversation.
    pub(in crate::machine) fn is_continued(
        message: &Message,
        reason: StopReason,
        messages: &History,
    ) -> bool {
        let before = messages.iter().rev().take_while(|message| message.kind() == MessageKind::Assistant);
        reason == StopReason::PauseTurn
            && stop_reason::is_continuable(message)
            && before.count() < MAX_CONTINUATIONS
    }
}
