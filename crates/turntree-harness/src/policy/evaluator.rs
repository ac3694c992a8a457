//! Rules of one kind: the built-in ones, the user's in TOML with their programs, the user's in Cedar.

use std::fmt::Debug;

use super::action::Action;
use super::context::Context;
use super::decision::{Finding, Level};
use super::rules::Stage;
use crate::config::Setting;

/// What is known of a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RuleInfo<'a> {
    /// Its id.
    pub id: &'a str,
    /// When it is asked.
    pub stage: Stage,
    /// The level that it is made for.
    pub level: Level,
    /// How it acts, unless `policy.levels` says otherwise.
    pub setting: Setting,
    /// What it does, in one line.
    pub summary: &'a str,
}

/// Rules of one kind.
pub trait Evaluator: Debug + Send + Sync {
    /// The rules, in the order in which they are listed.
    fn rules(&self) -> Vec<RuleInfo<'_>>;

    /// What the rules at these places of the list find in an action.
    fn evaluate(&self, wanted: &[usize], action: &Action, context: &Context<'_>) -> Vec<(usize, Finding)>;
}
