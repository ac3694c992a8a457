//! Rules about files.

use super::super::action::{Action, ActionKind};
use super::super::context::{Context, Place};
use super::super::decision::{Finding, Outcome};
use crate::derive::git::Git;
use crate::derive::writes::{Change, Write, writes};

/// All files that an action changes.
fn changed(action: &Action) -> Vec<Write> {
    match &action.kind {
        ActionKind::Shell { script, .. } => writes(script),
        ActionKind::Edit { .. } => action.paths.iter().map(|path| edit(path)).collect(),
        ActionKind::Mcp { arguments, tool, .. } => mcp_writes(tool, arguments, &action.cwd),
        _ => Vec::new(),
    }
}

fn edit(path: &str) -> Write {
    Write { word: crate::shell::Word::exact(path), path: Some(path.to_owned()), change: Change::Write }
}

/// Paths in the arguments of an MCP tool whose name says that it writes.
fn mcp_writes(tool: &str, arguments: &serde_json::Value, cwd: &str) -> Vec<Write> {
    let tool = tool.to_lowercase();
    let verbs =
        ["write", "edit", "create", "delete", "remove", "move", "append", "patch", "rename", "put", "save"];
    if !verbs.iter().any(|verb| tool.contains(verb)) {
        return Vec::new();
    }
    let keys = [
        "path",
        "file",
        "file_path",
        "filepath",
        "filename",
        "destination",
        "dest",
        "target",
        "directory",
        "source",
    ];
    let values = arguments.as_object().into_iter().flatten();
    let paths = values
        .filter(|(key, _)| keys.contains(&key.to_lowercase().as_str()))
        .filter_map(|(_, value)| value.as_str());
    paths
        .filter_map(|path| crate::path::join(Some(cwd), path.strip_prefix("file://").unwrap_or(path)))
        .map(|path| edit(&path))
        .collect()
}

fn places<'a>(action: &Action, context: &'a Context<'_>) -> impl Iterator<Item = (Write, Place)> + use<'a> {
    let changed = changed(action);
    changed.into_iter().filter_map(|write| {
        let place = context.place(write.path.as_deref()?);
        Some((write, place))
    })
}

pub(super) fn worktree(action: &Action, context: &Context<'_>) -> Vec<Finding> {
    let allowed = &context.project.config.policy.main_checkout_allowed;
    let is_allowed = |place: &Place| {
        let relative = place.relative.as_deref().unwrap_or_default();
        place.is_git_data
            || [".turntree", ".worktrees"].iter().any(|folder| crate::path::below(folder, relative).is_some())
            || allowed.iter().any(|pattern| crate::path::matches(pattern, relative))
            || context.is_scratch(&place.real)
    };
    let found = places(action, context).find(|(_, place)| place.is_main_checkout && !is_allowed(place));
    let remedy = "turntree worktree create NAME, then work in the folder that it prints";
    let deny = |(_, place): (Write, Place)| Finding {
        rule: "files.worktree".into(),
        outcome: Outcome::Deny,
        reason: format!("\"{}\" is in the main checkout, which all agents share", place.real),
        remedy: remedy.to_owned(),
    };
    found.map(deny).into_iter().collect()
}

pub(super) fn scope(action: &Action, context: &Context<'_>) -> Vec<Finding> {
    let is_outside = |place: &Place| {
        !place.is_inside && !context.is_scratch(&place.real) && !place.real.starts_with("/dev/")
    };
    let found = places(action, context).find(|(_, place)| is_outside(place));
    let deny = |(_, place): (Write, Place)| Finding {
        rule: "files.scope".into(),
        outcome: Outcome::Deny,
        reason: format!(
            "\"{}\" is outside of the project \"{}\"",
            place.real,
            context.project.root.display()
        ),
        remedy: "write below the working tree or a scratch folder (policy.scratch in turntree.toml)"
            .to_owned(),
    };
    found.map(deny).into_iter().collect()
}

pub(super) fn remove(action: &Action, context: &Context<'_>) -> Vec<Finding> {
    let mut found = Vec::new();
    let mut add = |outcome, reason: String| {
        let remedy = "name the files or the folder below the working tree that are to go".to_owned();
        found.push(Finding { rule: "files.remove".into(), outcome, reason, remedy });
    };
    for write in changed(action).into_iter().filter(|write| write.change == Change::RemoveTree) {
        let Some(path) = &write.path else {
            add(Outcome::Ask, format!("it removes a folder that is not known: \"{}\"", shown(&write)));
            continue;
        };
        // A pattern for everything in a folder is as good as the folder.
        let folder = path.trim_end_matches(['*', '.']).trim_end_matches('/');
        let folder = if write.word.is_glob || path == "/" { folder } else { path.as_str() };
        let place = context.place(if folder.is_empty() { "/" } else { folder });
        let root = context.project.root.to_string_lossy().into_owned();
        let is_above = |inner: &str| crate::path::below(&place.real, inner).is_some();
        let home = context.home.as_deref().map(crate::path::resolve);
        if place.real == "/" || is_above(&root) || home.as_deref().is_some_and(is_above) {
            add(Outcome::Deny, format!("it removes \"{}\" and all that is in it", place.real));
        } else if place.is_git_data || place.relative.as_deref() == Some(".git") {
            add(Outcome::Deny, format!("it removes the data of git: \"{}\"", place.real));
        } else if place.relative.as_deref() == Some("") {
            add(Outcome::Deny, format!("it removes the whole working tree \"{}\"", place.real));
        }
    }
    found
}

fn shown(write: &Write) -> String {
    write.word.text.replace(crate::shell::facts::UNKNOWN, "?")
}

/// Patterns of paths below a working tree or the user's folder that only people change.
const PROTECTED: &[&str] = &[
    "**/.turntree/**",
    "**/turntree.toml",
    "**/.claude/settings.json",
    "**/.claude/settings.local.json",
    "**/.claude/hooks/**",
    "**/.codex/hooks.json",
    "**/.codex/config.toml",
    "**/.cursor/hooks.json",
    "**/.factory/settings.json",
    "**/.opencode/plugin/turntree*",
    "**/.opencode/plugins/turntree*",
    "**/.git/hooks/**",
    "**/.git/config",
    "**/*.policy.toml",
    "**/*.cedar",
];

fn is_own(place: &Place) -> bool {
    // File systems that ignore case, and invisible characters.
    let folded: String = place
        .real
        .to_lowercase()
        .chars()
        .filter(|char| !matches!(char, '\u{200b}'..='\u{200f}' | '\u{feff}'))
        .collect();
    let path = folded.trim_start_matches('/');
    PROTECTED.iter().any(|pattern| {
        crate::path::matches(pattern, path) || crate::path::matches(pattern, &format!("{path}/"))
    })
}

pub(super) fn self_protect(action: &Action, context: &Context<'_>) -> Vec<Finding> {
    let mut found = Vec::new();
    let mut add = |reason: String| {
        let remedy =
            "ask a person to change it; people use `turntree policy` and `turntree harness` in a terminal"
                .to_owned();
        found.push(Finding { rule: "harness.self-protect".into(), outcome: Outcome::Deny, reason, remedy });
    };
    for (write, place) in places(action, context) {
        let holds_own = write.change == Change::RemoveTree
            && [".claude", ".codex", ".cursor", ".factory", ".opencode"]
                .iter()
                .any(|name| place.real.ends_with(&format!("/{name}")));
        if is_own(&place) || holds_own {
            add(format!("\"{}\" belongs to the guard of this project", place.real));
        }
    }
    if let ActionKind::Shell { script, .. } = &action.kind {
        for command in &script.commands {
            if command.environment.iter().any(|(name, _)| name.starts_with("TURNTREE_")) {
                add("it sets variables of turntree".to_owned());
            }
            let words: Vec<&str> = command.argv.iter().map(|word| word.text.as_str()).collect();
            let program = command.program().unwrap_or_default();
            let is_module =
                program.starts_with("python") && words.windows(2).any(|pair| pair == ["-m", "turntree"]);
            if (program == "turntree" || is_module) && changes_guard(&words) {
                add(format!("\"{}\" changes the guard of this project", command.show()));
            }
            if matches!(program.as_str(), "kill" | "pkill" | "killall")
                && words.iter().any(|word| word.contains("turntree"))
            {
                add("it ends processes of turntree".to_owned());
            }
            let hooks = Git::of(command).filter(|git| git.verb.as_deref() == Some("config"));
            if hooks.is_some_and(|git| {
                git.arguments.iter().any(|word| word.text.to_lowercase().starts_with("alias."))
            }) {
                add("it gives git an alias, under which later commands hide".to_owned());
            }
        }
    }
    found
}

fn changes_guard(words: &[&str]) -> bool {
    words.windows(2).any(|pair| {
        matches!(
            pair,
            ["policy", "override" | "disable" | "level"] | ["harness" | "hooks", "uninstall" | "install"]
        )
    })
}
