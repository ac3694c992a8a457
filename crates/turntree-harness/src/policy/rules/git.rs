//! Rules about git.

use super::super::action::{Action, ActionKind};
use super::super::context::Context;
use super::super::decision::{Finding, Outcome};
use crate::derive::git::Git;
use crate::shell::Word;

/// The git commands of an action.
pub(super) fn gits(action: &Action) -> Vec<Git> {
    match &action.kind {
        ActionKind::Shell { script, .. } => script.commands.iter().filter_map(Git::of).collect(),
        _ => Vec::new(),
    }
}

fn verb(git: &Git) -> &str {
    git.verb.as_deref().unwrap_or_default()
}

fn finding(rule: &'static str, outcome: Outcome, reason: String, remedy: &str) -> Finding {
    Finding { rule: rule.into(), outcome, reason, remedy: remedy.to_owned() }
}

pub(super) fn force_push(action: &Action, _context: &Context<'_>) -> Vec<Finding> {
    let mut found = Vec::new();
    for git in gits(action) {
        if !matches!(verb(&git), "push" | "send-pack") {
            continue;
        }
        let remedy = "push new commits without force, or merge the remote branch first";
        if git.forces() {
            let reason =
                "the push overwrites the remote branch and may lose the commits of others".to_owned();
            found.push(finding("git.force-push", Outcome::Deny, reason, remedy));
        } else if git.has_long("--force-with-lease") {
            let reason = "the push replaces the remote branch if nobody has changed it".to_owned();
            found.push(finding("git.force-push", Outcome::Ask, reason, remedy));
        } else if git.arguments.iter().any(|word| word.text.starts_with(crate::shell::facts::UNKNOWN)) {
            let reason = "the push has arguments that are not known, which may be --force".to_owned();
            found.push(finding("git.force-push", Outcome::Ask, reason, "write the arguments out"));
        }
    }
    found
}

pub(super) fn protected_branch(action: &Action, context: &Context<'_>) -> Vec<Finding> {
    let mut found = Vec::new();
    let rule = "git.protected-branch";
    let gits = gits(action);
    for (index, git) in gits.iter().enumerate() {
        let current = git.cwd.as_deref().and_then(|cwd| context.branch(cwd));
        match verb(git) {
            "push" | "send-pack" => {
                let mut targets = git.pushed();
                if targets.is_empty() || targets.iter().any(|target| target == "HEAD") {
                    targets.extend(current.clone());
                }
                if git.has_long("--all") || git.has_long("--mirror") {
                    targets.extend(context.project.config.policy.protected_branches.iter().cloned());
                }
                if let Some(target) = targets.iter().find(|target| context.is_protected(target)) {
                    let reason = format!("it pushes to the protected branch \"{target}\"");
                    found.push(finding(
                        rule,
                        Outcome::Deny,
                        reason,
                        "push a branch of its own and open a pull request",
                    ));
                }
            }
            "commit" | "merge" | "rebase" | "cherry-pick" | "revert" | "am" | "pull" => {
                let is_pull = matches!(verb(git), "pull" | "merge") && git.has_long("--ff-only");
                let is_abort = git.has_long("--abort") || git.has_long("--dry-run");
                if is_pull || is_abort {
                    continue;
                }
                let before = gits.iter().take(index).filter(|other| other.cwd == git.cwd);
                let switched: Vec<&Word> = before.filter_map(switched_to).collect();
                let named = switched.iter().map(|word| word.text.as_str());
                let mut branches = current.as_deref().into_iter().chain(named);
                let remedy = "work on a branch in a worktree: turntree worktree create NAME";
                if let Some(branch) = branches.find(|branch| context.is_protected(branch)) {
                    let outcome = if verb(git) == "pull" { Outcome::Warn } else { Outcome::Deny };
                    let reason = format!("git {} changes the protected branch \"{branch}\"", verb(git));
                    found.push(finding(rule, outcome, reason, remedy));
                } else if switched.iter().any(|word| !word.is_exact || word.text == "-") {
                    let reason = format!("git {} changes a branch that is not known", verb(git));
                    found.push(finding(rule, Outcome::Ask, reason, "write the name of the branch out"));
                }
            }
            _ => {}
        }
    }
    found
}

/// The branch, or what may be one, that a command checks out for the commands after it.
fn switched_to(git: &Git) -> Option<&Word> {
    if !matches!(verb(git), "checkout" | "switch") || git.arguments.iter().any(|word| word.text == "--") {
        return None;
    }
    // The branch before: an operand that looks like an option.
    if let Some(previous) = git.arguments.iter().find(|word| word.text == "-") {
        return Some(previous);
    }
    let creates = ['b', 'B', 'c', 'C'].iter().any(|letter| git.has_short(*letter));
    let operands = git.operands();
    // Several without a new branch: files of a commit.
    operands.first().copied().filter(|_| creates || operands.len() == 1)
}

/// What a command does to uncommitted work; `None` if it keeps it.
fn discards(git: &Git) -> Option<&'static str> {
    let operands = git.operands();
    let has_operand = |name: &str| operands.iter().any(|word| word.text == name);
    let first = operands.first().map(|word| word.text.as_str());
    let has_paths = git.arguments.iter().any(|word| word.text == "--");
    let forces = git.has_short('f') || git.has_long("--force");
    let cleans = forces || git.settings.iter().any(|text| text.contains("requireforce"));
    let is_dry = git.has_short('n') || git.has_long("--dry-run");
    Some(match verb(git) {
        "reset" if git.has_long("--hard") || git.has_long("--merge") => "discards all uncommitted changes",
        "clean" if cleans && !is_dry => "removes files that git does not know",
        "checkout" if forces || has_paths || has_operand(".") || has_operand(":/") => {
            "overwrites uncommitted changes of files"
        }
        "switch" if forces || git.has_long("--discard-changes") => "overwrites uncommitted changes",
        "restore" if !git.has_long("--staged") || git.has_long("--worktree") => {
            "overwrites uncommitted changes of files"
        }
        "stash" if matches!(first, Some("drop" | "clear")) => "removes stashed changes",
        "worktree" if first == Some("remove") && forces => "removes a worktree with uncommitted changes",
        "rm" if forces => "removes files with uncommitted changes",
        "read-tree" if git.has_long("--reset") => "discards uncommitted changes",
        "checkout-index" if git.has_short('f') => "overwrites uncommitted changes of files",
        _ => return None,
    })
}

pub(super) fn discard(action: &Action, context: &Context<'_>) -> Vec<Finding> {
    let mut found = Vec::new();
    for git in gits(action) {
        let Some(what) = discards(&git) else { continue };
        let layout = git.cwd.as_deref().and_then(|cwd| context.layout(cwd));
        let is_linked = layout.is_some_and(|layout| layout.is_linked());
        let is_own = is_linked && verb(&git) != "stash" && verb(&git) != "worktree";
        let outcome = if is_own { Outcome::Warn } else { Outcome::Deny };
        let reason = format!("git {} {what}", verb(&git));
        let remedy = "commit the changes or run git stash first, then revert single commits";
        found.push(finding("git.discard", outcome, reason, remedy));
    }
    found
}

pub(super) fn history(action: &Action, context: &Context<'_>) -> Vec<Finding> {
    let mut found = Vec::new();
    for git in gits(action) {
        let operands = git.operands();
        let first = operands.first().map(|word| word.text.as_str());
        let deletes = git.has_short('d') || git.has_short('D') || git.has_long("--delete");
        let named = || operands.iter().find(|word| context.is_protected(&word.text));
        let what = match verb(&git) {
            "filter-branch" | "filter-repo" | "fast-import" | "replace" => "rewrites history".to_owned(),
            "reflog" if matches!(first, Some("expire" | "delete")) => {
                "removes what could restore lost commits".to_owned()
            }
            "gc" if git.has_long("--prune") || git.has_long("--aggressive") => {
                "removes what could restore lost commits".to_owned()
            }
            "prune" => "removes what could restore lost commits".to_owned(),
            "update-ref" | "symbolic-ref" => "changes a reference directly".to_owned(),
            "push" if deletes || operands.iter().skip(1).any(|word| word.text.starts_with(':')) => {
                "deletes a remote branch".to_owned()
            }
            "branch" if git.has_short('D') => "deletes a branch that may not be merged".to_owned(),
            "branch"
                if (deletes || git.has_short('f') || git.has_short('M') || git.has_short('m'))
                    && named().is_some() =>
            {
                "changes a protected branch".to_owned()
            }
            "tag" if git.has_short('d') || git.has_short('f') || git.has_long("--force") => {
                "removes or moves a tag".to_owned()
            }
            _ => continue,
        };
        let outcome = if matches!(verb(&git), "update-ref" | "symbolic-ref" | "tag" | "branch") {
            Outcome::Ask
        } else {
            Outcome::Deny
        };
        let reason = format!("git {} {what}", verb(&git));
        found.push(finding(
            "git.history",
            outcome,
            reason,
            "add commits (git revert) or let a person remove references",
        ));
    }
    found
}

pub(super) fn skip_hooks(action: &Action, _context: &Context<'_>) -> Vec<Finding> {
    let mut found = Vec::new();
    let remedy = "run the hooks and fix what they report";
    let deny = |reason: &str| finding("git.skip-hooks", Outcome::Deny, reason.to_owned(), remedy);
    for git in gits(action) {
        let skips = matches!(verb(&git), "commit" | "push" | "merge" | "rebase" | "am" | "cherry-pick");
        if skips && (git.has_long("--no-verify") || (verb(&git) == "commit" && has_letter_n(&git))) {
            found.push(deny("the command skips the hooks of the repository"));
        }
        let changes_setting = verb(&git) == "config"
            && git.arguments.iter().any(|word| word.text.to_lowercase().contains("hookspath"));
        if changes_setting || git.settings.iter().any(|text| text.starts_with("core.hookspath")) {
            found.push(deny("the command replaces the hooks of the repository"));
        }
    }
    if let ActionKind::Shell { script, .. } = &action.kind {
        let is_off = |name: &str, value: &str| {
            (name == "HUSKY" && value == "0")
                || name == "HUSKY_SKIP_HOOKS"
                || (name == "SKIP" && !value.is_empty())
        };
        for command in script.commands.iter().filter(|command| Git::of(command).is_some()) {
            if command.environment.iter().any(|(name, value)| is_off(name, &value.text)) {
                found.push(deny("a variable switches the hooks of the repository off"));
            }
        }
    }
    found
}

/// `-n` of commit, alone or before an option with a value.
fn has_letter_n(git: &Git) -> bool {
    git.arguments.iter().map(|word| word.text.as_str()).take_while(|text| *text != "--").any(|text| {
        let letters = text.strip_prefix('-').filter(|rest| !rest.starts_with('-')).unwrap_or_default();
        letters.chars().take_while(|char| !"mFCct".contains(*char)).any(|char| char == 'n')
    })
}

pub(super) fn redirected(action: &Action, _context: &Context<'_>) -> Vec<Finding> {
    let reads = [
        "status",
        "log",
        "show",
        "diff",
        "rev-parse",
        "ls-files",
        "cat-file",
        "rev-list",
        "describe",
        "version",
    ];
    let is_change = |git: &Git| git.verb.as_deref().is_none_or(|verb| !reads.contains(&verb));
    let found = gits(action).into_iter().filter(|git| git.is_redirected && is_change(git));
    found
        .map(|git| {
            let reason = format!("git {} works on a repository that variables or options name", verb(&git));
            finding(
                "git.redirected",
                Outcome::Ask,
                reason,
                "run git inside of the worktree, without GIT_DIR and --git-dir",
            )
        })
        .collect()
}
