//! Rules about the repository: tests beside code, distance from the base branch, other agents.

use std::path::Path;

use super::super::action::{Action, ActionKind};
use super::super::context::{Context, OtherAgent};
use super::super::decision::{Finding, Outcome};
use super::git::gits;
use crate::config::Overlap;
use crate::git::{Layout, run, run_on};

/// Lines between two changes that git needs to merge them without a conflict.
const GAP: u32 = 1;

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
    let ActionKind::Edit { .. } = &action.kind else { return Vec::new() };
    let mut found = Vec::new();
    for path in &action.paths {
        let Some(relative) = context.place(path).relative else { continue };
        let Some(other) = context.others.on_file(&relative, &action.agent) else { continue };
        let (outcome, reason) = if !other.is_live {
            (Outcome::Warn, format!("the agent \"{}\" has announced \"{relative}\" and is gone", other.agent))
        } else if is_apart(action, path, &other, context) {
            (Outcome::Warn, format!("the agent \"{}\" works on other lines of \"{relative}\"", other.agent))
        } else {
            (Outcome::Deny, format!("the agent \"{}\" works on \"{relative}\" now", other.agent))
        };
        let remedy = "work on another file, or agree with that agent: turntree coord send".to_owned();
        found.push(Finding { rule: "coordination.collision".into(), outcome, reason, remedy });
    }
    found
}

/// Whether two agents change lines that do not touch, each in a worktree of its own.
fn is_apart(action: &Action, path: &str, other: &OtherAgent, context: &Context<'_>) -> bool {
    let is_on = context.project.config.coordination.overlap == Overlap::Hunk;
    let own = context.layout(&action.cwd).map(|layout| layout.worktree.to_string_lossy().into_owned());
    let is_elsewhere = own.is_some() && other.worktree.is_some() && own != other.worktree;
    let lines = action.lines_of(path);
    let touches = |(first, last): (u32, u32)| {
        other
            .lines
            .iter()
            .any(|(begin, end)| first <= end.saturating_add(GAP) && last.saturating_add(GAP) >= *begin)
    };
    is_on && is_elsewhere && !lines.is_empty() && !other.lines.is_empty() && !lines.into_iter().any(touches)
}

pub(super) fn drift(action: &Action, context: &Context<'_>) -> Vec<Finding> {
    let ActionKind::Edit { .. } = &action.kind else { return Vec::new() };
    let mut found = Vec::new();
    for path in &action.paths {
        let place = context.place(path);
        let Some(relative) = place.relative.filter(|_| !place.is_main_checkout) else { continue };
        let Some(layout) = context.layout(path) else { continue };
        let Some(base) = context.others.has_drifted(&layout, &relative) else { continue };
        found.push(Finding {
            rule: "coordination.drift".into(),
            outcome: Outcome::Deny,
            reason: format!("\"{relative}\" has changed on \"{base}\" since this branch has left it"),
            remedy: format!("commit what you have, then git rebase {base}, or merge it, and edit again"),
        });
    }
    found
}

pub(super) fn tests(action: &Action, context: &Context<'_>) -> Vec<Finding> {
    let mut found = Vec::new();
    for git in gits(action).iter().filter(|git| git.verb.as_deref() == Some("commit")) {
        let Some(cwd) = git.cwd.as_deref() else { continue };
        let all = git.has_short('a') || git.has_long("--all");
        let arguments: &[&str] =
            if all { &["diff", "HEAD", "--name-only"] } else { &["diff", "--cached", "--name-only"] };
        let Ok(names) = run_on(context.others.index(), Path::new(cwd), arguments) else { continue };
        let has_source = names.lines().any(|path| is_source(path) && !is_test(path));
        let has_test = names.lines().any(is_test);
        if has_source && !has_test {
            found.push(Finding {
                rule: "review.tests".into(),
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
            rule: "review.freshness".into(),
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
    let layout = Layout::find(folder)?;
    let head = layout.head_commit();
    // In another format of references than files, git knows more than the files.
    let has_files = !layout.common_dir.join("reftable").exists();
    bases
        .iter()
        .filter(|base| !base.contains('*'))
        .flat_map(|base| {
            [("refs/remotes/origin/", format!("origin/{base}")), ("refs/heads/", base.clone())]
                .map(|(folder, name)| (format!("{folder}{base}"), name))
        })
        .find_map(|(reference, base)| {
            // To start git takes as long as all rules.
            let commit = layout.commit_of(&reference);
            if has_files && commit.is_none() && !layout.common_dir.join(&reference).exists() {
                return None;
            }
            if commit.is_some() && commit == head {
                return Some((base, 0));
            }
            let count = run(folder, &["rev-list", "--count", &format!("HEAD..{base}"), "--"]).ok()?;
            Some((base, count.trim().parse().ok()?))
        })
}
