//! Reads a session from the entries of its log.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use crate::machine::run_totals::{EphemeralMessage, Mark, RunTotals};
use crate::machine::state::RunState;
use crate::session::checkpoint::shared_history::{RunSnapshot, SharedHistory};
use crate::session::checkpoint::{Checkpoint, CheckpointState, Checkpoints, FinishedRun, SubAgentStates};
use crate::session::journal::entry::{
    CheckpointEntry, Entry, FinishedEntry, ListChange, NodeEntry, NodeMembers, Numbers, RunEntry, RunPoint,
    SessionEntry, SubAgentNumbers, UnfinishedEntry, extra_of,
};
use crate::session::journal::round::restore_answers;
use crate::session::journal::runs::Runs;
use crate::session::journal::sub_agents::ReplayedLogs;
use crate::session::journal::writer::user_messages;
use crate::session::journal::{Journal, Numbered, VERSION};
use crate::session::json::SessionSnapshot;
use crate::session::unfinished_run::UnfinishedRun;
use crate::tree::json::{ThreadNodeJson, ThreadTreeJson};
use crate::tree::node::NodeId;
use crate::tree::position::TreePosition;
use crate::tree::thread_tree::ThreadTree;
use crate::types::execution_state::ExecutionState;
use turntree_core::json::{self, RawJson, RawObject};
use turntree_core::limits::Limits;
use turntree_core::message::message::History;
use turntree_core::message::{Message, Thread};
use turntree_core::time::Timestamp;

/// Why a log cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("entry {entry}: {reason}")]
pub struct JournalError {
    /// The index of the entry.
    pub entry: usize,
    /// The rule that is broken.
    pub reason: String,
}

impl Journal {
    /// Reads the entries of a log, oldest first.
    ///
    /// # Errors
    /// [`JournalError`] with the first entry that is invalid, was written by a newer version, or refers to what does not
    /// exist.
    pub fn read<'t>(entries: impl IntoIterator<Item = &'t str>) -> Result<Self, JournalError> {
        let mut replay = Replay::default();
        let mut count = 0;
        for (index, text) in entries.into_iter().enumerate() {
            replay.apply(text).map_err(|reason| JournalError { entry: index, reason })?;
            count = index;
        }
        replay.finish().map_err(|reason| JournalError { entry: count, reason })
    }
}

/// A node while a log is read.
#[derive(Debug)]
struct ReplayedNode {
    members: NodeMembers,
    messages: History,
    /// The indexes of its children.
    children: Vec<u32>,
    updated_at: Timestamp,
}

/// The lists of a run.
#[derive(Debug, Default)]
struct ReplayedRun {
    totals: RunTotals,
    /// The lengths of the parts that checkpoints have.
    mark: Mark,
    /// These parts, where the checkpoints share them.
    shared: Option<Arc<SharedHistory>>,
}

/// The most levels that an entry has around a part of a session, beyond those of the session's JSON.
const ENTRY_LEVELS: usize = 4;

/// The state of a session while its log is read.
#[derive(Debug, Default)]
struct Replay {
    messages: Numbered<Message>,
    sub_agents: ReplayedLogs,
    /// The versions of sub-agents that the session has, by their numbers.
    sub_agent_versions: HashMap<u32, Arc<SessionSnapshot>>,
    runs: Vec<ReplayedRun>,
    nodes: Vec<ReplayedNode>,
    checkpoints: Vec<CheckpointEntry>,
    unfinished: Option<UnfinishedEntry>,
    session: SessionEntry,
}

impl Replay {
    /// Applies an entry.
    ///
    /// # Errors
    /// The rule that is broken.
    fn apply(&mut self, text: &str) -> Result<(), String> {
        if let Some(version) = version_of(text).filter(|version| *version > VERSION) {
            return Err(format!(
                "it has version {version} of the format; this version of turntree reads versions up to {VERSION}: \
                 install a newer version of turntree"
            ));
        }
        // An entry has a level around some parts of the session that the session's JSON does not have.
        let depth = Limits::default().depth + ENTRY_LEVELS;
        let limits = Limits { bytes: usize::MAX, depth, values: usize::MAX };
        let entry: Entry = json::parse(text, &limits).map_err(|error| error.to_string())?;
        entry.messages.into_iter().for_each(|message| self.messages.push(message));
        entry.sub_agents.into_iter().try_for_each(|version| self.sub_agents.push(version))?;
        entry.runs.into_iter().try_for_each(|run| self.run(run))?;
        entry.nodes.into_iter().try_for_each(|node| self.node(node))?;
        if let Some(count) = entry.checkpoint_count {
            self.checkpoints.truncate(count);
        }
        for checkpoint in entry.checkpoints {
            let index = checkpoint.index;
            if index == self.checkpoints.len() {
                self.checkpoints.push(checkpoint);
            } else if let Some(place) = self.checkpoints.get_mut(index) {
                *place = checkpoint;
            } else {
                return Err(format!("checkpoint {index} follows {} checkpoint(s)", self.checkpoints.len()));
            }
        }
        if entry.run_ended || entry.unfinished.is_some() {
            self.unfinished = entry.unfinished;
        }
        self.session.update(entry.session);
        Ok(())
    }

    fn messages(&self, numbers: &Numbers) -> Result<History, String> {
        numbers.iter().map(|number| self.message(number)).collect()
    }

    fn message(&self, number: u32) -> Result<Arc<Message>, String> {
        let found = self.messages.get(number).cloned();
        found.ok_or_else(|| {
            format!("it refers to message {number}, and the log has {} messages", self.messages.len())
        })
    }

    fn run(&mut self, entry: RunEntry) -> Result<(), String> {
        let index = entry.run as usize;
        if index == self.runs.len() {
            self.runs.push(ReplayedRun::default());
        }
        let messages = self.messages(&entry.messages)?;
        let ephemeral = entry.ephemeral.into_iter().map(|(at, number)| {
            let message = self.message(number)?;
            Ok(Arc::new(EphemeralMessage { at, message }))
        });
        let ephemeral = ephemeral.collect::<Result<Vec<_>, String>>()?;
        let known = self.runs.len();
        let run = self.runs.get_mut(index).ok_or_else(|| format!("run {index} follows {known} run(s)"))?;
        let totals = &mut run.totals;
        totals.messages.append(messages);
        totals.ephemeral.extend(ephemeral);
        totals.executions.extend(entry.executions);
        totals.usage.extend(entry.usage);
        totals.reasoning.extend(entry.reasoning);
        Ok(())
    }

    fn node(&mut self, entry: NodeEntry) -> Result<(), String> {
        let NodeEntry { index, members, messages, children, updated_at } = entry;
        let added = messages.as_ref().map(|change| self.messages(&change.add)).transpose()?;
        if index == self.nodes.len() {
            let members = members.ok_or_else(|| format!("node {index} is new and has no members"))?;
            let node = ReplayedNode { members, messages: History::new(), children: Vec::new(), updated_at };
            self.nodes.push(node);
        } else if let (Some(members), Some(node)) = (members, self.nodes.get_mut(index)) {
            node.members = members;
        }
        let known = self.nodes.len();
        let node =
            self.nodes.get_mut(index).ok_or_else(|| format!("node {index} follows {known} node(s)"))?;
        node.updated_at = updated_at;
        if let (Some(ListChange { keep, .. }), Some(added)) = (messages, added) {
            if keep > node.messages.len() {
                return Err(format!("node {index} has {} messages, not {keep}", node.messages.len()));
            }
            node.messages.truncate(keep);
            if node.messages.is_empty() {
                node.messages = added;
            } else {
                node.messages.extend(added);
            }
        }
        if let Some(ListChange { keep, add }) = children {
            node.children.truncate(keep);
            node.children.extend(add.iter());
        }
        Ok(())
    }

    /// Returns the session, and the state of its log.
    ///
    /// # Errors
    /// The rule that is broken.
    fn finish(mut self) -> Result<Journal, String> {
        let tree = self.tree()?;
        let id = self.session.id.take().ok_or("the log has no session id")?;
        let created_at = self.session.created_at.ok_or("the log has no time of creation")?;
        let numbers = self.sub_agent_numbers();
        let (versions, sub_agents) = std::mem::take(&mut self.sub_agents).finish(&numbers)?;
        self.sub_agent_versions = versions;
        let entries = std::mem::take(&mut self.checkpoints);
        for point in entries.iter().filter_map(|entry| entry.run.as_ref()) {
            if let Some(run) = self.runs.get_mut(point.run as usize) {
                run.mark = run.mark.max(point.mark);
            }
        }
        let mut checkpoints = Checkpoints::new();
        for entry in entries {
            let index = entry.index;
            let checkpoint = self.checkpoint(entry, &id, &tree);
            checkpoints
                .push_back(Arc::new(checkpoint.map_err(|reason| format!("checkpoint {index}: {reason}"))?));
        }
        let unfinished = self.unfinished.take().map(|entry| self.unfinished(entry, &tree, &checkpoints));
        let unfinished = unfinished.transpose().map_err(|reason| format!("unfinished run: {reason}"))?;
        let session = self.session;
        let current = session.checkpoint.filter(|current| *current < checkpoints.len());
        let snapshot = SessionSnapshot {
            id,
            agent_id: session.agent_id.ok_or("the log has no agent id")?,
            created_at,
            updated_at: session.updated_at.unwrap_or(created_at),
            tree,
            checkpoints,
            current,
            unfinished,
            interval: session.interval.unwrap_or_default(),
            middleware: session.middleware.unwrap_or_default(),
            metadata: session.metadata.unwrap_or_default(),
            extra: extra_of(&session.extra.unwrap_or_default()),
            reserved: session.reserved.unwrap_or_default(),
        };
        let runs = Runs::of_log(self.runs.into_iter().map(|run| (run.totals, run.shared)));
        let turns = snapshot.tree.nodes().map(|node| user_messages(&node.thread.messages)).sum();
        let messages = self.messages;
        Ok(Journal { snapshot: Some(snapshot), messages, sub_agents, runs, turns })
    }

    /// Returns the numbers of the sub-agents that the session has.
    fn sub_agent_numbers(&self) -> BTreeSet<u32> {
        let checkpoints = self.checkpoints.iter().flat_map(|entry| &entry.sub_agents);
        let unfinished = self.unfinished.iter().flat_map(|entry| &entry.sub_agents);
        checkpoints.chain(unfinished).map(|(_, number)| *number).collect()
    }

    fn tree(&mut self) -> Result<ThreadTree, String> {
        let nodes = std::mem::take(&mut self.nodes);
        let ids: Vec<String> = nodes.iter().map(|node| node.members.id.clone()).collect();
        let id = |index: usize| ids.get(index).cloned().ok_or_else(|| format!("there is no node {index}"));
        let mut json = Vec::with_capacity(nodes.len());
        for node in nodes {
            let children = node.children.iter().map(|child| id(*child as usize));
            let children = children.collect::<Result<Vec<_>, _>>()?;
            json.push(node_json(node, children));
        }
        let document = ThreadTreeJson {
            root_id: id(self.session.root.unwrap_or_default())?,
            current_id: id(self.session.node.unwrap_or_default())?,
            nodes: json,
            extra: extra_of(&self.session.tree_extra.take().unwrap_or_default()),
        };
        document.into_tree().map_err(|error| error.to_string())
    }

    fn sub_agents(&self, numbers: SubAgentNumbers) -> Result<SubAgentStates, String> {
        let mut states = SubAgentStates::default();
        for (key, number) in numbers {
            let session = self.sub_agent_versions.get(&number).cloned();
            let session = session.ok_or_else(|| format!("it refers to sub-agent {number}"))?;
            states.insert(&key, session);
        }
        Ok(states)
    }

    fn checkpoint(
        &mut self,
        entry: CheckpointEntry,
        session: &Arc<str>,
        tree: &ThreadTree,
    ) -> Result<Checkpoint, String> {
        let state = match (entry.run, entry.finished) {
            (Some(point), _) => {
                let extra = extra_of(&point.extra);
                let (state, run) = self.run_state(point)?;
                let until = run.totals.until(run.mark);
                let history = run.shared.get_or_insert_with(|| SharedHistory::new(until));
                CheckpointState::Resumable(Box::new(RunSnapshot::at(&state, history)), extra)
            }
            (None, Some(finished)) => CheckpointState::Finished(self.finished(finished)?),
            (None, None) => return Err("it has no state".to_owned()),
        };
        let position = position_at(tree, entry.node, entry.length)?;
        Ok(Checkpoint {
            id: entry.id,
            session_id: Arc::clone(session),
            timestamp: entry.timestamp,
            position,
            uncommitted: self.messages(&entry.before)?,
            sub_agent_states: self.sub_agents(entry.sub_agents)?,
            metadata: entry.metadata,
            extra: extra_of(&entry.extra),
            reserved: entry.reserved,
            state,
        })
    }

    fn finished(&self, entry: FinishedEntry) -> Result<FinishedRun, String> {
        let messages = self.messages(&entry.messages)?;
        Ok(match entry.state {
            None => FinishedRun::Plain { step: entry.step, messages: messages.into_iter().collect() },
            Some(state) => FinishedRun::Complete(Box::new(ExecutionState { messages, ..state })),
        })
    }

    /// Returns the state of a run, and the run.
    fn run_state(&mut self, point: RunPoint) -> Result<(RunState, &mut ReplayedRun), String> {
        let RunPoint { run, mark, mut state, answered, .. } = point;
        let known = self.runs.len();
        let run =
            self.runs.get_mut(run as usize).ok_or_else(|| format!("it refers to run {run} of {known}"))?;
        if !run.totals.contains_mark(mark) {
            return Err("it has more records than its run".to_owned());
        }
        restore_answers(&mut state, &answered, &run.totals)?;
        let (data, status) = (state.collected.data.take(), state.collected.status);
        state.collected = RunTotals { data, status, ..run.totals.until(mark) };
        state.check().map_err(|error| error.to_string())?;
        Ok((state, run))
    }

    fn unfinished(
        &mut self,
        entry: UnfinishedEntry,
        tree: &ThreadTree,
        checkpoints: &Checkpoints,
    ) -> Result<UnfinishedRun, String> {
        let run = match (entry.run, entry.checkpoint) {
            (None, None) => None,
            (Some(point), _) => Some(self.run_state(*point)?.0),
            (None, Some(index)) => match checkpoints.get(index).map(|found| &found.state) {
                Some(CheckpointState::Resumable(snapshot, _)) => Some(snapshot.run_state()),
                _ => return Err(format!("checkpoint {index} cannot be resumed")),
            },
        };
        Ok(UnfinishedRun {
            position: position_at(tree, entry.node, entry.length)?,
            uncommitted: self.messages(&entry.before)?,
            run,
            active: entry.active,
            restored: entry.restored,
            sub_agents: self.sub_agents(entry.sub_agents)?,
        })
    }
}

impl SessionEntry {
    /// Takes over the members that another entry has.
    fn update(&mut self, other: Self) {
        macro_rules! update {
            ($($member:ident),*) => { $( if other.$member.is_some() { self.$member = other.$member; } )* };
        }
        update!(id, agent_id, created_at, updated_at, interval, root, node, checkpoint);
        update!(metadata, middleware, extra, reserved, tree_extra);
    }
}

fn node_json(node: ReplayedNode, children: Vec<String>) -> ThreadNodeJson {
    let NodeMembers {
        id,
        parent,
        branch_point,
        name,
        mut metadata,
        extra,
        thread_id,
        created_at,
        thread_extra,
    } = node.members;
    if let Some(point) = branch_point {
        let point = RawJson::from_value(&point).unwrap_or_default();
        metadata.insert(crate::tree::json::BRANCH_POINT, point);
    }
    let thread = Thread {
        id: thread_id,
        messages: node.messages,
        created_at,
        updated_at: node.updated_at,
        extra: extra_of(&thread_extra),
    };
    let metadata: Option<RawObject> = Some(metadata);
    ThreadNodeJson { id, parent_id: parent, name, thread, children, metadata, extra: extra_of(&extra) }
}

fn position_at(tree: &ThreadTree, index: usize, length: Option<usize>) -> Result<TreePosition, String> {
    let node: Option<NodeId> = tree.node_at(index).map(|node| node.id.clone());
    let node = node.ok_or_else(|| format!("it refers to node {index} of {}", tree.node_count()))?;
    Ok(TreePosition { node, length })
}

/// Returns the version that an entry starts with, if it does. Entries of newer versions may have another structure.
fn version_of(text: &str) -> Option<u32> {
    let rest = text.strip_prefix("{\"version\":")?;
    let end = rest.find(|character: char| !character.is_ascii_digit())?;
    rest.get(..end)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::version_of;

    #[test]
    fn versions_are_read_before_the_rest() {
        assert_eq!(version_of("{\"version\":12,\"future\":{}}"), Some(12));
        assert_eq!(version_of("{\"session\":{}}"), None);
    }
}
