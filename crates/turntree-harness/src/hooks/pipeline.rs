//! What each event does, and how failures end.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use super::adapter::{self, Adapter, ReplyForm};
use super::event::{EventKind, HookEvent};
use super::invocation::{Invocation, Named};
use super::reply::{self, HookReply};
use super::{loops, peek};
use crate::coordination::{Coordination, resource_of_file};
use crate::error::HarnessError;
use crate::policy::action::{Action, ActionKind};
use crate::policy::context::Context;
use crate::policy::decision::Outcome;
use crate::policy::gate::Gate;
use crate::project::Project;

/// The largest event, in bytes.
pub const MAX_EVENT: usize = 10 * 1024 * 1024;

/// How a failure ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OnError {
    /// Nothing is said, and the harness goes on.
    Open,
    /// The tool call is denied.
    Closed,
}

/// The fail table: context must never stop work, a tool call must never pass unseen.
fn on_error(kind: Option<EventKind>) -> OnError {
    match kind {
        // An event that cannot be read may be a tool call.
        Some(EventKind::PreTool) | None => OnError::Closed,
        Some(_) => OnError::Open,
    }
}

/// Handles one event. Never fails and never panics: the fail table decides.
pub fn handle<'a>(invocation: impl Into<Invocation<'a>>, bytes: &[u8], cwd: &Path) -> HookReply {
    let invocation = invocation.into();
    let Some(adapter) = adapter::find(invocation.harness) else { return unknown(invocation.harness) };
    catch_unwind(AssertUnwindSafe(|| handle_any(adapter, invocation.event, bytes, cwd)))
        .unwrap_or_else(|_| failed(adapter, known(adapter, invocation.event, bytes), "a bug in turntree"))
}

/// The reply if an event could not be handled in time: a harness that gives up waiting lets the call run. The bytes are
/// what was read of the event by then.
pub fn late<'a>(invocation: impl Into<Invocation<'a>>, bytes: &[u8]) -> HookReply {
    let invocation = invocation.into();
    let Some(adapter) = adapter::find(invocation.harness) else { return unknown(invocation.harness) };
    failed(adapter, known(adapter, invocation.event, bytes), "it took too long")
}

fn unknown(harness: &str) -> HookReply {
    let names: Vec<&str> = adapter::adapters().iter().map(|adapter| adapter.name.as_str()).collect();
    let stderr = format!("turntree-hook: no harness \"{harness}\"; expected one of {}", names.join(", "));
    HookReply { exit: 2, stdout: String::new(), stderr }
}

/// What is known of an event that cannot be read: by the argument of the hook, and by the beginning of the event. If they
/// differ, a tool call counts.
fn known(adapter: &Adapter, argument: Option<&str>, bytes: &[u8]) -> Option<Named> {
    let argument = argument.and_then(|argument| Named::from_argument(adapter, argument).ok());
    let own = peek::names(bytes, &adapter.event_keys);
    let all: Vec<Named> = own.iter().map(|name| Named::of(adapter, name)).chain(argument).collect();
    all.iter().find(|named| named.is_tool_call()).or(all.first()).cloned()
}

fn failed(adapter: &Adapter, event: Option<Named>, reason: &str) -> HookReply {
    match on_error(event.as_ref().map(|event| event.kind)) {
        OnError::Open => {
            log::warn!("turntree-hook: {reason}");
            HookReply::default()
        }
        OnError::Closed => {
            let message = format!(
                "Blocked by turntree: the call could not be checked ({reason}). Instead: let a person run `turntree harness \
                 doctor`."
            );
            let name = event.map_or_else(|| "PreToolUse".to_owned(), |event| event.name);
            reply::decision(adapter.reply, Outcome::Deny, &name, &message)
        }
    }
}

fn handle_any(adapter: &Adapter, argument: Option<&str>, bytes: &[u8], cwd: &Path) -> HookReply {
    let named = match argument.map(|argument| Named::from_argument(adapter, argument)).transpose() {
        Ok(named) => named,
        Err(reason) => {
            // A mistake in the command of the hook: whoever has written it must see it, also where nothing is blocked.
            let reply = failed(adapter, known(adapter, None, bytes), &reason);
            let is_silent = reply == HookReply::default();
            return if is_silent {
                HookReply { stderr: format!("turntree-hook: {reason}"), ..reply }
            } else {
                reply
            };
        }
    };
    let fails = |reason: &str| failed(adapter, known(adapter, argument, bytes), reason);
    if bytes.len() > MAX_EVENT {
        return fails("the event is larger than 10 MiB");
    }
    let folder = cwd.to_string_lossy();
    let home = Context::home_of_environment();
    let event = match HookEvent::parse(adapter, named.as_ref(), bytes, &folder, home) {
        Ok(event) => event,
        Err(reason) => return fails(&reason),
    };
    run(adapter, &event).unwrap_or_else(|error| {
        let named = Named { kind: event.kind, name: event.name };
        failed(adapter, Some(named), &error.to_string())
    })
}

fn run(adapter: &Adapter, event: &HookEvent) -> Result<HookReply, HarnessError> {
    if event.kind == EventKind::Other {
        return Ok(HookReply::default());
    }
    let project = Project::find_guarded(Path::new(&event.cwd))?;
    let gate = Gate::load(&project)?;
    let work = Coordination::in_hook(&project, gate.state().clone());
    let form = adapter.reply;
    match (event.kind, &event.action) {
        (EventKind::PreTool, Some(action)) => pre_tool(form, event, action, &gate, &work),
        (EventKind::PostTool, Some(action)) => post_tool(form, event, action, &gate, &work),
        (EventKind::SessionStart, _) => {
            work.register(&event.agent, &adapter.name, &event.session)?;
            Ok(reply::context(form, event, &start_text(&gate, &work, event)?))
        }
        (EventKind::PostCompact, _) => Ok(reply::context(form, event, &start_text(&gate, &work, event)?)),
        (EventKind::Stop, _) => stop(form, event, &gate),
        (EventKind::SessionEnd, _) => {
            work.leave(&event.agent)?;
            Ok(HookReply::default())
        }
        (EventKind::PreCompact, _) => {
            work.mark(&event.agent, "session.compact", &event.session)?;
            // The plugin adds text to what the summary is made of; no other harness takes one here.
            match form {
                ReplyForm::Plugin => Ok(reply::context(form, event, &start_text(&gate, &work, event)?)),
                _ => Ok(HookReply::default()),
            }
        }
        _ => {
            work.seen(&event.agent)?;
            Ok(HookReply::default())
        }
    }
}

fn pre_tool(
    form: ReplyForm,
    event: &HookEvent,
    action: &Action,
    gate: &Gate,
    work: &Coordination,
) -> Result<HookReply, HarnessError> {
    let mut decision = gate.check(action)?;
    if decision.outcome < Outcome::Ask && matches!(action.kind, ActionKind::Edit { .. }) {
        let announced = announce(event, action, gate, work)?;
        // Another agent may have announced the file since it was looked at: the second one in the state gives way.
        if announced.has_others {
            decision = gate.check(action)?;
        }
        if decision.outcome >= Outcome::Ask {
            for resource in &announced.new {
                work.complete(&event.agent, resource)?;
            }
        }
    }
    Ok(reply::decision(form, decision.outcome, &event.name, &decision.message()))
}

/// What an edit has announced.
#[derive(Debug, Default)]
struct Announced {
    /// The files.
    new: Vec<String>,
    /// Whether other live agents have announced one of them.
    has_others: bool,
}

fn announce(
    event: &HookEvent,
    action: &Action,
    gate: &Gate,
    work: &Coordination,
) -> Result<Announced, HarnessError> {
    let context = Context::new(gate.project(), None, &crate::policy::context::Alone);
    let mut announced = Announced::default();
    for path in &action.paths {
        let Some(relative) = context.place(path).relative else { continue };
        let resource = resource_of_file(&relative);
        let lines = action.lines_of(path);
        let others = work.announce_lines(&event.agent, &resource, "editing", "", &lines)?;
        announced.has_others |= !others.is_empty();
        announced.new.push(resource);
    }
    Ok(announced)
}

fn post_tool(
    form: ReplyForm,
    event: &HookEvent,
    action: &Action,
    gate: &Gate,
    work: &Coordination,
) -> Result<HookReply, HarnessError> {
    work.seen(&event.agent)?;
    let Some((count, outcome)) = loops::count(gate.project(), gate.state(), action)? else {
        return Ok(HookReply::default());
    };
    let message = format!(
        "The same call of {} was made {count} times within 5 minutes. Change the arguments or the approach; if nothing helps, \
         ask the user.",
        action.tool()
    );
    Ok(reply::decision(form, outcome, &event.name, &message))
}

/// The checklist at the end of a turn: said once, then the agent may stop.
fn stop(form: ReplyForm, event: &HookEvent, gate: &Gate) -> Result<HookReply, HarnessError> {
    let Some(layout) = crate::git::Layout::find(Path::new(&event.cwd))
        .filter(|layout| layout.is_linked() && !event.stop_active)
    else {
        return Ok(HookReply::default());
    };
    let status = crate::git::run(&layout.worktree, &["status", "--porcelain"])?;
    let marker = format!("stop:{}", event.session);
    let is_first =
        Coordination::new(gate.project(), gate.state().clone()).mark_once(&event.agent, &marker)?;
    if status.trim().is_empty() || !is_first {
        return Ok(HookReply::default());
    }
    let count = status.lines().count();
    let message = format!(
        "Before you stop: the worktree has {count} uncommitted files. Run the tests, then commit what is finished, or say why it \
         stays uncommitted."
    );
    Ok(reply::decision(form, Outcome::Deny, &event.name, &message))
}

/// What a model reads at the start: rules, branch, other agents.
fn start_text(gate: &Gate, work: &Coordination, event: &HookEvent) -> Result<String, HarnessError> {
    let project = gate.project();
    let mut lines = vec!["<turntree-context>".to_owned()];
    match &project.layout {
        Some(layout) if layout.is_linked() => {
            lines.push(format!("You work in the worktree {} on {}.", layout.worktree.display(), layout.branch().unwrap_or_default()));
        }
        Some(_) => lines.push(
            "You are in the main checkout, where edits are blocked. Run `turntree worktree create NAME` and work there.".to_owned(),
        ),
        None => {}
    }
    if let Some(problem) = project.problem() {
        let problem = tame(problem);
        lines.push(format!("turntree.toml is not valid: {problem}. Until a person corrects it, every tool call needs a person."));
    }
    lines.push("Active rules:".to_owned());
    for (rule, setting) in gate.rules() {
        if setting.level().is_some() {
            lines.push(format!("- {}: {}", rule.id, tame(rule.summary)));
        }
    }
    let others: Vec<String> = work
        .agents()?
        .into_iter()
        .filter(|agent| agent.is_live && agent.id != event.agent)
        .map(|agent| agent.id)
        .collect();
    if !others.is_empty() {
        lines.push(format!("Other agents at work: {}.", others.join(", ")));
    }
    for post in work.board(5)? {
        lines.push(format!("Board ({}, {}): {}", post.kind, post.agent, tame(&post.text)));
    }
    lines.push("</turntree-context>".to_owned());
    Ok(lines.join("\n"))
}

/// Text of others must not close our block.
fn tame(text: &str) -> String {
    text.replace('<', "‹").replace(['\n', '\r'], " ").chars().take(200).collect()
}
