//! An event, whatever harness it comes from.

use serde_json::{Map, Value};

use super::adapter::Adapter;
use super::invocation::Named;
use crate::derive::writes::patched;
use crate::policy::action::{Action, ActionKind};

/// What has happened, or is about to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventKind {
    /// A session starts.
    SessionStart,
    /// The user has written.
    Prompt,
    /// A tool is about to run.
    PreTool,
    /// A tool has run.
    PostTool,
    /// The context is about to be shortened.
    PreCompact,
    /// The context was shortened.
    PostCompact,
    /// The agent wants to end its turn.
    Stop,
    /// A session ends.
    SessionEnd,
    /// Something that no part of this layer needs.
    Other,
}

impl EventKind {
    pub(super) fn of(name: &str) -> Self {
        match name {
            "session_start" => Self::SessionStart,
            "prompt" => Self::Prompt,
            "pre_tool" => Self::PreTool,
            "post_tool" => Self::PostTool,
            "pre_compact" => Self::PreCompact,
            "post_compact" => Self::PostCompact,
            "stop" => Self::Stop,
            "session_end" => Self::SessionEnd,
            _ => Self::Other,
        }
    }
}

/// An event.
#[derive(Debug, Clone)]
pub struct HookEvent {
    /// What has happened.
    pub kind: EventKind,
    /// The name that the harness gives it.
    pub name: String,
    /// The session.
    pub session: String,
    /// The agent: the harness and the session.
    pub agent: String,
    /// The working directory.
    pub cwd: String,
    /// What a tool is about to do, or has done.
    pub action: Option<Action>,
    /// Whether the agent was stopped from ending its turn before.
    pub stop_active: bool,
}

impl HookEvent {
    /// Reads an event. One without a name has that of the hook's argument, if there is one.
    ///
    /// # Errors
    /// A text that says what is wrong, for the fail table.
    pub(super) fn parse(
        adapter: &Adapter,
        argument: Option<&Named>,
        bytes: &[u8],
        cwd: &str,
        home: Option<String>,
    ) -> Result<Self, String> {
        let value: Value =
            serde_json::from_slice(bytes).map_err(|error| format!("the event is not JSON: {error}"))?;
        let object = value.as_object().ok_or("the event is not a JSON object")?;
        let own = text(object, &adapter.event_keys).map(|name| Named::of(adapter, name));
        let Named { kind, name } = agreed(own, argument)?;
        let session = text(object, &adapter.session_keys).unwrap_or_default().to_owned();
        let agent = format!("{}:{}", adapter.name, if session.is_empty() { "?" } else { &session });
        let cwd = event_cwd(object).unwrap_or(cwd).to_owned();
        let mut event = Self { kind, name, session, agent, cwd, action: None, stop_active: false };
        event.stop_active = object.get("stop_hook_active").and_then(Value::as_bool).unwrap_or(false);
        if matches!(kind, EventKind::PreTool | EventKind::PostTool) {
            let mut action = action(adapter, object, &event.name, &event.cwd, home)?;
            action.agent.clone_from(&event.agent);
            action.session.clone_from(&event.session);
            action.harness.clone_from(&adapter.name);
            event.action = Some(action);
        }
        Ok(event)
    }
}

/// The name of an event: its own, else that of the hook's argument. Two that differ are a mistake in the hook's command. It
/// is an error if one of them says that a tool is about to run, because then the other one may be wrong.
fn agreed(own: Option<Named>, argument: Option<&Named>) -> Result<Named, String> {
    let Some(own) = own else { return argument.cloned().ok_or_else(|| "the event has no name".to_owned()) };
    match argument.filter(|argument| argument.kind != own.kind) {
        Some(argument) if own.is_tool_call() || argument.is_tool_call() => Err(format!(
            "the command of the hook names the event \"{}\", and the event says \"{}\"; correct the command",
            argument.name, own.name
        )),
        _ => Ok(own),
    }
}

fn text<'a>(object: &'a Map<String, Value>, keys: &[String]) -> Option<&'a str> {
    keys.iter().find_map(|key| object.get(key).and_then(Value::as_str))
}

fn first<'a>(object: &'a Map<String, Value>, keys: &[&str]) -> Option<&'a str> {
    keys.iter().find_map(|key| object.get(*key).and_then(Value::as_str))
}

fn event_cwd(object: &Map<String, Value>) -> Option<&str> {
    let root = object.get("workspace_roots").and_then(Value::as_array).and_then(|roots| roots.first());
    first(object, &["cwd", "directory", "worktree"])
        .filter(|cwd| cwd.starts_with('/'))
        .or_else(|| root.and_then(Value::as_str))
}

/// What the tool of an event does. A tool call that cannot be read is an error: it must not pass unseen.
fn action(
    adapter: &Adapter,
    object: &Map<String, Value>,
    event: &str,
    cwd: &str,
    home: Option<String>,
) -> Result<Action, String> {
    // Cursor has events of their own for some tools, with the arguments in the event.
    let implied = match event {
        "beforeShellExecution" => Some("bash"),
        "beforeReadFile" => Some("read"),
        "afterFileEdit" => Some("edit"),
        _ => None,
    };
    let tool = implied.or_else(|| text(object, &adapter.tool_keys)).ok_or("the event has no tool name")?;
    let nested = adapter.input_keys.iter().find_map(|key| object.get(key));
    // Cursor sends the arguments of MCP tools as a text.
    let parsed = nested.and_then(Value::as_str).and_then(|text| serde_json::from_str::<Value>(text).ok());
    let input = parsed.as_ref().or(nested).and_then(Value::as_object).unwrap_or(object);
    let name = tool.to_lowercase();
    let is = |tools: &[String]| tools.contains(&name);
    if is(&adapter.shell_tools) {
        let folder = first(input, &["workdir", "cwd", "working_directory"]);
        let folder =
            folder.and_then(|folder| crate::path::join(Some(cwd), folder)).unwrap_or_else(|| cwd.to_owned());
        return Ok(Action::shell(&command(input).ok_or("the shell call has no command")?, &folder, home));
    }
    if is(&adapter.edit_tools) {
        let paths = paths(input);
        if paths.is_empty() {
            return Err(format!("the call of \"{tool}\" names no file"));
        }
        let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
        let mut action = Action::edit(&paths, &added(input), cwd);
        if let ActionKind::Edit { replaced: own, .. } = &mut action.kind {
            *own = replaced(input);
        }
        return Ok(action);
    }
    if is(&adapter.read_tools) {
        let path = first(input, &["file_path", "filePath", "path", "notebook_path"])
            .ok_or("the read names no file")?;
        return Ok(Action::read(&[path], cwd));
    }
    let arguments = Value::Object(input.clone());
    if let Some((server, tool)) = tool.strip_prefix("mcp__").and_then(|rest| rest.split_once("__")) {
        return Ok(Action::mcp(server, tool, arguments, cwd));
    }
    if event == "beforeMCPExecution" {
        let server = first(object, &["server", "server_name", "url", "command"]).unwrap_or("?");
        return Ok(Action::mcp(server, tool, arguments, cwd));
    }
    Ok(Action::other(tool, arguments, cwd))
}

/// The command of a shell tool: a text, or a list of words.
fn command(input: &Map<String, Value>) -> Option<String> {
    let value = ["command", "cmd", "script"].iter().find_map(|key| input.get(*key))?;
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Array(words) => {
            let quote = |word: &Value| Some(format!("'{}'", word.as_str()?.replace('\'', "'\\''")));
            words.iter().map(quote).collect::<Option<Vec<_>>>().map(|words| words.join(" "))
        }
        _ => None,
    }
}

fn paths(input: &Map<String, Value>) -> Vec<String> {
    let keys = ["file_path", "filePath", "path", "notebook_path", "target_file", "filename"];
    let mut paths: Vec<String> =
        keys.iter().filter_map(|key| input.get(*key)?.as_str()).map(str::to_owned).collect();
    for patch in ["input", "patch", "patchText", "command"].iter().filter_map(|key| input.get(*key)?.as_str())
    {
        paths.extend(patched(patch).map(|(path, _)| path.to_owned()));
    }
    paths
}

/// The texts that an edit replaces.
fn replaced(input: &Map<String, Value>) -> Vec<String> {
    let own =
        |input: &Map<String, Value>| first(input, &["old_string", "oldString", "old_str"]).map(str::to_owned);
    let more = input.get("edits").and_then(Value::as_array).into_iter().flatten();
    own(input).into_iter().chain(more.filter_map(|edit| own(edit.as_object()?))).collect()
}

/// The text that an edit adds.
fn added(input: &Map<String, Value>) -> String {
    let keys = [
        "content",
        "new_string",
        "newString",
        "new_source",
        "file_text",
        "new_str",
        "input",
        "patch",
        "patchText",
        "edits",
    ];
    let texts = keys.iter().filter_map(|key| input.get(*key)).map(|value| match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    });
    texts.collect::<Vec<_>>().join("\n")
}
