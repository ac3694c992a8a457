//! Rules about the repository: tests beside code, distance from the base branch, other agents.

use std::path::Path;

use super::super::action::{Action, ActionKind};
use super::super::context::Context;
use super::super::decision::{Finding, Outcome};
use super::git::gits;
use crate::git::run;

const SOURCES: &[&str] = &[
    "rs", "py", "ts", "tsx", "js", "jsx", "go", "java", "kt", "c", "cc", "cpp", "h", "hpp", "cs", "rb",
    "php", "swift", "scala", "ex",
];

/// True if a path is that of a test.
pub(crate) fn is_test(path: &str) -> bool {
    let path = path.to_lowercase();
    let name = path.rsplit('/').next().unwrap_or(&path);
    path.split('/').any(|part| matches!(part, "test" | "tests" | "__tests__" | "spec" | "specs" | "testing"))
        || name.starts_with("test_")
        || [".test.", ".spec.", "_test.", "_spec."].iter().any(|part| name.contains(part))
}

fn is_source(path: &str) -> bool {
    path.rsplit_once('.').is_some_and(|(_, extension)| SOURCES.contains(&extension))
}

pub(super) fn collision(action: &Action, context: &Context<'_>) -> Vec<Finding> {
    if !matches!(action.kind, ActionKind::Edit { .. }) {
        return Vec::new();
    }
    let mut found = Vec::new();
    for path in &action.paths {
        let Some(relative) = context.place(path).relative else { continue };
        let Some(other) = context.others.on_file(&relative, &action.agent) else { continue };
        let (outcome, reason) = if other.is_live {
            (Outcome::Deny, format!("the agent \"{}\" works on \"{relative}\" now", other.agent))
        } else {
            (Outcome::Warn, format!("the agent \"{}\" has announced \"{relative}\" and is gone", other.agent))
        };
        let remedy = "work on another file, or agree with that agent: turntree coord send".to_owned();
        found.push(Finding { rule: "coordination.collision", outcome, reason, remedy });
    }
    found
}

pub(super) fn tests(action: &Action, _context: &Context<'_>) -> Vec<Finding> {
    let mut found = Vec::new();
    for git in gits(action).iter().filter(|git| git.verb.as_deref() == Some("commit")) {
        let Some(cwd) = git.cwd.as_deref() else { continue };
        let all = git.has_short('a') || git.has_long("--all");
        let arguments: &[&str] =
            if all { &["diff", "HEAD", "--name-only"] } else { &["diff", "--cached", "--name-only"] };
        let Ok(names) = run(Path::new(cwd), arguments) else { continue };
        let has_source = names.lines().any(|path| is_source(path) && !is_test(path));
        let has_test = names.lines().any(is_test);
        if has_source && !has_test {
            found.push(Finding {
                rule: "review.tests",
                outcome: Outcome::Deny,
                reason: "the commit changes source and no tests".to_owned(),
                remedy: "add or change a test that fails without the change".to_owned(),
            });
        }
    }
    found
}

pub(super) fn freshness(action: &Action, context: &Context<'_>) -> Vec<Finding> {
    let mut found = Vec::new();
    let policy = &context.project.config.policy;
    let checks = |verb: &str| matches!(verb, "commit" | "push" | "merge");
    for git in gits(action).iter().filter(|git| git.verb.as_deref().is_some_and(checks)) {
        let Some(cwd) = git.cwd.as_deref() else { continue };
        let Some((base, behind)) = behind(cwd, &policy.protected_branches) else { continue };
        let outcome = match behind {
            count if count > policy.behind_deny => Outcome::Deny,
            count if count > policy.behind_warn => Outcome::Warn,
            _ => continue,
        };
        found.push(Finding {
            rule: "review.freshness",
            outcome,
            reason: format!("the branch is {behind} commits behind \"{base}\""),
            remedy: format!("git rebase {base}, or merge it"),
        });
    }
    found
}

/// The base branch and the number of its commits that a working tree does not have.
fn behind(cwd: &str, bases: &[String]) -> Option<(String, u32)> {
    let folder = Path::new(cwd);
    bases
        .iter()
        .filter(|base| !base.contains('*'))
        .flat_map(|base| [format!("origin/{base}"), base.clone()])
        .find_map(|base| {
            let count = run(folder, &["rev-list", "--count", &format!("HEAD..{base}"), "--"]).ok()?;
            Some((base, count.trim().parse().ok()?))
        })
}
