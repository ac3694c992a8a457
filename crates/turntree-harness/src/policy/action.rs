//! What an agent wants to do, as facts.

use serde_json::{Value, json};

use crate::error::HarnessError;
use crate::shell::{Script, Surroundings, analyze};

/// The longest command in facts, in characters.
const MAX_FACTS: usize = 32 * 1024;

/// What kind of tool acts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ActionKind {
    /// A shell command.
    Shell {
        /// The text.
        command: String,
        /// What it would run.
        script: Script,
    },
    /// A change or a new content of files.
    Edit {
        /// The text that is added, for the secret scanner.
        added: String,
        /// The texts that are replaced; none if the whole file is written.
        replaced: Vec<String>,
    },
    /// Files are read.
    Read,
    /// A tool of an MCP server.
    Mcp {
        /// The server.
        server: String,
        /// The tool.
        tool: String,
        /// Its arguments.
        arguments: Value,
    },
    /// Anything else.
    Other {
        /// The name of the tool.
        tool: String,
        /// Its arguments.
        arguments: Value,
    },
}

/// What an agent wants to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Action {
    /// What kind of tool acts.
    pub kind: ActionKind,
    /// The working directory, absolute.
    pub cwd: String,
    /// Absolute paths that are edited or read.
    pub paths: Vec<String>,
    /// The agent, if it is known.
    pub agent: String,
    /// The session, if it is known.
    pub session: String,
    /// The harness, if it is known.
    pub harness: String,
}

impl Action {
    fn new(kind: ActionKind, cwd: &str, paths: Vec<String>) -> Self {
        let (agent, session, harness) = (String::new(), String::new(), String::new());
        Self { kind, cwd: cwd.to_owned(), paths, agent, session, harness }
    }

    /// A shell command.
    pub fn shell(command: &str, cwd: &str, home: Option<String>) -> Self {
        let cwd_of_script = Some(cwd.to_owned());
        let surroundings = Surroundings { cwd: cwd_of_script, home, git_aliases: Some(crate::git::aliases) };
        let script = analyze(command, &surroundings);
        Self::new(ActionKind::Shell { command: command.to_owned(), script }, cwd, Vec::new())
    }

    /// A change of files. Relative paths start in the working directory.
    pub fn edit(paths: &[&str], added: &str, cwd: &str) -> Self {
        let kind = ActionKind::Edit { added: added.to_owned(), replaced: Vec::new() };
        Self::new(kind, cwd, absolute(paths, cwd))
    }

    /// The lines of a file that an edit replaces, counted from 1. Empty if that is not known: then it is the whole file.
    pub fn lines_of(&self, path: &str) -> Vec<(u32, u32)> {
        let ActionKind::Edit { replaced, .. } = &self.kind else { return Vec::new() };
        let Ok(text) = std::fs::read_to_string(path) else { return Vec::new() };
        let count = |text: &str| u32::try_from(text.matches('\n').count()).unwrap_or(u32::MAX);
        let lines = |old: &String| {
            let first =
                count(text.get(..text.find(old.as_str()).filter(|_| !old.is_empty())?)?).saturating_add(1);
            Some((first, first.saturating_add(count(old.trim_end_matches('\n')))))
        };
        // One text that is not found may be anywhere.
        replaced.iter().map(lines).collect::<Option<Vec<_>>>().unwrap_or_default()
    }

    /// Files that are read.
    pub fn read(paths: &[&str], cwd: &str) -> Self {
        Self::new(ActionKind::Read, cwd, absolute(paths, cwd))
    }

    /// A tool of an MCP server.
    pub fn mcp(server: &str, tool: &str, arguments: Value, cwd: &str) -> Self {
        let kind = ActionKind::Mcp { server: server.to_owned(), tool: tool.to_owned(), arguments };
        Self::new(kind, cwd, Vec::new())
    }

    /// Any other tool.
    pub fn other(tool: &str, arguments: Value, cwd: &str) -> Self {
        Self::new(ActionKind::Other { tool: tool.to_owned(), arguments }, cwd, Vec::new())
    }

    /// Reads an action from JSON: `{"kind": "shell", "command": …}`, `{"kind": "edit" | "write" | "read", "path" |
    /// "paths": …, "content": …}`, `{"kind": "mcp", "server": …, "tool": …, "arguments": …}` or `{"kind": "other",
    /// "tool": …, "arguments": …}`, each with an optional `cwd`, `agent`, `session` and `harness`.
    ///
    /// # Errors
    /// [`HarnessError::Invalid`] with the key that is missing or wrong: a value that is not read must not be allowed.
    pub fn from_json(value: &Value, cwd: &str, home: Option<String>) -> Result<Self, HarnessError> {
        check_types(value)?;
        let text = |key: &str| value.get(key).and_then(Value::as_str);
        let needs = |key: &str| {
            text(key)
                .ok_or_else(|| HarnessError::Invalid(format!("action: expected a text in the key \"{key}\"")))
        };
        let cwd = text("cwd").unwrap_or(cwd);
        let arguments = || value.get("arguments").cloned().unwrap_or_else(|| json!({}));
        let mut action = match needs("kind")? {
            "shell" => Self::shell(needs("command")?, cwd, home),
            kind @ ("edit" | "write" | "read") => {
                let mut paths: Vec<&str> = text("path").into_iter().collect();
                let more = value.get("paths").and_then(Value::as_array);
                paths.extend(more.into_iter().flatten().filter_map(Value::as_str));
                if paths.is_empty() {
                    needs("path")?;
                }
                match kind {
                    "read" => Self::read(&paths, cwd),
                    _ => {
                        Self::edit(&paths, text("content").or_else(|| text("added")).unwrap_or_default(), cwd)
                    }
                }
            }
            "mcp" => Self::mcp(needs("server")?, needs("tool")?, arguments(), cwd),
            "other" | "task" | "net" => Self::other(needs("tool")?, arguments(), cwd),
            kind => {
                return Err(HarnessError::Invalid(format!(
                    "action.kind: expected \"shell\", \"edit\", \"write\", \"read\", \"mcp\" or \"other\", got \"{kind}\""
                )));
            }
        };
        text("agent").unwrap_or_default().clone_into(&mut action.agent);
        text("session").unwrap_or_default().clone_into(&mut action.session);
        text("harness").unwrap_or_default().clone_into(&mut action.harness);
        Ok(action)
    }

    /// The name of the tool, for the audit.
    pub fn tool(&self) -> &str {
        match &self.kind {
            ActionKind::Shell { .. } => "shell",
            ActionKind::Edit { .. } => "edit",
            ActionKind::Read => "read",
            ActionKind::Mcp { tool, .. } | ActionKind::Other { tool, .. } => tool,
        }
    }

    /// The facts as JSON, for the audit. Texts that may have secrets are masked.
    pub fn facts(&self) -> Value {
        let mut facts = json!({"kind": self.tool(), "cwd": self.cwd, "paths": self.paths});
        let extra = match &self.kind {
            ActionKind::Shell { script, command } => {
                // `replay` parses it again.
                let text = command.chars().take(MAX_FACTS).collect::<String>();
                if let Some(object) = facts.as_object_mut() {
                    object.insert("command".to_owned(), text.into());
                }
                let commands: Vec<_> =
                    script.commands.iter().take(100).map(crate::shell::Command::to_json).collect();
                ("shell", json!({"commands": commands, "unknown": script.unknown}))
            }
            ActionKind::Mcp { server, tool, arguments } => {
                ("mcp", json!({"server": server, "tool": tool, "arguments": arguments}))
            }
            ActionKind::Other { arguments, .. } => ("arguments", arguments.clone()),
            ActionKind::Edit { .. } | ActionKind::Read => return facts,
        };
        if let Some(object) = facts.as_object_mut() {
            object.insert(extra.0.to_owned(), extra.1);
        }
        facts
    }
}

/// Checks the values of keys that need not be there.
fn check_types(value: &Value) -> Result<(), HarnessError> {
    let wrong = |key: &str, expected: &str, found: &Value| {
        let found: String = found.to_string().chars().take(100).collect();
        Err(HarnessError::Invalid(format!("action.{key}: expected {expected}, got {found}")))
    };
    for key in ["path", "content", "added", "cwd", "agent", "session", "harness"] {
        match value.get(key) {
            None | Some(Value::Null | Value::String(_)) => {}
            Some(found) => return wrong(key, "a text", found),
        }
    }
    match value.get("paths") {
        None | Some(Value::Null) => Ok(()),
        Some(Value::Array(paths)) if paths.iter().all(Value::is_string) => Ok(()),
        Some(found) => wrong("paths", "a list of texts", found),
    }
}

fn absolute(paths: &[&str], cwd: &str) -> Vec<String> {
    paths
        .iter()
        .map(|path| crate::path::join(Some(cwd), path).unwrap_or_else(|| (*path).to_owned()))
        .collect()
}
