//! Outcomes, levels and findings.

use std::borrow::Cow;
use std::cmp::Reverse;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// What is to happen to an action. The greatest outcome of all rules counts.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// It may go on.
    #[default]
    Allow,
    /// It may go on; the agent reads the reason.
    Warn,
    /// A person decides.
    Ask,
    /// It must not go on.
    Deny,
}

impl Outcome {
    /// The name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Warn => "warn",
            Self::Ask => "ask",
            Self::Deny => "deny",
        }
    }
}

/// How binding a rule is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// It blocks.
    Required,
    /// It warns.
    Recommended,
    /// It informs.
    Optional,
}

impl Level {
    /// The name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Required => "required",
            Self::Recommended => "recommended",
            Self::Optional => "optional",
        }
    }

    /// The outcome of a finding at this level.
    pub fn outcome(self, found: Outcome) -> Outcome {
        match self {
            Self::Required => found,
            Self::Recommended => found.min(Outcome::Warn),
            Self::Optional => Outcome::Allow,
        }
    }
}

/// What a rule has found in an action.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The id of the rule.
    pub rule: Cow<'static, str>,
    /// The outcome that the rule wants.
    pub outcome: Outcome,
    /// What is wrong.
    pub reason: String,
    /// The shortest compliant action.
    pub remedy: String,
}

/// A finding with the level of its rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Matched {
    /// The finding.
    pub finding: Finding,
    /// The level of the rule.
    pub level: Level,
    /// The outcome at this level, after overrides.
    pub outcome: Outcome,
}

/// What the gate says about an action.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Decision {
    /// The outcome.
    pub outcome: Outcome,
    /// All findings, the gravest first.
    pub rules: Vec<Matched>,
    /// Findings of rules in shadow mode, and of overridden rules.
    pub shadow: Vec<Finding>,
    /// The time that the rules needed, in microseconds.
    pub latency_us: u64,
    /// Names the set of policies: the hash of levels and settings.
    pub policy_set: String,
}

impl Decision {
    /// Sorts the findings, the gravest first, and takes the outcome from them.
    pub(crate) fn settle(&mut self) {
        self.rules.sort_by_key(|matched| Reverse(matched.outcome));
        self.rules.dedup_by(|next, previous| next.finding == previous.finding);
        self.outcome = self.rules.first().map_or(Outcome::Allow, |matched| matched.outcome);
    }

    /// The reason of the gravest finding.
    pub fn reason(&self) -> Option<&str> {
        self.rules.first().map(|matched| matched.finding.reason.as_str())
    }

    /// The shortest compliant action of the gravest finding.
    pub fn remedy(&self) -> Option<&str> {
        self.rules.first().map(|matched| matched.finding.remedy.as_str())
    }

    /// The text for an agent: what is blocked, why, by which rule, and what to do instead.
    pub fn message(&self) -> String {
        let lines = self.rules.iter().filter(|matched| matched.outcome > Outcome::Allow).map(|matched| {
            let Finding { rule, reason, remedy, .. } = &matched.finding;
            let verb = match matched.outcome {
                Outcome::Deny => "Blocked",
                Outcome::Ask => "Needs approval",
                _ => "Warning",
            };
            format!("{verb} by turntree rule {rule}: {reason}. Instead: {remedy}.")
        });
        lines.collect::<Vec<_>>().join("\n")
    }

    /// The decision as JSON.
    pub fn to_json(&self) -> Value {
        let finding = |finding: &Finding| json!({"id": finding.rule, "outcome": finding.outcome.as_str(), "reason": finding.reason, "remedy": finding.remedy});
        let rules: Vec<_> = self
            .rules
            .iter()
            .map(|matched| {
                let mut value = finding(&matched.finding);
                if let Some(object) = value.as_object_mut() {
                    object.insert("level".to_owned(), matched.level.as_str().into());
                    object.insert("outcome".to_owned(), matched.outcome.as_str().into());
                }
                value
            })
            .collect();
        json!({
            "outcome": self.outcome.as_str(),
            "rules": rules,
            "shadow": self.shadow.iter().map(finding).collect::<Vec<_>>(),
            "latency_us": self.latency_us,
            "policy_set": self.policy_set,
        })
    }
}
