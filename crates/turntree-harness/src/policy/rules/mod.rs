//! The built-in rules.
//!
//! | module | rules |
//! |---|---|
//! | `git` | force pushes, protected branches, discarded work, rewritten history, skipped hooks |
//! | `files` | the main checkout, the scope of writes, removals, the harness' own files |
//! | `systems` | infrastructure, databases, containers, processes, publishing |
//! | `secrets` | secrets in texts and commands, files with secrets |
//! | `unknown` | commands that the text does not determine |
//! | `repository` | tests beside code, distance from the base branch, other agents |

mod files;
mod git;
mod repository;
pub mod secrets;
mod systems;
mod unknown;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::action::Action;
use super::context::Context;
use super::decision::{Finding, Level};
use super::evaluator::{Evaluator, RuleInfo};

/// When a rule is asked.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Stage {
    /// Before an action.
    #[default]
    Pre,
    /// Before a commit or a push, also in the hooks of git.
    Review,
    /// Only in the hooks of git.
    Commit,
}

impl Stage {
    /// The name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pre => "pre",
            Self::Review => "review",
            Self::Commit => "commit",
        }
    }
}

/// A built-in rule.
#[derive(Debug)]
pub struct Rule {
    /// Its id.
    pub id: &'static str,
    /// When it is asked.
    pub stage: Stage,
    /// The level, unless `turntree.toml` says otherwise.
    pub level: Level,
    /// What it does, in one line.
    pub summary: &'static str,
    /// Looks at an action.
    pub check: fn(&Action, &Context<'_>) -> Vec<Finding>,
}

const fn rule(
    id: &'static str,
    level: Level,
    summary: &'static str,
    check: fn(&Action, &Context<'_>) -> Vec<Finding>,
) -> Rule {
    Rule { id, stage: Stage::Pre, level, summary, check }
}

/// All rules, in the order in which they are listed.
pub static RULES: &[Rule] = &[
    rule("git.force-push", Level::Required, "denies pushes that overwrite what others have", git::force_push),
    rule(
        "git.protected-branch",
        Level::Required,
        "denies commits on and pushes to protected branches",
        git::protected_branch,
    ),
    rule("git.discard", Level::Required, "denies commands that discard uncommitted work", git::discard),
    rule("git.history", Level::Required, "denies commands that rewrite or remove history", git::history),
    rule("git.skip-hooks", Level::Required, "denies commits and pushes that skip hooks", git::skip_hooks),
    rule(
        "git.redirected",
        Level::Required,
        "asks about changes to a repository that variables or options name",
        git::redirected,
    ),
    rule("files.worktree", Level::Required, "denies edits in the main checkout", files::worktree),
    rule("files.scope", Level::Required, "denies writes outside of the project", files::scope),
    rule("files.remove", Level::Required, "denies removals of whole folders that matter", files::remove),
    rule(
        "harness.self-protect",
        Level::Required,
        "denies changes to policies, hooks and state of the harness layer",
        files::self_protect,
    ),
    rule(
        "systems.infrastructure",
        Level::Required,
        "denies changes to live infrastructure",
        systems::infrastructure,
    ),
    rule("systems.database", Level::Required, "denies commands that drop databases", systems::database),
    rule(
        "systems.containers",
        Level::Required,
        "asks about removals of containers' data",
        systems::containers,
    ),
    rule(
        "systems.process",
        Level::Required,
        "denies broad kills of processes and shutdowns",
        systems::process,
    ),
    rule("systems.device", Level::Required, "denies writes to disks", systems::device),
    rule("systems.publish", Level::Required, "asks about publishing packages and releases", systems::publish),
    rule("secrets.literal", Level::Required, "denies secrets in commands and files", secrets::literal),
    rule("secrets.send", Level::Required, "denies sending files with secrets", secrets::send),
    rule("secrets.read", Level::Required, "asks about reading files with secrets", secrets::read),
    rule(
        "shell.unknown",
        Level::Required,
        "asks about commands that the text does not determine",
        unknown::unknown,
    ),
    rule(
        "shell.remote-script",
        Level::Required,
        "asks about running what was downloaded",
        unknown::remote_script,
    ),
    rule(
        "coordination.collision",
        Level::Required,
        "denies edits of a file that another live agent works on",
        repository::collision,
    ),
    rule(
        "coordination.drift",
        Level::Required,
        "denies edits of a file that has changed on the base branch in the meantime",
        repository::drift,
    ),
    Rule {
        stage: Stage::Review,
        ..rule(
            "review.tests",
            Level::Recommended,
            "warns about commits of source without tests",
            repository::tests,
        )
    },
    Rule {
        stage: Stage::Review,
        ..rule(
            "review.freshness",
            Level::Required,
            "warns and then denies on branches far behind their base",
            repository::freshness,
        )
    },
];

/// The built-in rules as an evaluator.
#[derive(Debug, Clone, Copy)]
pub struct BuiltIn;

impl Evaluator for BuiltIn {
    fn rules(&self) -> Vec<RuleInfo<'_>> {
        let info = |rule: &'static Rule| {
            let Rule { id, stage, level, summary, .. } = rule;
            RuleInfo { id, stage: *stage, level: *level, setting: (*level).into(), summary }
        };
        RULES.iter().map(info).collect()
    }

    fn evaluate(&self, wanted: &[usize], action: &Action, context: &Context<'_>) -> Vec<(usize, Finding)> {
        let asked = wanted.iter().filter_map(|at| Some((*at, RULES.get(*at)?)));
        asked
            .flat_map(|(at, rule)| {
                (rule.check)(action, context).into_iter().map(move |finding| (at, finding))
            })
            .collect()
    }
}

/// True if a rule has this id.
pub fn is_rule(id: &str) -> bool {
    RULES.iter().any(|rule| rule.id == id)
}
