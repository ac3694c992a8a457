//! A thread as the messages and the stream that a client shows. UI message stream, §13.

use std::sync::Arc;

use super::assemble::Assembler;
use super::chunk::Chunk;
use super::message::{STEP_START, UiMessage};
use super::sidecar::{self, Sidecar};
use super::to_actions::{Context, actions_of};
use super::{ExportOptions, SidecarLevel, Turns, content, hidden, residue, to_chunks};
use crate::core::json::{RawJson, RawObject};
use crate::thread_protocol::action::Action;
use crate::thread_protocol::document::Thread;

/// A run of actions that becomes one message.
struct Run {
    actions: Vec<Arc<Action>>,
    agent_id: Option<String>,
    /// The message that was recorded, where there is one.
    recorded: Option<UiMessage>,
}

impl Thread {
    /// The conversation as `UIMessage`s, as `useChat` takes them.
    ///
    /// A message that came from a client comes back as the client had it. Any other is what the stream of its actions
    /// assembles to, with a sidecar in its metadata as far as the options say.
    pub fn to_ui_messages(&self, options: &ExportOptions) -> Vec<UiMessage> {
        let source = exported(self, options);
        let runs = runs(&self.actions.iter().map(Arc::clone).collect::<Vec<_>>());
        let mut places = Places::new(self, &source);
        let mut messages = Vec::with_capacity(runs.len());
        for run in runs {
            let wanted = places.take(&run.actions);
            if let Some(message) = run.recorded {
                // What a client sent is not written over, unless everything has to come back.
                messages.push(match options.sidecar {
                    SidecarLevel::Full => with_sidecar(message, &wanted, &source, run.agent_id.as_deref()),
                    _ => message,
                });
                continue;
            }
            let mut message = message_of(&run, options);
            if message.parts.is_empty() {
                continue;
            }
            if options.sidecar != SidecarLevel::None {
                message = with_sidecar(message, &wanted, &source, run.agent_id.as_deref());
            }
            messages.push(message);
        }
        if options.sidecar != SidecarLevel::None {
            head(&mut messages, &source);
        }
        messages
    }

    /// What agents did as one UI message stream.
    ///
    /// User messages before the first action of an agent are not part of it; later ones are steering messages. The
    /// stream is never one that the real client of [`ExportOptions::sdk`] gives up.
    pub fn to_ui_stream(&self, options: &ExportOptions) -> Vec<Chunk> {
        let source = exported(self, options);
        let all: Vec<Arc<Action>> = source.actions.iter().map(Arc::clone).collect();
        let is_user = |action: &Arc<Action>| matches!(**action, Action::UserMessage(_));
        let begin = match options.turns {
            Turns::All => all.iter().position(|action| !is_user(action)).unwrap_or(all.len()),
            Turns::Last => all.iter().rposition(is_user).map_or(0, |place| place + 1),
        };
        let (lead, run) = all.split_at_checked(begin).unwrap_or_default();
        let message_id = format!("msg-{}", run.first().map_or(1, |action| action.sequence()));
        let agent_id = run.iter().find_map(|action| action.agent_id()).map(str::to_owned);
        let metadata = (options.sidecar != SidecarLevel::None).then(|| {
            let message = assembled(&message_id, to_chunks::body(run, options.sdk));
            let mut sidecar = sidecar_of(&message, run, &source, agent_id.as_deref());
            sidecar.thread = Some(sidecar::header(&source));
            if options.turns == Turns::All && !lead.is_empty() {
                sidecar.lead = RawJson::from_value(&lead.iter().map(AsRef::as_ref).collect::<Vec<&Action>>()).ok();
            }
            let member = RawJson::from_value(&sidecar).unwrap_or_default();
            let object: RawObject = [(sidecar::MEMBER, clean(member))].into_iter().collect();
            RawJson::from_value(&object).unwrap_or_default()
        });
        to_chunks::stream(run, &message_id, metadata, options.sdk)
    }
}

fn clean(value: RawJson) -> RawJson {
    super::chunk::without_prototypes(&value).unwrap_or(value)
}

/// The thread of which a client may know everything.
fn exported(thread: &Thread, options: &ExportOptions) -> Thread {
    if options.sidecar == SidecarLevel::Full { thread.clone() } else { thread.core() }
}

/// Finds the actions of an exported thread again: they are those of the thread that are not hidden, in order.
struct Places {
    actions: std::vec::IntoIter<Arc<Action>>,
    all: bool,
}

impl Places {
    fn new(thread: &Thread, source: &Thread) -> Self {
        let actions: Vec<_> = source.actions.iter().map(Arc::clone).collect();
        Self { all: actions.len() == thread.actions.len(), actions: actions.into_iter() }
    }

    fn take(&mut self, actions: &[Arc<Action>]) -> Vec<Arc<Action>> {
        let count = actions.iter().filter(|action| self.all || !hidden(action)).count();
        self.actions.by_ref().take(count).collect()
    }
}

/// The runs of a thread: recorded messages, user messages, and what one agent did without interruption.
fn runs(actions: &[Arc<Action>]) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    let mut open: Option<Run> = None;
    let mut place = 0;
    while let Some(action) = actions.get(place) {
        if let Some(run) = recorded(actions.get(place..).unwrap_or_default()) {
            place += run.actions.len();
            runs.extend(open.take());
            runs.push(run);
            continue;
        }
        place += 1;
        if matches!(**action, Action::UserMessage(_)) {
            runs.extend(open.take());
            runs.push(Run { actions: vec![Arc::clone(action)], agent_id: None, recorded: None });
            continue;
        }
        let agent_id = action.agent_id().map(str::to_owned);
        let is_other = matches!((&open, &agent_id), (Some(Run { agent_id: Some(now), .. }), Some(next)) if now != next);
        if is_other {
            runs.extend(open.take());
        }
        let run = open.get_or_insert_with(|| Run { actions: Vec::new(), agent_id: None, recorded: None });
        run.agent_id = run.agent_id.take().or(agent_id);
        run.actions.push(Arc::clone(action));
    }
    runs.extend(open);
    runs
}

/// The run of a message whose first action remembers it, if its actions are still there.
fn recorded(actions: &[Arc<Action>]) -> Option<Run> {
    let first = actions.first()?;
    if first.action_type() == residue::MESSAGE {
        let Action::System(system) = &**first else { return None };
        let message = system.data.to::<UiMessage>().ok()?;
        return Some(Run { actions: vec![Arc::clone(first)], agent_id: None, recorded: Some(message) });
    }
    let residue = residue::in_action(first)?;
    let count = usize::try_from(residue.actions).ok()?;
    let actions = actions.get(..count)?;
    let held: Vec<&Action> = actions.iter().map(AsRef::as_ref).collect();
    // The first action of another message among them: somebody took actions away.
    if held.iter().skip(1).any(|action| residue::in_action(action).is_some()) {
        return None;
    }
    let message = residue::rebuild(&residue, &held)?;
    let agent_id = held.iter().find_map(|action| action.agent_id()).map(str::to_owned);
    Some(Run { actions: actions.to_vec(), agent_id, recorded: Some(message) })
}

fn message_of(run: &Run, options: &ExportOptions) -> UiMessage {
    let sequence = run.actions.first().map_or(1, |action| action.sequence());
    let id = format!("msg-{sequence}");
    if let [action] = run.actions.as_slice()
        && let Action::UserMessage(said) = &**action
    {
        let mut parts = content::to_parts(&said.content);
        if parts.is_empty() {
            // A user message without parts is no valid message.
            parts.extend(content::to_parts(&"".into()));
        }
        return UiMessage { id, role: "user".to_owned(), parts, ..UiMessage::default() };
    }
    let mut chunks = to_chunks::body(&run.actions, options.sdk);
    if options.dynamic_tools {
        for chunk in chunks.iter_mut().filter(|chunk| chunk.tool_name.is_some()) {
            chunk.dynamic = Some(true);
        }
    }
    let mut message = assembled(&id, chunks);
    while message.parts.last().is_some_and(|part| part.kind == STEP_START) {
        message.parts.pop();
    }
    message
}

/// What a client makes of these chunks. They are ours, so none of them is refused.
fn assembled(id: &str, chunks: Vec<Chunk>) -> UiMessage {
    let mut assembler = Assembler::new(UiMessage::assistant(id));
    for chunk in chunks {
        let taken = assembler.push(&chunk);
        debug_assert!(taken.is_ok(), "{taken:?}: {chunk:?}");
    }
    assembler.into_message()
}

fn sidecar_of(message: &UiMessage, wanted: &[Arc<Action>], source: &Thread, agent_id: Option<&str>) -> Sidecar {
    let default = source.agents.iter().next().map_or("", |(id, _)| id);
    let agent_id = agent_id.unwrap_or(default);
    let context = Context { agent_id, timestamp: super::EPOCH, approvals: false };
    sidecar::of(wanted, actions_of(message, context).actions, agent_id, &source.thread_id)
}

fn with_sidecar(
    mut message: UiMessage,
    wanted: &[Arc<Action>],
    source: &Thread,
    agent_id: Option<&str>,
) -> UiMessage {
    let sidecar = sidecar_of(&message, wanted, source, agent_id);
    set(&mut message, &sidecar);
    message
}

fn set(message: &mut UiMessage, sidecar: &Sidecar) {
    let mut metadata = message.metadata.get().and_then(RawObject::from_raw).unwrap_or_default();
    metadata.insert(sidecar::MEMBER, clean(RawJson::from_value(sidecar).unwrap_or_default()));
    message.metadata = RawJson::from_value(&metadata).unwrap_or_default().into();
}

/// The first message with a sidecar says what the thread is.
fn head(messages: &mut [UiMessage], source: &Thread) {
    for message in messages {
        let found = message.metadata_member(sidecar::MEMBER);
        if let Some(mut sidecar) = found.and_then(|found| sidecar::read(&found)) {
            sidecar.thread = Some(sidecar::header(source));
            set(message, &sidecar);
            return;
        }
    }
}
