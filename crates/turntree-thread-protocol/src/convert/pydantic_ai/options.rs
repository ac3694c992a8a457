//! Options of [`from_pydantic_ai_json`](super::from_pydantic_ai_json).

use super::agents::AgentSource;
use crate::convert::portable::ProfileKind;
use turntree_core::limits::Limits;

/// Which texts of an answer make one assistant message. Decision 6.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CombineText {
    /// Those that stand together.
    #[default]
    Adjacent,
    /// All of them, at the place of the first.
    Response,
}

/// How to make a thread of a history.
#[derive(Debug, Clone, Default)]
pub struct ImportOptions {
    /// How much to keep.
    pub profile: ProfileKind,
    /// Which texts to join.
    pub combine_text: CombineText,
    /// Who speaks.
    pub agent: AgentSource,
    /// The thread's id; else the conversation's if it is a UUID, else one that follows from the first message.
    pub thread_id: Option<String>,
    /// The thread's title; else the beginning of the first user text.
    pub title: Option<String>,
    /// Tell arguments that failed validation (`validation_error`) from other errors (decision 7).
    pub validation_status: bool,
    /// Add `system.tp.usage` for answers without text (portable profile, decision 14).
    pub usage_actions: bool,
    /// Keep action metadata apart from the actions (decision 2).
    pub strict: bool,
    /// What the history may cost to read.
    pub limits: Limits,
}
