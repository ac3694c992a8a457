//! The gate: asks the rules about an action, applies levels and exceptions, and records the decision.

use std::cmp::Reverse;
use std::time::Instant;

use sha2::{Digest, Sha256};
use turntree_core::runtime::environment;

use super::action::Action;
use super::context::{Context, Others};
use super::decision::{Decision, Finding, Level, Matched, Outcome};
use super::overrides::Override;
use super::rules::{RULES, Rule};
use super::{audit, overrides};
use crate::config::{PolicyConfig, Setting};
use crate::coordination::OpenWork;
use crate::error::HarnessError;
use crate::project::Project;
use crate::state::State;

/// Decides about actions in a project.
#[derive(Debug, Clone)]
pub struct Gate {
    project: Project,
    state: State,
    is_strict: bool,
    home: Option<String>,
}

impl Gate {
    /// The gate of a project: its rules, levels, exceptions and audit.
    ///
    /// # Errors
    /// The errors of the state file.
    pub fn load(project: &Project) -> Result<Self, HarnessError> {
        // The environment can only tighten: an agent can set it.
        let is_strict = environment("TURNTREE_STRICT").is_some_and(|value| value != "0");
        let home = Context::home_of_environment();
        Ok(Self { project: project.clone(), state: project.state()?, is_strict, home })
    }

    /// The project.
    pub fn project(&self) -> &Project {
        &self.project
    }

    /// The state of the project.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// The folder of the user, for `~` in commands.
    pub fn home(&self) -> Option<String> {
        self.home.clone()
    }

    /// Decides about an action and records the decision.
    ///
    /// # Errors
    /// The errors of the state file. An action whose decision cannot be recorded must not go on.
    pub fn check(&self, action: &Action) -> Result<Decision, HarnessError> {
        let now = self.project.now();
        let exceptions = overrides::active(&self.state, now)?;
        let others = OpenWork::new(&self.project, &self.state);
        let decision = self.decide(action, &exceptions, &others);
        if let Some(error) = others.take_error() {
            return Err(error);
        }
        audit::append(&self.state, now, action, &decision)?;
        Ok(decision)
    }

    /// As [`Self::check`]; a denied action is an error.
    ///
    /// # Errors
    /// [`HarnessError::PolicyViolation`], and as [`Self::check`].
    pub fn enforce(&self, action: &Action) -> Result<Decision, HarnessError> {
        let decision = self.check(action)?;
        match decision.outcome {
            Outcome::Deny => Err(HarnessError::PolicyViolation(Box::new(decision))),
            _ => Ok(decision),
        }
    }

    /// Decides without recording.
    pub fn decide(&self, action: &Action, exceptions: &[Override], others: &dyn Others) -> Decision {
        let start = Instant::now();
        let context = Context { project: &self.project, home: self.home.clone(), others };
        let mut decision = Decision::default();
        for rule in RULES {
            let setting = self.project.config.policy.levels.get(rule.id).copied();
            if setting == Some(Setting::Off) && !self.is_strict {
                continue;
            }
            let findings = (rule.check)(action, &context);
            if setting == Some(Setting::Shadow) && !self.is_strict {
                decision.shadow.extend(findings);
                continue;
            }
            let level = if self.is_strict {
                rule.level
            } else {
                setting.and_then(Setting::level).unwrap_or(rule.level)
            };
            let is_excepted = exceptions.iter().any(|exception| exception.rule == rule.id);
            decision.rules.extend(findings.into_iter().map(|finding| matched(finding, level, is_excepted)));
        }
        decision.rules.sort_by_key(|matched| Reverse(matched.outcome));
        decision.rules.dedup_by(|next, previous| next.finding == previous.finding);
        decision.outcome = decision.rules.first().map_or(Outcome::Allow, |matched| matched.outcome);
        decision.latency_us = u64::try_from(start.elapsed().as_micros()).unwrap_or(u64::MAX);
        decision.policy_set = policy_set(&self.project.config.policy);
        decision
    }

    /// The level of each rule in this project.
    pub fn rules(&self) -> Vec<(&'static Rule, Option<Setting>)> {
        RULES.iter().map(|rule| (rule, self.project.config.policy.levels.get(rule.id).copied())).collect()
    }
}

fn matched(mut finding: Finding, level: Level, is_excepted: bool) -> Matched {
    let mut outcome = level.outcome(finding.outcome);
    if is_excepted && outcome > Outcome::Warn {
        outcome = Outcome::Warn;
        finding.reason.push_str(" (an exception is active)");
    }
    Matched { finding, level, outcome }
}

/// Names a set of policies: changes when levels or settings change.
fn policy_set(config: &PolicyConfig) -> String {
    let digest = Sha256::digest(format!("{config:?}").as_bytes());
    crate::state::hex(digest.get(..8).unwrap_or_default())
}
