//! The user's own rules in Cedar: files `*.cedar` in the folder of policies.

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::path::Path;

use serde::de::DeserializeOwned;
use serde_json::Value;
use sha2::{Digest, Sha256};
use turntree_cedar::{Answer, CedarError, Policies, Policy};

use super::action::Action;
use super::cedar_request::requests;
use super::context::Context;
use super::decision::{Finding, Level, Outcome};
use super::evaluator::{Evaluator, RuleInfo};
use super::policies::Origin;
use super::rules::Stage;
use super::user::{Examples, PREFIX};
use crate::config::Setting;
use crate::error::HarnessError;

/// The suffix of the files.
pub const SUFFIX: &str = ".cedar";

/// The annotations of a rule.
const ANNOTATIONS: &[&str] =
    &["id", "level", "outcome", "stage", "reason", "remedy", "allows", "warns", "asks", "denies"];

/// A rule in Cedar.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CedarRule {
    /// Its id: `user.` and a name.
    pub id: String,
    /// How it acts, unless `policy.levels` says otherwise.
    pub level: Setting,
    /// What it wants for an action that matches.
    pub outcome: Outcome,
    /// When it is asked.
    pub stage: Stage,
    /// What is wrong with the action.
    pub reason: String,
    /// The shortest compliant action.
    pub remedy: String,
    /// Actions with the outcome that the rule must have for them.
    pub examples: Examples,
    /// Where it stands.
    pub origin: Origin,
}

/// The rules in Cedar of a project.
#[derive(Debug, Clone, Default)]
pub struct CedarRules {
    rules: Vec<CedarRule>,
    policies: Policies,
}

impl CedarRules {
    /// Reads files, given by name and text.
    ///
    /// # Errors
    /// [`HarnessError::Invalid`] with file, line, rule and remedy.
    pub fn parse(files: &[(String, String)]) -> Result<Self, HarnessError> {
        Self::read(files, false)
    }

    /// As [`Self::parse`]. The marker is a file with the [`Self::digest`] of those that were valid last: the same files are
    /// not checked against the schema again.
    ///
    /// # Errors
    /// As [`Self::parse`]. A marker that cannot be read or written is not one: the next call checks again.
    pub fn parse_marked(files: &[(String, String)], marker: &Path) -> Result<Self, HarnessError> {
        if files.is_empty() {
            return Ok(Self::default());
        }
        let digest = Self::digest(files);
        let is_checked = fs::read_to_string(marker).is_ok_and(|text| text == digest);
        let rules = Self::read(files, is_checked)?;
        if !is_checked {
            mark(marker, &digest);
        }
        Ok(rules)
    }

    /// Names files, the schema and the version that has checked them.
    pub fn digest(files: &[(String, String)]) -> String {
        let mut digest = Sha256::new();
        digest.update(format!("{} {}", env!("CARGO_PKG_VERSION"), turntree_cedar::SCHEMA));
        for (name, text) in files {
            digest.update(format!("{} {} {name}\n{text}", name.len(), text.len()));
        }
        crate::state::hex(&digest.finalize())
    }

    fn read(files: &[(String, String)], is_checked: bool) -> Result<Self, HarnessError> {
        let invalid = |error: CedarError| HarnessError::Invalid(error.to_string());
        let files = files.iter().map(|(name, text)| (name.as_str(), text.as_str()));
        let policies = if is_checked { Policies::parse_checked(files) } else { Policies::parse(files) };
        let policies = policies.map_err(invalid)?;
        let rules = policies.list().iter().map(rule).collect::<Result<_, _>>().map_err(invalid)?;
        Ok(Self { rules, policies })
    }

    /// The rules, in the order of the files.
    pub fn list(&self) -> &[CedarRule] {
        &self.rules
    }
}

/// Writes a marker whole, or not at all: another process may read it at the same time.
fn mark(marker: &Path, digest: &str) {
    let new = marker.with_extension(format!("new-{}", std::process::id()));
    let written = fs::write(&new, digest).and_then(|()| fs::rename(&new, marker));
    if let Err(error) = written {
        log::debug!("{}: {error}", marker.display());
        let _ = fs::remove_file(&new);
    }
}

fn rule(policy: &Policy) -> Result<CedarRule, CedarError> {
    let given = |name: &str| policy.annotations.get(name).map(String::as_str);
    if let Some(name) = policy.annotations.keys().find(|name| !ANNOTATIONS.contains(&name.as_str())) {
        let remedy = format!("the annotations are {}", ANNOTATIONS.join(", "));
        return Err(policy.error(format!("no annotation is called \"@{name}\""), remedy));
    }
    if policy.id.strip_prefix(PREFIX).is_none_or(str::is_empty) {
        let message = format!("expected \"{PREFIX}\" and a name in @id, got \"{}\"", policy.id);
        return Err(policy.error(message, format!("write @id(\"{PREFIX}NAME\") above the policy")));
    }
    let needs = |name: &str| {
        given(name).filter(|text| !text.trim().is_empty()).map(str::to_owned).ok_or_else(|| {
            policy.error(format!("@{name} is missing"), format!("write @{name}(\"…\") above the policy"))
        })
    };
    let outcome = named(policy, "outcome", Outcome::Deny, "\"deny\", \"ask\" or \"warn\"")?;
    if outcome == Outcome::Allow {
        return Err(policy.error("@outcome is \"allow\"", "expected \"deny\", \"ask\" or \"warn\""));
    }
    let lines = |name: &str| {
        let lines = given(name).unwrap_or_default().lines().map(str::trim);
        lines.filter(|line| !line.is_empty()).map(str::to_owned).collect()
    };
    Ok(CedarRule {
        id: policy.id.clone(),
        level: named(
            policy,
            "level",
            Setting::Required,
            "\"required\", \"recommended\", \"optional\", \"shadow\" or \"off\"",
        )?,
        outcome,
        stage: named(policy, "stage", Stage::Pre, "\"pre\", \"review\" or \"commit\"")?,
        reason: needs("reason")?,
        remedy: needs("remedy")?,
        examples: Examples {
            allow: lines("allows"),
            warn: lines("warns"),
            ask: lines("asks"),
            deny: lines("denies"),
        },
        origin: Origin { file: policy.file.clone(), line: policy.line },
    })
}

/// The value of an annotation that is one of some names.
fn named<T: DeserializeOwned>(
    policy: &Policy,
    name: &str,
    default: T,
    expected: &str,
) -> Result<T, CedarError> {
    let Some(text) = policy.annotations.get(name) else { return Ok(default) };
    serde_json::from_value(Value::from(text.as_str()))
        .map_err(|_| policy.error(format!("@{name} is \"{text}\""), format!("expected {expected}")))
}

impl CedarRule {
    fn info(&self) -> RuleInfo<'_> {
        let level = self.level.level().unwrap_or(Level::Required);
        RuleInfo { id: &self.id, stage: self.stage, level, setting: self.level, summary: &self.reason }
    }

    fn finding(&self, answer: Answer) -> Finding {
        let (outcome, reason) = match answer {
            Answer::Matches => (self.outcome, self.reason.clone()),
            // What is not known may be what the rule is about.
            Answer::Perhaps => (self.outcome.min(Outcome::Ask), self.reason.clone()),
            Answer::Failed => {
                let is_required = self.level.level() == Some(Level::Required);
                let outcome = if is_required { Outcome::Deny } else { Outcome::Warn };
                (outcome, "the rule could not be evaluated".to_owned())
            }
        };
        Finding { rule: self.id.clone().into(), outcome, reason, remedy: self.remedy.clone() }
    }
}

impl Evaluator for CedarRules {
    fn rules(&self) -> Vec<RuleInfo<'_>> {
        self.rules.iter().map(CedarRule::info).collect()
    }

    fn evaluate(&self, wanted: &[usize], action: &Action, context: &Context<'_>) -> Vec<(usize, Finding)> {
        if wanted.is_empty() {
            return Vec::new();
        }
        let mut answers: BTreeMap<usize, Answer> = BTreeMap::new();
        let asked = requests(action, context);
        if asked.is_cut {
            answers.extend(wanted.iter().map(|at| (*at, Answer::Failed)));
        }
        // A script may do the same many times.
        let mut asked_before = HashSet::new();
        for request in asked.requests.iter().filter(|request| asked_before.insert(*request)) {
            for (at, answer) in self.policies.ask(request) {
                let known = answers.entry(at).or_insert(answer);
                *known = answer.max(*known);
            }
        }
        let found = answers.into_iter().filter(|(at, _)| wanted.contains(at));
        found.filter_map(|(at, answer)| Some((at, self.rules.get(at)?.finding(answer)))).collect()
    }
}
