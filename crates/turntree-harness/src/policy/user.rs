//! The user's own rules: files `*.policy.toml` in the folder of policies.

use std::path::Path;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::action::{Action, ActionKind};
use super::context::Context;
use super::decision::{Finding, Level, Outcome};
use super::enforcers;
use super::evaluator::{Evaluator, RuleInfo};
use super::policies::Origin;
use super::rules::Stage;
use crate::config::Setting;
use crate::derive::writes::writes;
use crate::error::HarnessError;
use crate::toml_file;

/// A file of policies.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PolicyFile {
    /// Its rules.
    pub rule: Vec<UserRule>,
}

/// A rule of the user.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct UserRule {
    /// Its id: `user.` and a name.
    pub id: String,
    /// How it acts, unless `policy.levels` says otherwise.
    #[serde(default = "required")]
    pub level: Setting,
    /// What it wants for an action that matches: `deny`, `ask` or `warn`.
    #[serde(default = "deny")]
    pub outcome: Outcome,
    /// When it is asked: before actions, or at commits (the git hooks).
    #[serde(default)]
    pub stage: Stage,
    /// What is wrong with the action.
    pub reason: String,
    /// The shortest compliant action.
    pub remedy: String,
    /// Which actions match. All conditions that are given must hold.
    #[serde(default)]
    pub when: When,
    /// A program that decides about actions that match: exit 0 allows, exit 2 denies.
    #[serde(default)]
    pub enforcer: Vec<String>,
    /// The longest time of the program, in milliseconds.
    #[serde(default = "timeout")]
    pub timeout_ms: u64,
    /// Commands with the outcome that the rule must have for them; `turntree policy test` runs them.
    #[serde(default)]
    pub examples: Examples,
}

/// Which actions match a rule. Patterns are of `*`, `?` and `**`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct When {
    /// Kinds of actions: `shell`, `edit`, `read`, `mcp`, `other`.
    pub kinds: Vec<String>,
    /// Programs that a shell command runs.
    pub programs: Vec<String>,
    /// Each pattern matches an argument of that program.
    pub arguments: Vec<String>,
    /// Files that are edited, read or written by a command, below the working tree.
    pub paths: Vec<String>,
    /// The branch of the working directory.
    pub branches: Vec<String>,
    /// Tools of MCP servers, as `server/tool`, and other tools.
    pub tools: Vec<String>,
}

/// Examples of a rule.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Examples {
    /// Commands, or actions as JSON, that the rule says nothing about.
    pub allow: Vec<String>,
    /// Those that it warns about.
    pub warn: Vec<String>,
    /// Those that it asks about.
    pub ask: Vec<String>,
    /// Those that it denies.
    pub deny: Vec<String>,
}

fn required() -> Setting {
    Setting::Required
}

fn deny() -> Outcome {
    Outcome::Deny
}

fn timeout() -> u64 {
    5_000
}

/// The prefix of the ids of users' rules.
pub const PREFIX: &str = "user.";

/// The kinds of actions.
const KINDS: &[&str] = &["shell", "edit", "read", "mcp", "other"];

/// The suffix of policy files.
pub const SUFFIX: &str = ".policy.toml";

/// The rules in TOML of a project.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UserRules {
    rules: Vec<UserRule>,
    /// The file of each rule.
    files: Vec<String>,
}

impl UserRules {
    /// Reads files, given by name and text.
    ///
    /// # Errors
    /// [`HarnessError::Invalid`] with the file and what is wrong.
    pub fn parse(files: &[(String, String)]) -> Result<Self, HarnessError> {
        let mut found = Self::default();
        for (name, text) in files {
            let invalid = |message: String| HarnessError::Invalid(format!("{name}: {message}"));
            let parsed: PolicyFile = toml_file::parse(Path::new(name), text)?;
            for rule in parsed.rule {
                check(&rule).map_err(&invalid)?;
                if found.rules.iter().any(|other| other.id == rule.id) {
                    return Err(invalid(format!("two rules have the id \"{}\"; rename one", rule.id)));
                }
                found.rules.push(rule);
                found.files.push(name.clone());
            }
        }
        Ok(found)
    }

    /// The rules, in the order of the files.
    pub fn list(&self) -> &[UserRule] {
        &self.rules
    }

    /// Where a rule stands.
    pub fn origin(&self, id: &str) -> Option<Origin> {
        let at = self.rules.iter().position(|rule| rule.id == id)?;
        Some(Origin { file: self.files.get(at)?.clone(), line: 0 })
    }
}

impl Evaluator for UserRules {
    fn rules(&self) -> Vec<RuleInfo<'_>> {
        self.rules.iter().map(UserRule::info).collect()
    }

    fn evaluate(&self, wanted: &[usize], action: &Action, context: &Context<'_>) -> Vec<(usize, Finding)> {
        let asked = wanted.iter().filter_map(|at| Some((*at, self.rules.get(*at)?)));
        asked
            .flat_map(|(at, rule)| rule.check(action, context).into_iter().map(move |finding| (at, finding)))
            .collect()
    }
}

fn check(rule: &UserRule) -> Result<(), String> {
    if rule.id.strip_prefix(PREFIX).is_none_or(str::is_empty) {
        return Err(format!("rule.id: expected \"{PREFIX}\" and a name, got \"{}\"", rule.id));
    }
    if rule.outcome == Outcome::Allow {
        return Err(format!("{}: outcome: expected \"deny\", \"ask\" or \"warn\"", rule.id));
    }
    if let Some(kind) = rule.when.kinds.iter().find(|kind| !KINDS.contains(&kind.as_str())) {
        return Err(format!("{}: when.kinds: expected {}, got \"{kind}\"", rule.id, KINDS.join(", ")));
    }
    if !rule.when.arguments.is_empty() && rule.when.programs.is_empty() {
        return Err(format!("{}: when.arguments needs when.programs", rule.id));
    }
    Ok(())
}

fn any(patterns: &[String], text: &str) -> bool {
    patterns.iter().any(|pattern| crate::path::matches(pattern, text))
}

impl UserRule {
    /// What the rule finds in an action. An enforcer that fails denies at the level `required`, and warns below it.
    pub fn check(&self, action: &Action, context: &Context<'_>) -> Vec<Finding> {
        let Some(sure) = self.when.matches(action, context) else { return Vec::new() };
        if self.enforcer.is_empty() {
            // What is not known may be what the rule is about.
            let outcome = if sure { self.outcome } else { self.outcome.min(Outcome::Ask) };
            return vec![self.finding(outcome, self.reason.clone())];
        }
        match enforcers::ask(self, action, context) {
            enforcers::Verdict::Allowed => Vec::new(),
            enforcers::Verdict::Denied(reason) => {
                vec![self.finding(self.outcome, if reason.is_empty() { self.reason.clone() } else { reason })]
            }
            enforcers::Verdict::Failed(reason) => {
                let reason = format!("its enforcer could not decide: {reason}");
                let is_required = self.level.level() == Some(Level::Required);
                vec![self.finding(if is_required { Outcome::Deny } else { Outcome::Warn }, reason)]
            }
        }
    }

    fn info(&self) -> RuleInfo<'_> {
        let level = self.level.level().unwrap_or(Level::Required);
        RuleInfo { id: &self.id, stage: self.stage, level, setting: self.level, summary: &self.reason }
    }

    fn finding(&self, outcome: Outcome, reason: String) -> Finding {
        Finding { rule: self.id.clone().into(), outcome, reason, remedy: self.remedy.clone() }
    }
}

impl When {
    /// Whether an action matches: `Some(true)` if it does, `Some(false)` if it may, because a part is not known.
    fn matches(&self, action: &Action, context: &Context<'_>) -> Option<bool> {
        let kind = match &action.kind {
            ActionKind::Shell { .. } => "shell",
            ActionKind::Edit { .. } => "edit",
            ActionKind::Read => "read",
            ActionKind::Mcp { .. } => "mcp",
            ActionKind::Other { .. } => "other",
        };
        if !self.kinds.is_empty() && !self.kinds.iter().any(|own| own == kind) {
            return None;
        }
        if !self.branches.is_empty() && !any(&self.branches, &context.branch(&action.cwd)?) {
            return None;
        }
        if !self.tools.is_empty() {
            let name = match &action.kind {
                ActionKind::Mcp { server, tool, .. } => format!("{server}/{tool}"),
                ActionKind::Other { tool, .. } => tool.clone(),
                _ => return None,
            };
            any(&self.tools, &name).then_some(())?;
        }
        if !self.paths.is_empty() {
            self.has_path(action, context).then_some(())?;
        }
        if self.programs.is_empty() { Some(true) } else { self.has_program(action) }
    }

    fn has_path(&self, action: &Action, context: &Context<'_>) -> bool {
        let written = match &action.kind {
            ActionKind::Shell { script, .. } => {
                writes(script).into_iter().filter_map(|write| write.path).collect()
            }
            _ => action.paths.clone(),
        };
        written.iter().any(|path| {
            let place = context.place(path);
            any(&self.paths, place.relative.as_deref().unwrap_or(&place.real))
        })
    }

    fn has_program(&self, action: &Action) -> Option<bool> {
        let ActionKind::Shell { script, .. } = &action.kind else { return None };
        let mut found = None;
        for command in &script.commands {
            let Some(program) = command.program() else { continue };
            if !any(&self.programs, &program) {
                continue;
            }
            let words = command.arguments();
            let has = |pattern: &String| words.iter().any(|word| crate::path::matches(pattern, &word.text));
            if self.arguments.iter().all(has) {
                return Some(true);
            }
            if words.iter().any(|word| !word.is_exact) {
                found = Some(false);
            }
        }
        found
    }
}
