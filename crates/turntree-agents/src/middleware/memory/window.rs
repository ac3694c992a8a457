//! Finds the part of a conversation that fits a limit of tokens and turns.

use std::collections::HashSet;
use std::sync::Arc;

use turntree_core::message::message::History;
use turntree_core::message::{Message, MessageKind};

/// Limits of a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Limit {
    /// Maximum number of tokens.
    pub tokens: Option<u64>,
    /// Maximum number of turns, including the last one.
    pub turns: Option<usize>,
}

/// The end of a conversation that fits the limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// Index of the first message in the window.
    pub start: usize,
    /// Number of tokens in the window; 0 if tokens are not limited.
    pub tokens: u64,
    /// True if the last turn alone exceeds the token limit. The window contains it anyway.
    pub overflows: bool,
}

/// Cuts a conversation between turns. The window is the end of the conversation: it begins with a user message, fits the
/// limit, and contains the call of each of its tool results.
///
/// `begins` is the index of the first message of the run; all messages from there on are one turn. Counts from the end, and
/// counts at most one turn more than the window contains.
///
/// # Errors
/// Those of `count`.
pub fn cut<E>(
    messages: &History,
    begins: usize,
    limit: Limit,
    mut count: impl FnMut(&Arc<Message>) -> Result<u64, E>,
) -> Result<Window, E> {
    let (mut kept, mut turns) = (None::<Window>, 0_usize);
    let mut tokens = 0_u64;
    let mut unanswered = HashSet::new();
    let most = limit.tokens.unwrap_or(u64::MAX);
    // Token counts only grow, so the search ends at the limit. The last turn is always searched to its beginning.
    let is_over = |tokens: u64, kept: &Option<Window>| tokens > most && kept.is_some();
    for (place, message) in messages.iter().enumerate().rev() {
        if limit.tokens.is_some() {
            tokens = tokens.saturating_add(count(message)?);
        }
        if is_over(tokens, &kept) {
            break;
        }
        unanswered.extend(message.results().iter().map(|result| result.tool_call_id.as_str()));
        for call in message.tool_calls() {
            unanswered.remove(call.tool_call_id.as_str());
        }
        let is_start =
            place == 0 || (place <= begins && unanswered.is_empty() && starts_turn(messages, place, begins));
        if !is_start {
            continue;
        }
        turns = turns.saturating_add(1);
        if kept.is_some() && limit.turns.is_some_and(|most| turns > most) {
            break;
        }
        kept = Some(Window { start: place, tokens, overflows: tokens > most });
    }
    Ok(kept.unwrap_or(Window { start: 0, tokens, overflows: tokens > most }))
}

/// True if a turn starts here: at the first of successive user messages, or at the first message of the run.
fn starts_turn(messages: &History, place: usize, begins: usize) -> bool {
    let is_user =
        |place: usize| messages.get(place).is_some_and(|message| message.kind() == MessageKind::User);
    is_user(place) && (place == begins || !place.checked_sub(1).is_some_and(is_user))
}
