//! Writes what changed between two states of a session.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::machine::run_totals::{Mark, ResponseStatus, RunTotals};
use crate::machine::state::RunState;
use crate::session::checkpoint::shared_history::SharedHistory;
use crate::session::checkpoint::{Checkpoint, CheckpointState, Checkpoints, FinishedRun, SubAgentStates};
use crate::session::error::SessionError;
use crate::session::journal::entry::{
    CheckpointEntry, Entry, FinishedEntry, ListChange, NodeEntry, NodeMembers, Numbers, RunEntry, RunPoint,
    SessionEntry, SubAgentNumbers, UnfinishedEntry, object_of,
};
use crate::session::journal::round::take_answers;
use crate::session::journal::runs::{Place, RunChanges, RunWriter};
use crate::session::journal::sub_agents::NewVersion;
use crate::session::journal::{Journal, VERSION};
use crate::session::json::SessionSnapshot;
use crate::session::unfinished_run::UnfinishedRun;
use crate::tree::node::{NodeId, ThreadNode};
use crate::tree::thread_tree::ThreadTree;
use crate::types::execution_state::ExecutionState;
use turntree_core::json::{self, Extra, RawJson, RawObject};
use turntree_core::message::message::History;
use turntree_core::message::{Message, MessageKind};

/// The text of an entry without changes.
const EMPTY: &str = r#"{"session":{}}"#;

/// An entry that is not in the log yet.
#[derive(Debug)]
pub struct PreparedEntry {
    text: String,
    snapshot: SessionSnapshot,
    messages: Vec<Arc<Message>>,
    sub_agents: Vec<NewVersion>,
    runs: RunChanges,
    turns: u64,
}

impl PreparedEntry {
    /// Returns the number of user messages of the tree after the entry.
    pub const fn turns(&self) -> u64 {
        self.turns
    }

    /// Returns the entry: JSON in one line.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// True if nothing has changed.
    pub fn is_empty(&self) -> bool {
        self.text == EMPTY
    }

    /// Returns the state of the session that the entry leads to.
    pub const fn snapshot(&self) -> &SessionSnapshot {
        &self.snapshot
    }
}

impl Journal {
    /// Returns the entry that leads from the state of the log to `snapshot`. The journal does not change before
    /// [`Self::commit`].
    ///
    /// # Errors
    /// [`SessionError::Serialization`].
    pub fn prepare(&self, snapshot: SessionSnapshot) -> Result<PreparedEntry, SessionError> {
        let failed = |error: serde_json::Error| SessionError::Serialization(error.to_string());
        let mut writer = Writer::new(self);
        let mut entry = Entry {
            version: self.snapshot.is_none().then_some(VERSION),
            session: session_entry(self.snapshot.as_ref(), &snapshot),
            ..Entry::default()
        };
        entry.nodes = writer.nodes(&snapshot.tree);
        writer.checkpoints(&snapshot, &mut entry);
        let had_unfinished = self.snapshot.as_ref().is_some_and(|before| before.unfinished.is_some());
        let unfinished = snapshot.unfinished.as_ref();
        entry.run_ended = had_unfinished && unfinished.is_none();
        entry.unfinished = unfinished.map(|unfinished| writer.unfinished(unfinished, &snapshot, &entry));
        if let Some(error) = writer.failure {
            return Err(error);
        }
        entry.sub_agents = writer.new_sub_agents.iter().map(NewVersion::entry).collect();
        let Writer { new_messages, new_sub_agents, run_entries, runs, turns, .. } = writer;
        entry.messages = new_messages;
        entry.runs = run_entries;
        let text = json::write(&entry).map_err(failed)?;
        let (messages, sub_agents) = (entry.messages, new_sub_agents);
        let runs = runs.into_changes();
        Ok(PreparedEntry { text, snapshot, messages, sub_agents, runs, turns })
    }

    /// Takes over an entry that was appended to the log.
    pub fn commit(&mut self, prepared: PreparedEntry) {
        prepared.messages.into_iter().for_each(|message| self.messages.push(message));
        self.sub_agents.commit(prepared.sub_agents);
        self.snapshot = Some(prepared.snapshot);
        self.runs.commit(prepared.runs);
        self.turns = prepared.turns;
    }
}

fn session_entry(before: Option<&SessionSnapshot>, after: &SessionSnapshot) -> SessionEntry {
    fn changed<T: PartialEq + Clone>(before: Option<&T>, after: &T) -> Option<T> {
        (before != Some(after)).then(|| after.clone())
    }
    /// An empty object of a new session is absent.
    fn object(before: Option<&RawObject>, after: &RawObject) -> Option<RawObject> {
        let is_same = before.map_or(after.is_empty(), |before| before == after);
        (!is_same).then(|| after.clone())
    }
    fn extra(before: Option<&Extra>, after: &Extra) -> Option<RawObject> {
        let is_same = before.map_or(after.is_empty(), |before| before == after);
        (!is_same).then(|| object_of(after))
    }
    let node = |tree: &ThreadTree| tree.position_of_node(tree.current().id.as_str());
    let root = |tree: &ThreadTree| tree.position_of_node(tree.root().id.as_str());
    let tree = before.map(|before| &before.tree);
    SessionEntry {
        id: changed(before.map(|before| &before.id), &after.id),
        agent_id: changed(before.map(|before| &before.agent_id), &after.agent_id),
        created_at: changed(before.map(|before| &before.created_at), &after.created_at),
        updated_at: changed(before.map(|before| &before.updated_at), &after.updated_at),
        interval: changed(before.map(|before| &before.interval), &after.interval),
        root: changed(tree.map(root).as_ref(), &root(&after.tree)).flatten(),
        node: changed(tree.map(node).as_ref(), &node(&after.tree)).flatten(),
        checkpoint: changed(before.map(|before| &before.current), &after.current).flatten(),
        metadata: object(before.map(|before| &before.metadata), &after.metadata),
        middleware: object(before.map(|before| &before.middleware), &after.middleware),
        extra: extra(before.map(|before| &before.extra), &after.extra),
        reserved: object(before.map(|before| &before.reserved), &after.reserved),
        tree_extra: extra(tree.map(|tree| &tree.extra), &after.tree.extra),
    }
}

/// Collects the objects that appear for the first time.
struct Writer<'a> {
    journal: &'a Journal,
    new_messages: Vec<Arc<Message>>,
    message_numbers: HashMap<usize, u32>,
    new_sub_agents: Vec<NewVersion>,
    failure: Option<SessionError>,
    run_entries: Vec<RunEntry>,
    runs: RunWriter<'a>,
    turns: u64,
}

impl<'a> Writer<'a> {
    fn new(journal: &'a Journal) -> Self {
        Self {
            journal,
            new_messages: Vec::new(),
            message_numbers: HashMap::new(),
            new_sub_agents: Vec::new(),
            failure: None,
            run_entries: Vec::new(),
            runs: RunWriter::new(&journal.runs),
            turns: journal.turns,
        }
    }

    /// Returns the number of a message; a new message gets the next one.
    fn message(&mut self, message: &Arc<Message>) -> u32 {
        let address = Arc::as_ptr(message).addr();
        let known =
            self.journal.messages.number_of(message).or_else(|| self.message_numbers.get(&address).copied());
        known.unwrap_or_else(|| {
            let number = number_of(self.journal.messages.len() + self.new_messages.len());
            self.message_numbers.insert(address, number);
            self.new_messages.push(Arc::clone(message));
            number
        })
    }

    fn messages<'m>(&mut self, messages: impl IntoIterator<Item = &'m Arc<Message>>) -> Numbers {
        messages.into_iter().map(|message| self.message(message)).collect()
    }

    /// Returns the number of a version of a sub-agent's session; a new version gets the next one.
    fn sub_agent(&mut self, session: &Arc<SessionSnapshot>) -> u32 {
        self.journal.sub_agents.number(session, &mut self.new_sub_agents).unwrap_or_else(|error| {
            self.failure.get_or_insert(error);
            0
        })
    }

    fn sub_agents(&mut self, states: &SubAgentStates) -> SubAgentNumbers {
        states.iter().map(|(key, session)| (key.to_owned(), self.sub_agent(session))).collect()
    }

    /// Returns the nodes that are new or changed.
    fn nodes(&mut self, tree: &ThreadTree) -> Vec<NodeEntry> {
        let journal = self.journal;
        let before = journal.snapshot.as_ref().map(|before| &before.tree);
        let mut entries = Vec::new();
        for (index, node) in tree.nodes().enumerate() {
            let old = before.and_then(|before| before.node_at(index));
            if !old.is_some_and(|old| Arc::ptr_eq(old, node)) {
                entries.push(self.node(index, node, old, tree));
            }
        }
        entries
    }

    fn node(
        &mut self,
        index: usize,
        node: &ThreadNode,
        old: Option<&Arc<ThreadNode>>,
        tree: &ThreadTree,
    ) -> NodeEntry {
        let members = members_of(node);
        let is_same = old.is_some_and(|old| members_of(old) == members);
        let keep = old.map_or(0, |old| kept_messages(old, node));
        let (added, removed) =
            (node.thread.messages.skip(keep), old.map(|old| old.thread.messages.skip(keep)));
        let removed = removed.as_ref().map_or(0, user_messages);
        self.turns = self.turns.saturating_add(user_messages(&added)).saturating_sub(removed);
        let add = self.messages(&added);
        let old_messages = old.map_or(0, |old| old.thread.messages.len());
        let messages = ListChange { keep, add };
        let kept_children = old.map_or(0, |old| {
            old.children.iter().zip(&node.children).take_while(|(one, other)| one == other).count()
        });
        let new_children = node.children.iter().skip(kept_children);
        let position = |id: &NodeId| tree.position_of_node(id.as_str()).map(number_of);
        let children = ListChange { keep: kept_children, add: new_children.filter_map(position).collect() };
        let old_children = old.map_or(0, |old| old.children.len());
        NodeEntry {
            index,
            members: (!is_same).then_some(members),
            messages: (keep != old_messages || !messages.add.is_empty()).then_some(messages),
            children: (kept_children != old_children || !children.add.is_empty()).then_some(children),
            updated_at: node.thread.updated_at,
        }
    }

    /// Adds the checkpoints that are new or changed, and those whose run has another number now.
    fn checkpoints(&mut self, snapshot: &SessionSnapshot, entry: &mut Entry) {
        let (new, none) = (&snapshot.checkpoints, Checkpoints::new());
        let old = self.journal.snapshot.as_ref().map_or(&none, |before| &before.checkpoints);
        let mut written = changed(old, new);
        let moved = self.histories(written.iter().map(|(_, checkpoint)| &***checkpoint));
        if !moved.is_empty() {
            let is_moved = |checkpoint: &Checkpoint| {
                history_of(checkpoint).is_some_and(|(history, _)| moved.contains(&Arc::as_ptr(history)))
            };
            let is_new = |index, checkpoint| !old.get(index).is_some_and(|old| Arc::ptr_eq(old, checkpoint));
            let all = new.iter().enumerate();
            written = all.filter(|(index, one)| is_new(*index, *one) || is_moved(one)).collect();
        }
        entry.checkpoints = written
            .into_iter()
            .map(|(index, checkpoint)| self.checkpoint(index, checkpoint, &snapshot.tree))
            .collect();
        entry.checkpoint_count = (new.len() < old.len()).then_some(new.len());
    }

    /// Writes the data that checkpoints share. Returns the histories whose runs have other numbers than before.
    fn histories<'c>(
        &mut self,
        checkpoints: impl Iterator<Item = &'c Checkpoint>,
    ) -> HashSet<*const SharedHistory> {
        let mut marks: Vec<(&Arc<SharedHistory>, Mark)> = Vec::new();
        let mut indexes: HashMap<*const SharedHistory, usize> = HashMap::new();
        for (history, mark) in checkpoints.filter_map(history_of) {
            let index = *indexes.entry(Arc::as_ptr(history)).or_insert(marks.len());
            match marks.get_mut(index) {
                Some((_, longest)) => *longest = longest.max(mark),
                None => marks.push((history, mark)),
            }
        }
        let mut moved = HashSet::new();
        for (history, mark) in marks {
            let data = history.until(mark);
            let place = self.runs.place(history, &data);
            if place.is_moved {
                moved.insert(Arc::as_ptr(history));
            }
            self.run_data(&place, &data);
        }
        moved
    }

    fn checkpoint(&mut self, index: usize, checkpoint: &Checkpoint, tree: &ThreadTree) -> CheckpointEntry {
        let (mut run, mut finished) = (None, None);
        match &checkpoint.state {
            CheckpointState::Resumable(snapshot, extra) => {
                let (history, mark) = snapshot.shared();
                let number = self.runs.number_of(history).unwrap_or_default();
                let mut point = run_point(number, snapshot.state().clone(), &history.until(mark));
                point.extra = object_of(extra);
                run = Some(point);
            }
            CheckpointState::Finished(state) => finished = Some(self.finished(state)),
        }
        CheckpointEntry {
            index,
            id: Arc::clone(&checkpoint.id),
            timestamp: checkpoint.timestamp,
            node: tree.position_of_node(checkpoint.position.node.as_str()).unwrap_or_default(),
            length: checkpoint.position.length,
            before: self.messages(&checkpoint.uncommitted),
            run,
            finished,
            sub_agents: self.sub_agents(&checkpoint.sub_agent_states),
            metadata: checkpoint.metadata.clone(),
            extra: object_of(&checkpoint.extra),
            reserved: checkpoint.reserved.clone(),
        }
    }

    fn finished(&mut self, state: &FinishedRun) -> FinishedEntry {
        match state {
            FinishedRun::Plain { step, messages } => {
                FinishedEntry { step: *step, messages: self.messages(messages.iter()), state: None }
            }
            FinishedRun::Complete(state) => {
                let messages = self.messages(&state.messages);
                let rest = ExecutionState { messages: History::new(), ..ExecutionState::clone(state) };
                FinishedEntry { step: state.step, messages, state: Some(rest) }
            }
        }
    }

    /// Writes the data of a run that the log does not have.
    fn run_data(&mut self, place: &Place, data: &RunTotals) {
        let Some(written) = place.written else { return };
        let ephemeral = data.ephemeral.skip(written.ephemeral);
        let ephemeral = ephemeral.iter().map(|other| (other.at, self.message(&other.message))).collect();
        let entry = RunEntry {
            run: place.run,
            messages: self.messages(&data.messages.skip(written.messages)),
            executions: data.executions.skip(written.executions).into_iter().collect(),
            usage: data.usage.skip(written.usage).into_iter().collect(),
            ephemeral,
            reasoning: data.reasoning.skip(written.reasoning).into_iter().collect(),
        };
        self.run_entries.push(entry);
    }

    fn unfinished_run(&mut self, run: &RunState, snapshot: &SessionSnapshot) -> RunPoint {
        let current = snapshot.current.and_then(|current| snapshot.checkpoints.get(current));
        let current = current.and_then(|checkpoint| history_of(checkpoint)).map(|(history, _)| history);
        let data = RunTotals { data: None, status: ResponseStatus::default(), ..run.collected.clone() };
        let place = self.runs.place_unfinished(current, &data);
        self.run_data(&place, &data);
        run_point(place.run, run.without_collected(), &data)
    }

    fn unfinished(
        &mut self,
        unfinished: &UnfinishedRun,
        snapshot: &SessionSnapshot,
        entry: &Entry,
    ) -> UnfinishedEntry {
        let point = unfinished.run.as_ref().map(|run| self.unfinished_run(run, snapshot));
        let checkpoint = point.as_ref().and_then(|point| same_checkpoint(entry, point));
        let position = &unfinished.position;
        UnfinishedEntry {
            node: snapshot.tree.position_of_node(position.node.as_str()).unwrap_or_default(),
            length: position.length,
            before: self.messages(&unfinished.uncommitted),
            checkpoint,
            run: point.filter(|_| checkpoint.is_none()).map(Box::new),
            active: unfinished.active,
            restored: unfinished.restored,
            sub_agents: self.sub_agents(&unfinished.sub_agents),
        }
    }
}

/// Returns the index of the entry's last checkpoint if it is at the same moment of the run.
fn same_checkpoint(entry: &Entry, point: &RunPoint) -> Option<usize> {
    let last = entry.checkpoints.last()?;
    let other = last.run.as_ref()?;
    let is_same = other.run == point.run
        && other.mark == point.mark
        && other.extra.is_empty()
        && RawJson::from_value(other).ok()?.get() == RawJson::from_value(point).ok()?.get();
    is_same.then_some(last.index)
}

/// Returns a moment of a run. `state` has no lists; `data` has those of the moment.
fn run_point(run: u32, mut state: RunState, data: &RunTotals) -> RunPoint {
    let mark = data.mark();
    let answered = take_answers(&mut state, data, mark);
    RunPoint { run, mark, state, answered, extra: RawObject::new() }
}

/// Returns the checkpoints that are not in the old list at the same index, with their indexes. Skips the parts that the
/// lists share: the cost does not depend on the length of a list to which a few checkpoints were added.
fn changed<'c>(old: &Checkpoints, new: &'c Checkpoints) -> Vec<(usize, &'c Arc<Checkpoint>)> {
    let mut changed = Vec::new();
    let mut old_leaves = old.leaves();
    let (mut start, mut old_start, mut old_leaf) = (0_usize, 0_usize, old_leaves.next());
    for leaf in new.leaves() {
        while let Some(known) = old_leaf.filter(|known| old_start + known.len() <= start) {
            old_start += known.len();
            old_leaf = old_leaves.next();
        }
        let is_same = old_start == start && old_leaf.is_some_and(|known| std::ptr::eq(known, leaf));
        if !is_same {
            let is_new = |(index, checkpoint): &(usize, &'c Arc<Checkpoint>)| {
                !old.get(*index).is_some_and(|old| Arc::ptr_eq(old, checkpoint))
            };
            changed.extend((start..).zip(leaf).filter(is_new));
        }
        start += leaf.len();
    }
    changed
}

/// Returns the history that a checkpoint shares, and its part of it; `None` if the run had finished.
const fn history_of(checkpoint: &Checkpoint) -> Option<(&Arc<SharedHistory>, Mark)> {
    match &checkpoint.state {
        CheckpointState::Resumable(snapshot, _) => Some(snapshot.shared()),
        CheckpointState::Finished(_) => None,
    }
}

fn number_of(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

/// Returns the number of user messages: the turns that users have started.
pub(super) fn user_messages(messages: &History) -> u64 {
    messages.iter().map(|message| u64::from(message.kind() == MessageKind::User)).sum()
}

fn members_of(node: &ThreadNode) -> NodeMembers {
    NodeMembers {
        id: node.id.to_string(),
        parent: node.parent_id.as_ref().map(ToString::to_string),
        branch_point: node.branch_point,
        name: node.name.clone(),
        metadata: node.metadata.clone(),
        extra: object_of(&node.extra),
        thread_id: node.thread.id.clone(),
        created_at: node.thread.created_at,
        thread_extra: object_of(&node.thread.extra),
    }
}

/// Returns how many messages at the start of a node's thread are the same as before.
fn kept_messages(old: &ThreadNode, new: &ThreadNode) -> usize {
    let (before, after) = (&old.thread.messages, &new.thread.messages);
    let shorter = before.len().min(after.len());
    // Without a removal, messages were only appended.
    if old.removals.is_same(new.removals) && before.len() <= after.len() {
        return shorter;
    }
    before.iter().zip(after).take_while(|(one, other)| Arc::ptr_eq(one, other)).count()
}
