//! A thread to the messages and the stream of a client.
//!
//! Spec: UI message stream, §13.

use std::sync::Arc;

use super::assembler::Assembler;
use super::chunk::{Chunk, DONE_FRAME};
use super::message::{Optional, STEP_START, UiMessage};
use super::options::{ExportOptions, SidecarLevel, Turns};
use super::sidecar::{self, Sidecar};
use super::to_actions::{SenderContext, actions_of};
use super::{attachments, content, major, roundtrip_metadata, to_chunks};
use crate::action::Action;
use crate::convert::portable::EPOCH;
use crate::document::Thread;
use crate::roundtrip_metadata::is_private_action;
use turntree_core::json::{RawJson, RawObject};

/// Actions that become one message.
#[derive(Default)]
struct MessageRun {
    actions: Vec<Arc<Action>>,
    /// The indices of the actions in the thread.
    indices: Vec<usize>,
    agent_id: Option<String>,
    /// The original message, if it was imported.
    recorded: Option<UiMessage>,
    /// True if the run has actions that precede the previous message.
    moved: bool,
}

impl MessageRun {
    fn push(&mut self, index: usize, action: &Arc<Action>) {
        self.indices.push(index);
        self.actions.push(Arc::clone(action));
    }
}

impl Thread {
    /// Converts the thread to `UIMessage`s for `useChat`.
    ///
    /// An imported message is returned unchanged, or with [`ExportOptions::adapt`] in the form that the SDK accepts. Any other message is assembled from the stream of its actions, with a
    /// sidecar in its metadata as the options require.
    pub fn to_ui_messages(&self, options: &ExportOptions) -> Vec<UiMessage> {
        let mut messages = Vec::new();
        self.each_ui_message(options, |message| messages.push(message));
        messages
    }

    /// As [`Self::to_ui_messages`], message by message.
    pub fn each_ui_message(&self, options: &ExportOptions, take: impl FnMut(UiMessage)) {
        let source = exported(self, *options);
        let indices = indices(self, &source);
        // Actions that no message shows, for the next sidecar.
        let mut lead: Vec<Arc<Action>> = Vec::new();
        let mut moved = false;
        let with_sidecars = options.sidecar != SidecarLevel::None;
        let mut out =
            MessageOutput { take, source: &source, waiting: Vec::new(), count: 0, has_header: false };
        for mut run in runs(&self.actions.iter().map(Arc::clone).collect::<Vec<_>>()) {
            let target: Vec<Arc<Action>> =
                run.indices.iter().filter_map(|index| indices.get(*index).cloned().flatten()).collect();
            let recorded = run.recorded.take();
            let is_recorded = recorded.is_some();
            let mut message = recorded.unwrap_or_else(|| message_of(&run, *options));
            if options.adapt && is_recorded {
                major::adapt(&mut message, options.sdk);
            }
            if message.parts.is_empty() && !is_recorded {
                lead.extend(target);
                moved |= run.moved;
                continue;
            }
            let mut known = None;
            // Imported messages are unchanged, except with the full sidecar.
            if options.sidecar == SidecarLevel::Full || (with_sidecars && !is_recorded) {
                let mut sidecar = sidecar_of(&message, &target, &source, run.agent_id.as_deref());
                sidecar.lead = list(&std::mem::take(&mut lead));
                sidecar.moved = (std::mem::take(&mut moved) || run.moved).then_some(true);
                set(&mut message, &sidecar);
                known = Some(sidecar);
            } else if with_sidecars {
                known = sidecar_in(&message);
            }
            out.push(message, known);
        }
        if with_sidecars {
            out.add_rest(&lead, moved);
        }
        out.waiting.drain(..).for_each(out.take);
    }

    /// Converts the thread to one UI message stream.
    ///
    /// User messages before the first action of an agent are left out; later ones become steering messages. The real
    /// client of [`ExportOptions::sdk`] accepts the stream.
    pub fn to_ui_stream(&self, options: &ExportOptions) -> UiStream {
        UiStream::new(self, *options)
    }

    /// As [`Self::to_ui_stream`], without a copy of the thread.
    pub fn into_ui_stream(self, options: &ExportOptions) -> UiStream {
        let is_full = options.sidecar == SidecarLevel::Full;
        UiStream::of_exported(if is_full { self } else { self.into_core() }, *options)
    }

    /// As [`Self::to_ui_stream`], as the body of a response: server-sent events and the final frame.
    pub fn to_ui_stream_bytes(&self, options: &ExportOptions) -> Vec<u8> {
        let mut bytes = Vec::new();
        for chunk in self.to_ui_stream(options) {
            chunk.write_frame(&mut bytes);
        }
        bytes.extend_from_slice(DONE_FRAME);
        bytes
    }
}

/// The chunks of a thread as a lazy iterator. Each call of `next` converts at most one action.
///
/// With a sidecar, the stream also assembles the client's message: the first chunk identifies the thread, and a
/// `message-metadata` chunk near the end holds the differences. Without a sidecar, the stream stores nothing.
pub struct UiStream {
    emitter: to_chunks::ChunkEmitter,
    actions: Vec<Arc<Action>>,
    /// The index of the next action.
    index: usize,
    stage: StreamStage,
    sidecar: Option<SidecarBuilder>,
}

/// The progress of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StreamStage {
    Start,
    Actions,
    Metadata,
    End,
    Over,
}

/// The data for the sidecar of a stream.
struct SidecarBuilder {
    message: Assembler,
    source: Thread,
    agent_id: Option<String>,
    lead: Option<RawJson>,
}

impl UiStream {
    fn new(thread: &Thread, options: ExportOptions) -> Self {
        Self::of_exported(exported(thread, options), options)
    }

    fn of_exported(source: Thread, options: ExportOptions) -> Self {
        let mut actions: Vec<Arc<Action>> = source.actions.iter().map(Arc::clone).collect();
        let is_user = |action: &Arc<Action>| matches!(**action, Action::UserMessage(_));
        let begin = match options.turns {
            Turns::All => actions.iter().position(|action| !is_user(action)).unwrap_or(actions.len()),
            Turns::Last => actions.iter().rposition(is_user).map_or(0, |index| index + 1),
        };
        let lead: Vec<Arc<Action>> = actions.drain(..begin).collect();
        let sidecar = (options.sidecar != SidecarLevel::None).then(|| SidecarBuilder {
            message: Assembler::default(),
            agent_id: actions.iter().find_map(|action| action.agent_id()).map(str::to_owned),
            lead: if options.turns == Turns::All { list(&lead) } else { None },
            source,
        });
        let emitter = to_chunks::ChunkEmitter::new(options.sdk, &actions);
        Self { emitter, actions, index: 0, stage: StreamStage::Start, sidecar }
    }

    fn start(&self) -> Chunk {
        let first = self.actions.first().map_or(1, |action| action.sequence());
        let metadata = self.sidecar.as_ref().map(|trailer| {
            let sidecar =
                Sidecar { lead: trailer.lead.clone(), ..sidecar::beginning(first, &trailer.source) };
            as_metadata(&Sidecar { agent_id: Some(trailer.agent().to_owned()), ..sidecar })
        });
        Chunk {
            message_id: Some(format!("msg-{first}")),
            message_metadata: Optional(metadata),
            ..Chunk::of("start")
        }
    }
}

impl SidecarBuilder {
    fn agent(&self) -> &str {
        agent_of(&self.source, self.agent_id.as_deref())
    }

    /// The `message-metadata` chunk with the differences between the complete message and its actions.
    fn chunk(self, actions: &[Arc<Action>]) -> Chunk {
        let Self { message, source, agent_id, .. } = self;
        let agent_id = agent_of(&source, agent_id.as_deref());
        let context = SenderContext { agent_id, timestamp: EPOCH, approvals: false };
        let message = message.into_message();
        let read = actions_of(&message, context).actions;
        drop(message);
        let metadata = as_metadata(&sidecar::rest(actions, read));
        Chunk { message_metadata: metadata.into(), ..Chunk::of("message-metadata") }
    }
}

impl Iterator for UiStream {
    type Item = Chunk;

    fn next(&mut self) -> Option<Chunk> {
        loop {
            if let Some(chunk) = self.emitter.next() {
                if let Some(trailer) = &mut self.sidecar {
                    take(&mut trailer.message, &chunk);
                }
                return Some(chunk);
            }
            match self.stage {
                StreamStage::Start => {
                    self.stage = StreamStage::Actions;
                    return Some(self.start());
                }
                StreamStage::Actions => {
                    if let Some(action) = self.actions.get(self.index) {
                        self.index += 1;
                        self.emitter.action(action, self.actions.get(self.index..).unwrap_or_default());
                    } else {
                        self.emitter.close_step();
                        self.stage = StreamStage::Metadata;
                    }
                }
                StreamStage::Metadata => {
                    self.stage = StreamStage::End;
                    if let Some(trailer) = self.sidecar.take() {
                        return Some(trailer.chunk(&self.actions));
                    }
                }
                StreamStage::End => {
                    self.emitter.end();
                    self.stage = StreamStage::Over;
                }
                StreamStage::Over => return None,
            }
        }
    }
}

impl std::iter::FusedIterator for UiStream {}

impl std::fmt::Debug for UiStream {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let of = self.actions.len();
        formatter
            .debug_struct("UiStream")
            .field("written", &self.index)
            .field("of", &of)
            .finish_non_exhaustive()
    }
}

/// Message metadata with this sidecar only.
fn as_metadata(sidecar: &Sidecar) -> RawJson {
    let member = RawJson::from_value(sidecar).unwrap_or_default();
    let object: RawObject = [(sidecar::MEMBER, clean(member))].into_iter().collect();
    RawJson::from_value(&object).unwrap_or_default()
}

fn clean(value: RawJson) -> RawJson {
    super::chunk::without_prototypes(&value).unwrap_or(value)
}

/// The thread that the client may see.
fn exported(thread: &Thread, options: ExportOptions) -> Thread {
    if options.sidecar == SidecarLevel::Full { thread.clone() } else { thread.core() }
}

/// The exported form of each action; `None` for private actions.
fn indices(thread: &Thread, source: &Thread) -> Vec<Option<Arc<Action>>> {
    let all = source.actions.len() == thread.actions.len();
    let mut exported = source.actions.iter();
    thread
        .actions
        .iter()
        .map(|action| if all || !is_private_action(action) { exported.next().map(Arc::clone) } else { None })
        .collect()
}

fn list(actions: &[Arc<Action>]) -> Option<RawJson> {
    let actions: Vec<&Action> = actions.iter().map(AsRef::as_ref).collect();
    (!actions.is_empty()).then(|| RawJson::from_value(&actions).unwrap_or_default())
}

/// Splits a thread into runs: imported messages, user messages, and consecutive actions of one agent.
///
/// System actions between user messages belong to the next response.
fn runs(actions: &[Arc<Action>]) -> Vec<MessageRun> {
    let mut runs: Vec<MessageRun> = Vec::new();
    let (mut open, mut leading) = (None::<MessageRun>, None::<MessageRun>);
    let mut index = 0;
    while let Some(action) = actions.get(index) {
        if let Some(mut run) = recorded(actions.get(index..).unwrap_or_default()) {
            run.indices = (index..index + run.actions.len()).collect();
            index += run.actions.len();
            runs.extend(leading.take());
            runs.extend(open.take());
            runs.push(run);
            continue;
        }
        if matches!(**action, Action::UserMessage(_)) {
            match open.take() {
                Some(run) if run.agent_id.is_none() => leading = Some(MessageRun { moved: true, ..run }),
                run => runs.extend(run),
            }
            let mut run = MessageRun::default();
            run.push(index, action);
            runs.push(run);
            index += 1;
            continue;
        }
        let agent_id = action.agent_id().map(str::to_owned);
        let is_other = matches!((&open, &agent_id), (Some(MessageRun { agent_id: Some(now), .. }), Some(next)) if now != next);
        if is_other {
            runs.extend(open.take());
        }
        let run = open.get_or_insert_with(|| leading.take().unwrap_or_default());
        run.agent_id = run.agent_id.take().or(agent_id);
        run.push(index, action);
        index += 1;
    }
    runs.extend(leading);
    runs.extend(open);
    runs
}

/// The run of an imported message, if all its actions still exist.
fn recorded(actions: &[Arc<Action>]) -> Option<MessageRun> {
    let first = actions.first()?;
    if first.action_type() == roundtrip_metadata::MESSAGE {
        let Action::System(system) = &**first else { return None };
        let message = system.data.to::<UiMessage>().ok()?;
        return Some(MessageRun {
            actions: vec![Arc::clone(first)],
            recorded: Some(message),
            ..MessageRun::default()
        });
    }
    let residue = roundtrip_metadata::in_action(first)?;
    let count = usize::try_from(residue.actions).ok()?;
    let actions = actions.get(..count)?;
    // The first action of another message: some actions of this one were removed.
    if actions.iter().skip(1).any(|action| roundtrip_metadata::in_action(action).is_some()) {
        return None;
    }
    let held: Vec<&Action> = actions.iter().map(AsRef::as_ref).collect();
    let mut message = roundtrip_metadata::rebuild(&residue, &held)?;
    if let ("user", Action::UserMessage(user_action)) = (message.role.as_str(), &**first) {
        // Clients have no attachments, so these were added after the import.
        message.parts.extend(attachments::parts_of(user_action));
    }
    let agent_id = held.iter().find_map(|action| action.agent_id()).map(str::to_owned);
    Some(MessageRun { actions: actions.to_vec(), agent_id, recorded: Some(message), ..MessageRun::default() })
}

fn message_of(run: &MessageRun, options: ExportOptions) -> UiMessage {
    let sequence = run.actions.first().map_or(1, |action| action.sequence());
    let id = format!("msg-{sequence}");
    if let [action] = run.actions.as_slice()
        && let Action::UserMessage(user_action) = &**action
    {
        let mut parts = attachments::to_parts(user_action, options.sdk);
        if parts.is_empty() {
            // A user message needs at least one part.
            parts.extend(content::to_parts(&"".into(), options.sdk));
        }
        return UiMessage { id, role: "user".to_owned(), parts, ..UiMessage::default() };
    }
    let mut assembler = Assembler::new(UiMessage::assistant(id));
    to_chunks::body(&run.actions, options.sdk, |mut chunk| {
        if options.dynamic_tools && chunk.tool_name.is_some() {
            chunk.dynamic = Some(true);
        }
        take(&mut assembler, &chunk);
    });
    let mut message = assembler.into_message();
    while message.parts.last().is_some_and(|part| part.kind == STEP_START) {
        message.parts.pop();
    }
    message
}

/// Adds one of our own chunks, which the assembler always accepts.
fn take(assembler: &mut Assembler, chunk: &Chunk) {
    let taken = assembler.push(chunk);
    debug_assert!(taken.is_ok(), "{taken:?}: {chunk:?}");
}

/// The agent of a message; by default the first agent of the thread.
fn agent_of<'t>(source: &'t Thread, agent_id: Option<&'t str>) -> &'t str {
    agent_id.unwrap_or_else(|| source.agents.iter().next().map_or("", |(id, _)| id))
}

fn sidecar_of(
    message: &UiMessage,
    target: &[Arc<Action>],
    source: &Thread,
    agent_id: Option<&str>,
) -> Sidecar {
    let agent_id = agent_of(source, agent_id);
    let context = SenderContext { agent_id, timestamp: EPOCH, approvals: false };
    sidecar::of(target, actions_of(message, context).actions, agent_id, &source.thread_id)
}

fn set(message: &mut UiMessage, sidecar: &Sidecar) {
    let mut metadata = message.metadata.get().and_then(RawObject::from_raw).unwrap_or_default();
    metadata.insert(sidecar::MEMBER, clean(RawJson::from_value(sidecar).unwrap_or_default()));
    message.metadata = RawJson::from_value(&metadata).unwrap_or_default().into();
}

/// Adds the thread's header to the first sidecar and the remaining actions to the last one.
struct MessageOutput<'t, F> {
    take: F,
    source: &'t Thread,
    /// The last message with a sidecar, and those after it.
    waiting: Vec<UiMessage>,
    /// The number of messages.
    count: usize,
    has_header: bool,
}

impl<F: FnMut(UiMessage)> MessageOutput<'_, F> {
    fn push(&mut self, mut message: UiMessage, sidecar: Option<Sidecar>) {
        self.count += 1;
        let Some(mut sidecar) = sidecar else {
            if self.waiting.is_empty() {
                (self.take)(message);
            } else {
                self.waiting.push(message);
            }
            return;
        };
        if !std::mem::replace(&mut self.has_header, true) {
            sidecar.thread = Some(sidecar::header(self.source));
            set(&mut message, &sidecar);
        }
        self.waiting.drain(..).for_each(&mut self.take);
        self.waiting.push(message);
    }

    fn add_rest(&mut self, rest: &[Arc<Action>], moved: bool) {
        if self.count == 0 && !rest.is_empty() {
            let mut message = UiMessage::assistant("msg-1");
            let sidecar = sidecar_of(&message, &[], self.source, None);
            set(&mut message, &sidecar);
            self.push(message, Some(sidecar));
        }
        let last = self.waiting.first_mut();
        if let Some((message, mut sidecar)) =
            last.and_then(|message| sidecar_in(message).map(|sidecar| (message, sidecar)))
        {
            sidecar.tail = list(rest);
            sidecar.moved = (moved || sidecar.moved == Some(true)).then_some(true);
            set(message, &sidecar);
        }
    }
}

fn sidecar_in(message: &UiMessage) -> Option<Sidecar> {
    message.metadata_member(sidecar::MEMBER).and_then(|value| sidecar::read(&value))
}
