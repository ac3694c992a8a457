//! Sessions of sub-agents: one for each tool call, stored with the session of the calling run.
//!
//! While a sub-agent runs, its session is part of the calling session. With [`SaveInterval::Tool`] each save of the
//! sub-agent's run saves the calling session: none of its tools starts before the store knows of the call. When it has finished or was stopped,
//! its snapshot is stored under the id of the tool call. Resuming the calling run resumes a stopped sub-agent.
//!
//! Spec: decisions A73, A74.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};

use crate::agent::Agent;
use crate::driver::strategy_runs::{AGENT_NAME, STRATEGY};
use crate::host::recorder::{ChildTask, ChildTurn, SubAgentFailure, SubAgentSession};
use crate::host::run_context::RunContext;
use crate::host::tool::names_of;
use crate::session::checkpoint::SubAgentStates;
use crate::session::error::SessionError;
use crate::session::json::SessionSnapshot;
use crate::session::options::{CheckpointInterval, SaveInterval, SessionOptions};
use crate::session::session::{Session, Shared};
use crate::session::state::RunningSubAgent;
use crate::sub_agent::{result_of, result_of_text};
use crate::types::approval::approval_required;
use crate::types::event::SubAgentRun;
use turntree_core::json::{RawJson, RawObject};
use turntree_core::message::{Message, MessageKind, TokenUsage, ToolExecution, Turn};
use turntree_upp::UppError;

/// Members of the metadata of a sub-agent's session, beside those of its [`SubAgentRun`].
const MESSAGE: &str = "messageId";
const STATUS: &str = "status";
/// The turn of a run that a strategy has started, without its messages.
const TURN: &str = "turn";
/// The names of the agent's idempotent tools: after a crash, the calling session may not know the agent.
const IDEMPOTENT_TOOLS: &str = "idempotentTools";
/// The names of the agent's tools whose calls need approval.
const GUARDED_TOOLS: &str = "guardedTools";

/// The session of one call of a sub-agent while it runs. Dropping it stores the session's snapshot.
pub(crate) struct SubAgentCall {
    parent: Arc<Shared>,
    session: Session,
    metadata: Arc<Mutex<RawObject>>,
    tool_call_id: Arc<str>,
    resumption: Resumption,
    status: &'static str,
}

/// How to continue an earlier, interrupted execution of the same call.
enum Resumption {
    /// There was none: run the sub-agent.
    None,
    /// Resume its unfinished run.
    Run,
    /// Return its result, which did not reach the model.
    Result(RawJson),
    /// Return its turn. The messages are in the tree; this is the rest.
    Turn(RawJson),
}

impl SubAgentCall {
    /// Opens the session of a call in a run of `caller`. Returns `None` if it cannot be created.
    pub(super) fn open(
        caller: &Session,
        agent: &Agent,
        run: &SubAgentRun,
        message: &Message,
    ) -> Option<Self> {
        let parent = &caller.shared;
        let metadata = Arc::new(Mutex::new(metadata_of(run, message, agent)));
        // A strategy that is resumed needs the turns of its runs, and no checkpoints inside them.
        let is_of_strategy = run.extra.get(STRATEGY).is_some();
        let interval = if is_of_strategy { CheckpointInterval::Off } else { parent.header.interval };
        let options = SessionOptions {
            interval,
            metadata: Arc::clone(&metadata) as _,
            ids: Arc::clone(&parent.ids),
            clock: Arc::clone(&parent.clock),
            ..SessionOptions::default()
        };
        let mut state = parent.state();
        let earlier = state
            .sub_agents
            .take(|state| is_of_call(state, &message.id, &run.tool_call_id) && is_of_agent(state, run))
            .and_then(|snapshot| Some((resumption_of(&snapshot, agent)?, snapshot)));
        let (resumption, session) = match earlier {
            Some((resumption, snapshot)) => {
                let snapshot = SessionSnapshot::clone(&snapshot);
                (resumption, Session::from_snapshot(snapshot, agent.clone(), options))
            }
            None => (Resumption::None, Session::new(agent.clone(), options).ok()?),
        };
        let tool_call_id = Arc::clone(&run.tool_call_id);
        state.running_sub_agents.push((Arc::clone(&tool_call_id), Arc::new(session.clone())));
        drop(state);
        let (parent, session) = (Arc::clone(parent), session.saved_with(caller));
        Some(Self { parent, session, metadata, tool_call_id, resumption, status: "interrupted" })
    }
}

impl Session {
    /// Returns a handle that is saved by saving the session of the calling run.
    fn saved_with(self, caller: &Self) -> Self {
        // The calling run is not saved between its own steps with the other intervals.
        let save_interval = match caller.save_interval {
            SaveInterval::Tool => SaveInterval::Tool,
            SaveInterval::Step | SaveInterval::Turn => SaveInterval::Turn,
        };
        Self { save_interval, caller: Some(Arc::new(caller.clone())), ..self }
    }
}

impl SubAgentSession for SubAgentCall {
    fn run_metadata(&self) -> Arc<RawObject> {
        let state = self.session.unfinished().and_then(|unfinished| unfinished.state());
        state.map(|state| state.metadata).unwrap_or_default()
    }

    fn run(
        mut self: Box<Self>,
        task: String,
        context: RunContext,
    ) -> BoxFuture<'static, Result<RawJson, SubAgentFailure>> {
        Box::pin(async move {
            let outcome = match &self.resumption {
                Resumption::None => self.session.run(task, context).await.map(|turn| result_of(&turn)),
                Resumption::Run => self.session.resume(context).await.map(|turn| result_of(&turn)),
                Resumption::Result(result) => Ok(result.clone()),
                Resumption::Turn(_) => self.stored_turn().map(|turn| Ok(result_of(&turn)))?,
            };
            self.settle(outcome)
        })
    }

    fn run_turn(
        mut self: Box<Self>,
        task: ChildTask,
    ) -> BoxFuture<'static, Result<ChildTurn, SubAgentFailure>> {
        Box::pin(async move {
            let ChildTask { history, input, context } = task;
            let context = RunContext { preceding: history, ..context };
            let (outcome, is_stored) = match &self.resumption {
                Resumption::None => (self.session.run(input, context).await, false),
                Resumption::Run => (self.session.resume(context).await, false),
                Resumption::Result(_) | Resumption::Turn(_) => (Ok(self.stored_turn()?), true),
            };
            let turn = self.settle(outcome)?;
            lock(&self.metadata).insert(TURN, rest_of(&turn));
            Ok(ChildTurn { turn, is_stored })
        })
    }
}

impl SubAgentCall {
    /// Sets the status of the session by the outcome of its run.
    fn settle<T>(&mut self, outcome: Result<T, SessionError>) -> Result<T, SubAgentFailure> {
        let ends_caller = outcome.as_ref().is_err_and(SessionError::ends_callers);
        let outcome = outcome.map_err(|error| {
            let error = error.into();
            let waits_for = approval_required(&error).map(|required| required.calls.clone());
            SubAgentFailure { error, ends_caller, waits_for: waits_for.unwrap_or_default() }
        });
        self.status = match &outcome {
            Ok(_) => "completed",
            Err(failed) if failed.ends_caller || !failed.waits_for.is_empty() => "interrupted",
            Err(_) => "failed",
        };
        outcome
    }

    /// The turn of the run that has ended.
    fn stored_turn(&self) -> Result<Arc<Turn>, SubAgentFailure> {
        let rest = match &self.resumption {
            Resumption::Turn(rest) => rest.to().unwrap_or_default(),
            _ => TurnRest::default(),
        };
        let messages = self.session.tree().snapshot().history().iter().cloned().collect();
        let TurnRest { tool_executions, usage, cycles, data } = rest;
        let turn = Turn::new(messages, tool_executions, usage, cycles, data).map_err(|error| {
            let error = UppError::invalid_request("", error.to_string());
            SubAgentFailure { error, ends_caller: false, waits_for: Vec::new() }
        });
        turn.map(Arc::new)
    }
}

/// A turn without its messages.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct TurnRest {
    tool_executions: Vec<ToolExecution>,
    usage: TokenUsage,
    cycles: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<RawJson>,
}

/// The turn without its messages, as JSON.
fn rest_of(turn: &Turn) -> RawJson {
    let Turn { tool_executions, usage, cycles, data, .. } = turn.clone();
    RawJson::from_value(&TurnRest { tool_executions, usage, cycles, data }).unwrap_or_default()
}

impl Drop for SubAgentCall {
    fn drop(&mut self) {
        lock(&self.metadata).insert(STATUS, RawJson::from_str_value(self.status));
        let mut state = self.parent.state();
        state.running_sub_agents.retain(|(_, session)| session.session_id() != self.session.id());
        if let Some(snapshot) = RunningSubAgent::snapshot(&self.session) {
            state.sub_agents.insert(&self.tool_call_id, snapshot);
        }
    }
}

impl RunningSubAgent for Session {
    fn session_id(&self) -> &Arc<str> {
        self.id()
    }

    /// Only the last checkpoint contains the sub-agent's own sub-agents: it has all of them, except those of the
    /// unfinished run. If each checkpoint contained them, the size of the JSON would grow by a factor of its steps with
    /// every level.
    fn snapshot(&self) -> Option<Arc<SessionSnapshot>> {
        // Only turntree writes this metadata, so it has a JSON form.
        let mut snapshot = Self::snapshot(self).ok()?;
        let earlier = snapshot.checkpoints.len().saturating_sub(1);
        let with_sub_agents = snapshot.checkpoints.iter().take(earlier).enumerate();
        let with_sub_agents =
            with_sub_agents.filter(|(_, checkpoint)| !checkpoint.sub_agent_states.is_empty());
        for index in with_sub_agents.map(|(index, _)| index).collect::<Vec<_>>() {
            if let Some(checkpoint) = snapshot.checkpoints.get_mut(index) {
                Arc::make_mut(checkpoint).sub_agent_states = SubAgentStates::default();
            }
        }
        Some(Arc::new(snapshot))
    }
}

fn lock(metadata: &Mutex<RawObject>) -> MutexGuard<'_, RawObject> {
    metadata.lock().unwrap_or_else(PoisonError::into_inner)
}

fn metadata_of(run: &SubAgentRun, message: &Message, agent: &Agent) -> RawObject {
    let known = RawJson::from_value(run).ok();
    let mut metadata = known.as_ref().and_then(RawObject::from_raw).unwrap_or_default();
    metadata.insert(MESSAGE, RawJson::from_str_value(&message.id));
    metadata.insert(STATUS, RawJson::from_str_value("running"));
    let idempotent = names_of(agent.tools(), |tool| tool.idempotent);
    let guarded = names_of(agent.tools(), |tool| tool.requires_approval);
    for (key, names) in [(IDEMPOTENT_TOOLS, idempotent), (GUARDED_TOOLS, guarded)] {
        if let (false, Ok(names)) = (names.is_empty(), RawJson::from_value(&names)) {
            metadata.insert(key, names);
        }
    }
    metadata
}

/// Returns true if the agent of the session had an idempotent tool of this name.
pub(super) fn has_idempotent_tool(state: &SessionSnapshot, name: &str) -> bool {
    has_tool(state, IDEMPOTENT_TOOLS, name)
}

/// Returns true if the agent of the session had a tool of this name whose calls start only when they are approved.
pub(super) fn has_guarded_tool(state: &SessionSnapshot, name: &str) -> bool {
    has_tool(state, GUARDED_TOOLS, name)
}

fn has_tool(state: &SessionSnapshot, kind: &str, name: &str) -> bool {
    let names = state.metadata.get(kind).and_then(|names| names.to::<Vec<String>>().ok());
    names.unwrap_or_default().iter().any(|known| known == name)
}

/// Returns true for the session of a call of the response `message`.
pub(super) fn is_of_call(state: &SessionSnapshot, message: &str, tool_call_id: &str) -> bool {
    is_of_message(state, message) && has_metadata(state, "toolCallId", tool_call_id)
}

/// Returns true for the session of a call of the response `message`, or of a run that a strategy has started for the
/// input `message`.
pub(super) fn is_of_message(state: &SessionSnapshot, message: &str) -> bool {
    has_metadata(state, MESSAGE, message)
}

/// Returns true unless a strategy has run another agent at this place.
fn is_of_agent(state: &SessionSnapshot, run: &SubAgentRun) -> bool {
    let name = run.extra.get(AGENT_NAME).and_then(RawJson::as_string);
    name.is_none_or(|name| has_metadata(state, AGENT_NAME, &name))
}

fn has_metadata(state: &SessionSnapshot, key: &str, text: &str) -> bool {
    state.metadata.get(key).and_then(RawJson::as_string).as_deref() == Some(text)
}

/// Returns how to continue from a snapshot, or `None` if the call must start from the beginning.
fn resumption_of(state: &SessionSnapshot, agent: &Agent) -> Option<Resumption> {
    match &state.unfinished {
        Some(unfinished) if unfinished.run.is_some() => Some(Resumption::Run),
        _ if state.metadata.get(TURN).is_some() => state.metadata.get(TURN).cloned().map(Resumption::Turn),
        _ => {
            let history = state.tree.history();
            let last = history.last().filter(|message| message.kind() == MessageKind::Assistant)?;
            (!last.has_tool_calls()).then(|| result_of_text(agent, &last.text()))?.map(Resumption::Result)
        }
    }
}
