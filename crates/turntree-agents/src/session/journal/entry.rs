//! The JSON of an entry. Members that have nothing to say are absent.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::machine::run_totals::Mark;
use crate::machine::state::RunState;
use crate::session::interval::CheckpointInterval;
use crate::types::execution_state::ExecutionState;
use turntree_core::json::{Extra, RawJson, RawObject};
use turntree_core::message::{Message, TokenUsage, ToolExecution};
use turntree_core::time::Timestamp;

/// What changed between two states of a session.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Entry {
    /// The version of the format. Only in the first entry of a log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) version: Option<u32>,
    /// The messages that appear for the first time. They get the next numbers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) messages: Vec<Arc<Message>>,
    /// The sessions of sub-agents that are new or changed. These versions get the next numbers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) sub_agents: Vec<SubAgentEntry>,
    /// Data of runs. A run with the next number is new; for a known run, the lists are appended to those before.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) runs: Vec<RunEntry>,
    /// Nodes that are new or changed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) nodes: Vec<NodeEntry>,
    /// Checkpoints that are new or changed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) checkpoints: Vec<CheckpointEntry>,
    /// The number of checkpoints, if it became smaller.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) checkpoint_count: Option<usize>,
    /// The unfinished run, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) unfinished: Option<UnfinishedEntry>,
    /// True if there was an unfinished run and there is none any more.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) run_ended: bool,
    /// The members of the session itself that changed.
    #[serde(default)]
    pub(super) session: SessionEntry,
}

/// A version of a sub-agent's session.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct SubAgentEntry {
    /// The index of the log that the version continues; the next index starts a log.
    pub(super) log: u32,
    /// The entry of that log, an [`Entry`].
    pub(super) entry: RawJson,
}

/// Members of the session.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct SessionEntry {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) id: Option<Arc<str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) agent_id: Option<Arc<str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) created_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) updated_at: Option<Timestamp>,
    /// When checkpoints are created.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) interval: Option<CheckpointInterval>,
    /// The index of the root.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) root: Option<usize>,
    /// The index of the current node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) node: Option<usize>,
    /// The index of the current checkpoint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) checkpoint: Option<usize>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) metadata: Option<RawObject>,
    /// The values of the agent's middleware.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) middleware: Option<RawObject>,
    /// Members of the session's JSON that the writer did not know.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) extra: Option<RawObject>,
    /// Members of the reserved metadata that the writer did not know.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) reserved: Option<RawObject>,
    /// Members of the tree's JSON that the writer did not know.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) tree_extra: Option<RawObject>,
}

/// Numbers of objects: ranges of consecutive numbers, each with its first and last number.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct Numbers(Vec<(u32, u32)>);

impl Numbers {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn push(&mut self, number: u32) {
        match self.0.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(number) => *last = number,
            _ => self.0.push((number, number)),
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = u32> {
        self.0.iter().flat_map(|(first, last)| *first..=*last)
    }
}

impl FromIterator<u32> for Numbers {
    fn from_iter<I: IntoIterator<Item = u32>>(numbers: I) -> Self {
        let mut collected = Self::default();
        numbers.into_iter().for_each(|number| collected.push(number));
        collected
    }
}

/// A change of a list of numbered objects: the first `keep` ones stay, and others follow.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ListChange {
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(super) keep: usize,
    #[serde(default, skip_serializing_if = "Numbers::is_empty")]
    pub(super) add: Numbers,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde requires this signature")]
const fn is_zero(number: &usize) -> bool {
    *number == 0
}

/// Data of a run.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct RunEntry {
    pub(super) run: u32,
    #[serde(default, skip_serializing_if = "Numbers::is_empty")]
    pub(super) messages: Numbers,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) executions: Vec<Arc<ToolExecution>>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) usage: Vec<Arc<TokenUsage>>,
    /// Messages for the model that are not part of the conversation: the number of messages of the run before each of
    /// them, and the number of the message.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) ephemeral: Vec<(usize, u32)>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) reasoning: Vec<String>,
}

/// A node that is new or changed.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct NodeEntry {
    /// The index of the node in the order of creation.
    pub(super) index: usize,
    /// All other members of a new node, and of one whose members have changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) members: Option<NodeMembers>,
    /// The messages of its thread.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) messages: Option<ListChange>,
    /// The indexes of its children.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) children: Option<ListChange>,
    /// When its thread was changed.
    pub(super) updated_at: Timestamp,
}

/// The members of a node without its messages and children.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct NodeMembers {
    pub(super) id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) parent: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) branch_point: Option<usize>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) name: Option<String>,
    #[serde(default, skip_serializing_if = "RawObject::is_empty")]
    pub(super) metadata: RawObject,
    #[serde(default, skip_serializing_if = "RawObject::is_empty")]
    pub(super) extra: RawObject,
    pub(super) thread_id: String,
    pub(super) created_at: Timestamp,
    #[serde(default, skip_serializing_if = "RawObject::is_empty")]
    pub(super) thread_extra: RawObject,
}

/// The sessions of sub-agents: the key and the number of the version of each.
pub(super) type SubAgentNumbers = Vec<(String, u32)>;

/// A checkpoint.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct CheckpointEntry {
    pub(super) index: usize,
    pub(super) id: Arc<str>,
    pub(super) timestamp: Timestamp,
    /// The index of its node.
    pub(super) node: usize,
    /// The number of messages of the node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) length: Option<usize>,
    /// The messages between the tree and the run.
    #[serde(default, skip_serializing_if = "Numbers::is_empty")]
    pub(super) before: Numbers,
    /// The run that can be resumed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) run: Option<RunPoint>,
    /// The run that had finished.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) finished: Option<FinishedEntry>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) sub_agents: SubAgentNumbers,
    #[serde(default, skip_serializing_if = "RawObject::is_empty")]
    pub(super) metadata: RawObject,
    #[serde(default, skip_serializing_if = "RawObject::is_empty")]
    pub(super) extra: RawObject,
    #[serde(default, skip_serializing_if = "RawObject::is_empty")]
    pub(super) reserved: RawObject,
}

/// A moment of a run.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct RunPoint {
    pub(super) run: u32,
    /// The lengths of the run's lists.
    pub(super) mark: Mark,
    /// The state without these lists.
    pub(super) state: RunState,
    /// Calls of the open tool round whose result is that of a tool record: the index of the call and of the record.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) answered: Vec<(usize, usize)>,
    /// Members of the state's JSON that the writer did not know.
    #[serde(default, skip_serializing_if = "RawObject::is_empty")]
    pub(super) extra: RawObject,
}

/// The state of a run that had finished.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct FinishedEntry {
    pub(super) step: u32,
    pub(super) messages: Numbers,
    /// The other members of the state, if it has any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) state: Option<ExecutionState>,
}

/// The unfinished run.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct UnfinishedEntry {
    /// The index of its node.
    pub(super) node: usize,
    /// The number of messages of the node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) length: Option<usize>,
    #[serde(default, skip_serializing_if = "Numbers::is_empty")]
    pub(super) before: Numbers,
    /// The index of the checkpoint that has the state to resume from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) checkpoint: Option<usize>,
    /// The state to resume from, if no checkpoint has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) run: Option<Box<RunPoint>>,
    /// True if the run is active.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) active: bool,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) restored: bool,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) sub_agents: SubAgentNumbers,
}

/// Members that the writer did not know, as an object.
pub(super) fn object_of(extra: &Extra) -> RawObject {
    extra.iter().map(|(name, value)| (name.to_owned(), value.clone())).collect()
}

/// The inverse of [`object_of`].
pub(super) fn extra_of(object: &RawObject) -> Extra {
    let mut extra = Extra::new();
    for (name, value) in object.iter() {
        extra.insert(name.to_owned(), value.clone());
    }
    extra
}
