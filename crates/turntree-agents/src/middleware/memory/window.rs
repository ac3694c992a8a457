//! Where a conversation may be cut, and where it is.

use std::collections::HashSet;
use std::sync::Arc;

use turntree_core::message::message::History;
use turntree_core::message::{Message, MessageKind};

/// How much may be kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Limit {
    /// Most tokens.
    pub tokens: Option<u64>,
    /// Most turns, the last one included.
    pub turns: Option<usize>,
}

/// What is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// The first message that is kept.
    pub start: usize,
    /// Tokens of what is kept; 0 where nobody limits them.
    pub tokens: u64,
    /// Not even the last turn is within the limit of tokens; it is kept all the same.
    pub overflows: bool,
}

/// Cuts a conversation between turns: what is left is an end of it, within the limit, and whole: it begins with a user's
/// message, and no tool result in it answers a call before it.
///
/// `begins` is where the run begins: what comes from there on is one turn, whatever is in it. Counts from the end, and no
/// more than is kept and one turn.
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
    // Once over the limit there is no way back under it, but a last turn is looked for to its beginning.
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

/// Whether a user begins to speak here. What a run begins with is a beginning of its own.
fn starts_turn(messages: &History, place: usize, begins: usize) -> bool {
    let is_user =
        |place: usize| messages.get(place).is_some_and(|message| message.kind() == MessageKind::User);
    is_user(place) && (place == begins || !place.checked_sub(1).is_some_and(is_user))
}
