//! The data that checkpoints of one run share, in the JSON of a session.
//!
//! A session has one entry for each run with checkpoints, in the member `runs` of its reserved metadata. A checkpoint
//! has the member `snapshot`: the number of its entry, the lengths of its part of the lists, and the rest of the state.
//!
//! | member of an entry | content |
//! |---|---|
//! | `before` | messages between the thread and the run's input; absent if there are none |
//! | `executions` | the records of tool calls; a record that the messages of the run contain is written as a reference to them |
//! | `usage` | the token usage of each model call |
//! | `asides` | messages for the model that are not part of the conversation |
//!
//! The size of a run's entry is linear in its steps. If each checkpoint had these lists, it would be quadratic.
//!
//! Spec: decision A108.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use serde::ser::SerializeMap;
use serde::{Deserialize, Serialize, Serializer};

use crate::machine::run_totals::{EphemeralMessage, Mark, RunTotals};
use crate::machine::state::RunState;
use crate::session::checkpoint::json::{ParsedCheckpoint, read_run_state, without_execution_state};
use crate::session::checkpoint::shared_history::{RunSnapshot, SharedHistory};
use crate::session::checkpoint::{Checkpoint, CheckpointState, Checkpoints};
use crate::session::interner::Interner;
use crate::session::reserved::{MessageList, RESERVED, error_at, key, within};
use turntree_core::json::{ParseError, PathSegment, RawJson, describe_part};
use turntree_core::message::message::History;
use turntree_core::message::{Message, TokenUsage, ToolCall, ToolExecution, ToolResult};

/// The entries of a session's checkpoints.
pub(crate) struct SharedRuns<'a> {
    entries: Vec<SharedRun<'a>>,
    indexes: HashMap<*const SharedHistory, usize>,
}

/// The data that checkpoints of one run share.
struct SharedRun<'a> {
    history: &'a SharedHistory,
    /// The length of the longest part that a checkpoint has.
    mark: Mark,
    before: &'a History,
}

impl<'a> SharedRuns<'a> {
    pub(crate) fn of(checkpoints: &'a Checkpoints) -> Self {
        let mut runs = Self { entries: Vec::new(), indexes: HashMap::new() };
        for checkpoint in checkpoints {
            let CheckpointState::Resumable(snapshot, _) = &checkpoint.state else { continue };
            let (history, mark) = snapshot.shared();
            let index = *runs.indexes.entry(Arc::as_ptr(history)).or_insert(runs.entries.len());
            match runs.entries.get_mut(index) {
                Some(entry) => entry.mark = entry.mark.max(mark),
                None => runs.entries.push(SharedRun { history, mark, before: &checkpoint.uncommitted }),
            }
        }
        runs
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns the member `snapshot` of a checkpoint; `None` for a finished run.
    pub(crate) fn snapshot(&self, checkpoint: &'a Checkpoint) -> Option<SnapshotJson<'a>> {
        let CheckpointState::Resumable(snapshot, _) = &checkpoint.state else { return None };
        let (history, mark) = snapshot.shared();
        let run = *self.indexes.get(&Arc::as_ptr(history))?;
        Some(SnapshotJson { run, mark, before: self.entries.get(run)?.before, state: snapshot.state() })
    }
}

impl Serialize for SharedRuns<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(&self.entries)
    }
}

impl Serialize for SharedRun<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let totals = self.history.until(self.mark);
        let mut map = serializer.serialize_map(None)?;
        if !self.before.is_empty() {
            map.serialize_entry("before", &MessageList(self.before))?;
        }
        map.serialize_entry("executions", &references(&totals))?;
        map.serialize_entry("usage", &totals.usage.iter().collect::<Vec<_>>())?;
        if !totals.ephemeral.is_empty() {
            map.serialize_entry("asides", &totals.ephemeral.iter().collect::<Vec<_>>())?;
        }
        map.end()
    }
}

/// The part of a checkpoint that it does not share.
#[derive(Clone)]
pub(crate) struct SnapshotJson<'a> {
    run: usize,
    mark: Mark,
    before: &'a History,
    state: &'a RunState,
}

impl SnapshotJson<'_> {
    /// Returns true if the entry contains these messages before the run.
    pub(crate) fn has_messages_before(&self, before: &History) -> bool {
        let mut pairs = self.before.iter().zip(before);
        self.before.len() == before.len() && pairs.all(|(one, other)| Arc::ptr_eq(one, other))
    }
}

impl Serialize for SnapshotJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("run", &self.run)?;
        map.serialize_entry("executions", &self.mark.executions)?;
        map.serialize_entry("usage", &self.mark.usage)?;
        if self.mark.ephemeral > 0 {
            map.serialize_entry("asides", &self.mark.ephemeral)?;
        }
        map.serialize_entry("state", &without_execution_state(self.state))?;
        map.end()
    }
}

/// A record of a tool call, or a reference to the messages that contain it.
#[derive(Serialize)]
#[serde(untagged)]
enum ExecutionJson<'a> {
    Reference(ExecutionReference),
    Record(&'a ToolExecution),
}

/// A record whose tool, arguments and result are those of a call and of its result in the next message.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ExecutionReference {
    /// The index of the message with the call.
    message: usize,
    /// The index of the call in the message.
    call: usize,
    duration: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    approved: Option<bool>,
}

impl ExecutionReference {
    fn find<'m>(&self, messages: &'m History) -> Option<(&'m ToolCall, &'m ToolResult)> {
        let call = messages.get(self.message)?.tool_calls().get(self.call)?;
        let result = messages.get(self.message.checked_add(1)?)?.results().get(self.call)?;
        Some((call, result))
    }

    /// Returns the record.
    fn resolve(&self, messages: &History) -> Option<ToolExecution> {
        let (call, result) = self.find(messages)?;
        Some(ToolExecution {
            tool_name: call.tool_name.clone(),
            tool_call_id: call.tool_call_id.clone(),
            arguments: call.arguments.clone(),
            result: result.result.clone(),
            is_error: result.failed(),
            duration: self.duration,
            approved: self.approved,
            extra: turntree_core::json::Extra::new(),
        })
    }
}

/// Returns the records of a run, as references where the messages contain them.
fn references(totals: &RunTotals) -> Vec<ExecutionJson<'_>> {
    let mut calls: HashMap<&str, VecDeque<(usize, usize)>> = HashMap::new();
    for (message, content) in totals.messages.iter().enumerate() {
        for (call, content) in content.tool_calls().iter().enumerate() {
            calls.entry(&content.tool_call_id).or_default().push_back((message, call));
        }
    }
    let mut json = |execution| match calls.get_mut(execution_id(execution)).and_then(VecDeque::pop_front) {
        Some(at) => reference(execution, at, &totals.messages),
        None => ExecutionJson::Record(execution),
    };
    totals.executions.iter().map(|execution| json(execution)).collect()
}

fn execution_id(execution: &ToolExecution) -> &str {
    &execution.tool_call_id
}

/// Returns a reference if the messages contain the record exactly.
fn reference<'a>(
    execution: &'a ToolExecution,
    (message, call): (usize, usize),
    messages: &History,
) -> ExecutionJson<'a> {
    let ToolExecution { duration, approved, .. } = *execution;
    let reference = ExecutionReference { message, call, duration, approved };
    let is_same = reference.find(messages).is_some_and(|(call, result)| {
        call.tool_name == execution.tool_name
            && call.arguments.get() == execution.arguments.get()
            && result.tool_call_id == execution.tool_call_id
            && result.result.get() == execution.result.get()
            && result.failed() == execution.is_error
            && execution.extra.is_empty()
    });
    if is_same { ExecutionJson::Reference(reference) } else { ExecutionJson::Record(execution) }
}

/// An entry as it is read.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct RunJson {
    #[serde(default)]
    before: Vec<Message>,
    #[serde(default)]
    executions: Vec<RawJson>,
    #[serde(default)]
    usage: Vec<TokenUsage>,
    #[serde(default)]
    asides: Vec<EphemeralMessage>,
}

#[derive(Deserialize)]
struct SnapshotMembers {
    run: usize,
    #[serde(default)]
    executions: usize,
    #[serde(default)]
    usage: usize,
    #[serde(default)]
    asides: usize,
    state: RawJson,
}

/// The entries of a session while its checkpoints are read.
#[derive(Default)]
pub(crate) struct RunReader {
    runs: Vec<ReadRun>,
    /// The newest checkpoint that contains its complete state.
    complete: Arc<SharedHistory>,
}

struct ReadRun {
    json: RunJson,
    before: History,
    /// Messages and reasoning of the longest checkpoint.
    totals: RunTotals,
    /// `None` before the records are read, and if no checkpoint has the entry.
    history: Option<Arc<SharedHistory>>,
    is_linked: bool,
}

/// A checkpoint and the part of its state that is not shared.
pub(crate) struct LinkedCheckpoint {
    parsed: ParsedCheckpoint,
    snapshot: Option<SnapshotMembers>,
}

impl RunReader {
    /// `entries` is the member `runs`.
    pub(crate) fn new(entries: Vec<RunJson>, interner: &mut Interner<'_>) -> Self {
        let runs = entries.into_iter().map(|mut json| {
            let before = interner.share_all(std::mem::take(&mut json.before));
            ReadRun { json, before, totals: RunTotals::default(), history: None, is_linked: false }
        });
        Self { runs: runs.collect(), complete: Arc::default() }
    }

    /// Reads the link of a checkpoint to its entry, and adds the messages of the checkpoint to the entry.
    ///
    /// # Errors
    /// The path in the checkpoint and the rule.
    pub(crate) fn link(&mut self, mut parsed: ParsedCheckpoint) -> Result<LinkedCheckpoint, ParseError> {
        // Another program may have removed the entries; then the checkpoint is not resumable. Its link is removed too:
        // later it would lead to the entry of another run.
        if self.runs.is_empty() {
            parsed.snapshot = None;
        }
        let Some(raw) = &parsed.snapshot else {
            return Ok(LinkedCheckpoint { parsed, snapshot: None });
        };
        let snapshot: SnapshotMembers =
            raw.to().map_err(|error| error_at(&SNAPSHOT, describe_part(&error)))?;
        let Some(entry) = self.runs.get_mut(snapshot.run) else {
            let message =
                format!("the session has {} entries in `runs`, not {}", self.runs.len(), snapshot.run + 1);
            return Err(error_at(&["metadata", RESERVED, "snapshot", "run"], message));
        };
        entry.is_linked = true;
        let totals = &mut entry.totals;
        if parsed.state.messages.len() > totals.messages.len() {
            totals.messages = parsed.state.messages.clone();
        }
        let reasoning = parsed.state.reasoning.iter().find(|all| all.len() > totals.reasoning.len());
        if let Some(reasoning) = reasoning {
            totals.reasoning = reasoning.clone();
        }
        Ok(LinkedCheckpoint { parsed, snapshot: Some(snapshot) })
    }

    /// Reads the records of all entries. Call it after [`Self::link`] was called for all checkpoints.
    ///
    /// # Errors
    /// The path below `runs` and the rule.
    pub(crate) fn read_entries(&mut self, interner: &mut Interner<'_>) -> Result<(), ParseError> {
        for (index, run) in self.runs.iter_mut().enumerate().filter(|(_, run)| run.is_linked) {
            let mut totals = std::mem::take(&mut run.totals);
            let json = std::mem::take(&mut run.json);
            let executions = json.executions.iter().enumerate().map(|(position, raw)| {
                read_execution(raw, &totals.messages).map(Arc::new).map_err(|message| {
                    let path = [PathSegment::Index(index), key("executions"), PathSegment::Index(position)];
                    ParseError::shape(path.into(), message)
                })
            });
            totals.executions = executions.collect::<Result<_, _>>()?;
            totals.usage = json.usage.into_iter().map(Arc::new).collect();
            let asides = json.asides.into_iter().map(|EphemeralMessage { at, message }| {
                Arc::new(EphemeralMessage { at, message: interner.share(Arc::unwrap_or_clone(message)) })
            });
            totals.ephemeral = asides.collect();
            run.history = Some(SharedHistory::new(totals));
        }
        Ok(())
    }

    /// Returns the checkpoint.
    ///
    /// # Errors
    /// The path in the checkpoint and the rule.
    pub(crate) fn checkpoint(&mut self, linked: LinkedCheckpoint) -> Result<Checkpoint, ParseError> {
        let LinkedCheckpoint { mut parsed, snapshot } = linked;
        if let Some(snapshot) = snapshot {
            return self.linked_checkpoint(parsed, &snapshot);
        }
        match parsed.run.take() {
            Some(raw) => parsed.into_resumable(&raw, |run| self.complete.snapshot_of_equal(run)),
            None => Ok(parsed.into_finished()),
        }
    }

    fn linked_checkpoint(
        &self,
        parsed: ParsedCheckpoint,
        snapshot: &SnapshotMembers,
    ) -> Result<Checkpoint, ParseError> {
        let at_state = ["metadata", RESERVED, "snapshot", "state"].map(key);
        let state = &parsed.state;
        let mut run = read_run_state(&snapshot.state).map_err(|error| within(error, &at_state))?;
        if run.step() != state.step {
            let message = format!("the step is {} and that of the state is {}", run.step(), state.step);
            return Err(within(error_at(&["step"], message), &at_state));
        }
        let entry = self.runs.get(snapshot.run);
        let Some((entry, history)) = entry.and_then(|entry| Some((entry, entry.history.as_ref()?))) else {
            return Ok(parsed.into_finished());
        };
        let reasoning = state.reasoning.clone().unwrap_or_default();
        let mark = Mark {
            messages: state.messages.len(),
            executions: snapshot.executions,
            usage: snapshot.usage,
            ephemeral: snapshot.asides,
            reasoning: reasoning.len(),
        };
        if !history.contains(mark) {
            return Err(error_at(&SNAPSHOT, "it has more records than its entry in `runs`"));
        }
        let shared = history.until(mark);
        let is_part = shared.messages.iter().zip(&state.messages).all(|(one, other)| Arc::ptr_eq(one, other));
        let (data, status) = (run.collected.data.take(), run.collected.status);
        run.collected = RunTotals { data, status, ..shared };
        run.metadata = Arc::clone(&state.metadata);
        if !is_part || run.collected.reasoning != reasoning {
            (run.collected.messages, run.collected.reasoning) = (state.messages.clone(), reasoning);
        }
        run.check().map_err(|error| within(error_at(&[], error.to_string()), &at_state))?;
        let snapshot = if is_part { RunSnapshot::at(&run, history) } else { RunSnapshot::new(&run) };
        Ok(parsed.with_snapshot(snapshot, &entry.before))
    }

    /// Shares the data of a run with the newest checkpoint, if they are of the same run.
    pub(crate) fn share(run: &mut RunState, newest: Option<&Arc<Checkpoint>>) {
        if let Some(CheckpointState::Resumable(snapshot, _)) = newest.map(|newest| &newest.state) {
            let (history, mark) = snapshot.shared();
            run.collected.share_with(&history.until(mark));
        }
    }
}

const SNAPSHOT: [&str; 3] = ["metadata", RESERVED, "snapshot"];

fn read_execution(raw: &RawJson, messages: &History) -> Result<ToolExecution, String> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Kind {
        tool_name: Option<RawJson>,
    }
    let text = |error: serde_json::Error| describe_part(&error);
    let Kind { tool_name } = raw.to().map_err(text)?;
    if tool_name.is_some() {
        return raw.to().map_err(text);
    }
    let reference: ExecutionReference = raw.to().map_err(text)?;
    let (message, call) = (reference.message, reference.call);
    let missing = || format!("no checkpoint of the run has a call {call} with a result in message {message}");
    reference.resolve(messages).ok_or_else(missing)
}
