//! The gate: asks the rules about an action, applies levels and exceptions, and records the decision.

use std::sync::Arc;
use std::time::Instant;

use sha2::{Digest, Sha256};
use turntree_core::runtime::environment;

use super::action::Action;
use super::context::{Context, Others};
use super::decision::{Decision, Finding, Level, Matched, Outcome};
use super::evaluator::{Evaluator, RuleInfo};
use super::overrides::Override;
use super::policies::Policies;
use super::rules::{BuiltIn, Stage};
use super::{audit, overrides};
use crate::config::{PolicyConfig, Setting};
use crate::coordination::OpenWork;
use crate::error::HarnessError;
use crate::project::Project;
use crate::state::State;

/// The file beside the state that names the files in Cedar that were valid.
const MARKER: &str = "policies.checked";

/// Decides about actions in a project.
#[derive(Debug, Clone)]
pub struct Gate {
    project: Project,
    state: State,
    policies: Arc<Policies>,
    is_strict: bool,
    home: Option<String>,
}

impl Gate {
    /// The gate of a project: its rules, levels, exceptions and audit.
    ///
    /// # Errors
    /// The errors of the state file, and those of [`Policies::load`].
    pub fn load(project: &Project) -> Result<Self, HarnessError> {
        // The environment can only tighten: an agent can set it.
        let is_strict = environment("TURNTREE_STRICT").is_some_and(|value| value != "0");
        let home = Context::home_of_environment();
        let folder = project.root.join(&project.config.policy.folder);
        let state = project.state()?;
        let policies = Arc::new(Policies::load_marked(&folder, &project.state_folder().join(MARKER))?);
        Ok(Self { project: project.clone(), state, policies, is_strict, home })
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
        self.check_with(action, Vec::new())
    }

    /// As [`Self::check`], with the findings of rules that the caller has asked itself.
    ///
    /// # Errors
    /// As [`Self::check`].
    pub fn check_with(&self, action: &Action, more: Vec<Matched>) -> Result<Decision, HarnessError> {
        let decision = self.preview_with(action, more)?;
        self.record(action, &decision)?;
        Ok(decision)
    }

    /// As [`Self::check_with`], without recording.
    ///
    /// # Errors
    /// The errors of the state file.
    pub fn preview_with(&self, action: &Action, more: Vec<Matched>) -> Result<Decision, HarnessError> {
        let exceptions = overrides::active(&self.state, self.project.now())?;
        let others = OpenWork::new(&self.project, &self.state);
        let mut decision = self.decide(action, &exceptions, &others);
        if let Some(error) = others.take_error() {
            return Err(error);
        }
        decision.rules.extend(more);
        decision.settle();
        Ok(decision)
    }

    /// Adds a decision to the audit.
    ///
    /// # Errors
    /// The errors of the state file.
    pub fn record(&self, action: &Action, decision: &Decision) -> Result<(), HarnessError> {
        audit::append(&self.state, self.project.now(), action, decision)
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

    /// Decides without recording, and without the rules of git hooks.
    pub fn decide(&self, action: &Action, exceptions: &[Override], others: &dyn Others) -> Decision {
        self.decide_some(action, exceptions, others, &|_, stage| stage != Stage::Commit)
    }

    /// As [`Self::decide`], by the rules that a function of id and stage selects.
    pub fn decide_some(
        &self,
        action: &Action,
        exceptions: &[Override],
        others: &dyn Others,
        is_asked: &dyn Fn(&str, Stage) -> bool,
    ) -> Decision {
        let start = Instant::now();
        let context = Context::new(&self.project, self.home.clone(), others);
        let mut decision = Decision::default();
        for evaluator in self.evaluators() {
            let rules = evaluator.rules();
            let is_wanted =
                |rule: &RuleInfo<'_>| is_asked(rule.id, rule.stage) && self.setting(rule) != Setting::Off;
            let wanted: Vec<usize> =
                rules.iter().enumerate().filter(|(_, rule)| is_wanted(rule)).map(|(at, _)| at).collect();
            for (at, finding) in evaluator.evaluate(&wanted, action, &context) {
                if let Some(rule) = rules.get(at) {
                    self.add(&mut decision, exceptions, rule, finding);
                }
            }
        }
        decision.rules.extend(self.project.problem().map(unknown_rules));
        decision.settle();
        decision.latency_us = u64::try_from(start.elapsed().as_micros()).unwrap_or(u64::MAX);
        decision.policy_set = policy_set(&self.project.config.policy, self.policies.digest());
        decision
    }

    fn evaluators(&self) -> impl Iterator<Item = &dyn Evaluator> {
        let built_in: &dyn Evaluator = &BuiltIn;
        std::iter::once(built_in).chain(self.policies.evaluators())
    }

    /// How a rule acts in this project.
    pub fn setting(&self, rule: &RuleInfo<'_>) -> Setting {
        if self.is_strict {
            return rule.level.into();
        }
        self.project.config.policy.levels.get(rule.id).copied().unwrap_or(rule.setting)
    }

    /// Adds what a rule has found, at its level.
    fn add(&self, decision: &mut Decision, exceptions: &[Override], rule: &RuleInfo<'_>, finding: Finding) {
        let setting = self.setting(rule);
        if setting == Setting::Shadow {
            decision.shadow.push(finding);
            return;
        }
        let level = setting.level().unwrap_or(rule.level);
        let is_excepted = exceptions.iter().any(|exception| exception.rule == rule.id);
        decision.rules.push(matched(finding, level, is_excepted));
    }

    /// The user's own rules.
    pub fn policies(&self) -> &Policies {
        &self.policies
    }

    /// This gate with other rules of the user and another configuration, for tests and replays.
    #[must_use]
    pub fn with(mut self, project: &Project, policies: Policies) -> Self {
        self.project = project.clone();
        self.policies = Arc::new(policies);
        self
    }

    /// What a rule of the user finds in an action, whatever its level.
    pub fn find(&self, id: &str, action: &Action) -> Vec<Finding> {
        let others = super::context::Alone;
        let context = Context::new(&self.project, self.home.clone(), &others);
        let of = |evaluator: &dyn Evaluator| {
            let place = evaluator.rules().iter().position(|rule| rule.id == id);
            place.map_or_else(Vec::new, |at| evaluator.evaluate(&[at], action, &context))
        };
        self.policies.evaluators().into_iter().flat_map(of).map(|(_, finding)| finding).collect()
    }

    /// All rules, and how each acts in this project.
    pub fn rules(&self) -> Vec<(RuleInfo<'_>, Setting)> {
        let rules = self.evaluators().flat_map(Evaluator::rules);
        rules.map(|rule| (rule, self.setting(&rule))).collect()
    }
}

/// What is found in every action while `turntree.toml` is not valid: the file may forbid what the defaults allow.
fn unknown_rules(problem: &str) -> Matched {
    let finding = Finding {
        rule: "harness.configuration".into(),
        outcome: Outcome::Ask,
        reason: format!("turntree.toml is not valid, so what it forbids is not known: {problem}"),
        remedy: "let a person correct turntree.toml; `turntree config explain` checks it".to_owned(),
    };
    Matched { finding, level: Level::Required, outcome: Outcome::Ask }
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
fn policy_set(config: &PolicyConfig, files: &str) -> String {
    let digest = Sha256::digest(format!("{config:?}{files}").as_bytes());
    crate::state::hex(digest.get(..8).unwrap_or_default())
}
