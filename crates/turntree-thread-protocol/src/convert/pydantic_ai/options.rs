//! Options of [`from_pydantic_ai_json`](super::from_pydantic_ai_json).

use super::agents::AgentSource;
use crate::convert::portable::ProfileKind;
use turntree_core::limits::Limits;

/// Which texts of a response are merged into one assistant message. Decision 6.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CombineText {
    /// Adjacent texts.
    #[default]
    Adjacent,
    /// All texts, at the position of the first.
    Response,
}

/// Options of an import.
#[derive(Debug, Clone, Default)]
pub struct ImportOptions {
    /// How much of the history to preserve.
    pub profile: ProfileKind,
    /// Which texts to merge.
    pub combine_text: CombineText,
    /// The agents of the responses.
    pub agent: AgentSource,
    /// The id of the thread. By default the conversation id if it is a UUID, otherwise an id derived from the first
    /// message.
    pub thread_id: Option<String>,
    /// The title; by default the beginning of the first user text.
    pub title: Option<String>,
    /// Give failed validation of arguments the status `validation_error` instead of `error` (decision 7).
    pub validation_status: bool,
    /// Add `system.tp.usage` for responses without text (portable profile, decision 14).
    pub usage_actions: bool,
    /// Store the metadata of actions in the thread's metadata (decision 2).
    pub strict: bool,
    /// The limits of the input.
    pub limits: Limits,
}
