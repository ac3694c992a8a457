//! Sessions of sub-agents: one for each tool call, stored with the session of the calling run.
//!
//! While a sub-agent runs, its session is saved together with the calling session. When it has finished or was stopped,
//! its snapshot is stored under the id of the tool call. Resuming the calling run resumes a stopped sub-agent.
//!
//! Spec: decisions A73, A74.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::future::BoxFuture;

use crate::agent::Agent;
use crate::host::recorder::SubAgentSession;
use crate::host::run_context::RunContext;
use crate::session::checkpoint::SubAgentStates;
use crate::session::json::SessionSnapshot;
use crate::session::options::SessionOptions;
use crate::session::session::{Session, Shared};
use crate::session::state::RunningSubAgent;
use crate::sub_agent::{result_of, result_of_text};
use crate::types::event::SubAgentRun;
use turntree_core::json::{RawJson, RawObject};
use turntree_core::message::{Message, MessageKind};
use turntree_upp::UppError;

/// Members of the metadata of a sub-agent's session, beside those of its [`SubAgentRun`].
const MESSAGE: &str = "messageId";
const STATUS: &str = "status";

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
}

impl SubAgentCall {
    /// Opens the session of a call. Returns `None` if it cannot be created.
    pub(super) fn open(
        parent: &Arc<Shared>,
        agent: &Agent,
        run: &SubAgentRun,
        message: &Message,
    ) -> Option<Self> {
        let metadata = Arc::new(Mutex::new(metadata_of(run, message)));
        let options = SessionOptions {
            interval: parent.header.interval,
            metadata: Arc::clone(&metadata) as _,
            ids: Arc::clone(&parent.ids),
            clock: Arc::clone(&parent.clock),
            ..SessionOptions::default()
        };
        let is_of_call = |state: &SessionSnapshot| {
            has_metadata(state, MESSAGE, &message.id) && has_metadata(state, "toolCallId", &run.tool_call_id)
        };
        let mut state = parent.state();
        let earlier = state
            .sub_agents
            .take(is_of_call)
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
        let parent = Arc::clone(parent);
        Some(Self { parent, session, metadata, tool_call_id, resumption, status: "interrupted" })
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
    ) -> BoxFuture<'static, Result<RawJson, UppError>> {
        Box::pin(async move {
            let outcome = match &self.resumption {
                Resumption::None => self.session.run(task, context).await.map(|turn| result_of(&turn)),
                Resumption::Run => self.session.resume(context).await.map(|turn| result_of(&turn)),
                Resumption::Result(result) => Ok(result.clone()),
            };
            self.status = if outcome.is_ok() { "completed" } else { "failed" };
            Ok(outcome?)
        })
    }
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
        for checkpoint in snapshot.checkpoints.iter_mut().take(earlier) {
            if !checkpoint.sub_agent_states.is_empty() {
                Arc::make_mut(checkpoint).sub_agent_states = SubAgentStates::default();
            }
        }
        Some(Arc::new(snapshot))
    }
}

fn lock(metadata: &Mutex<RawObject>) -> MutexGuard<'_, RawObject> {
    metadata.lock().unwrap_or_else(PoisonError::into_inner)
}

fn metadata_of(run: &SubAgentRun, message: &Message) -> RawObject {
    let known = RawJson::from_value(run).ok();
    let mut metadata = known.as_ref().and_then(RawObject::from_raw).unwrap_or_default();
    metadata.insert(MESSAGE, RawJson::from_str_value(&message.id));
    metadata.insert(STATUS, RawJson::from_str_value("running"));
    metadata
}

fn has_metadata(state: &SessionSnapshot, key: &str, text: &str) -> bool {
    state.metadata.get(key).and_then(RawJson::as_string).as_deref() == Some(text)
}

/// Returns how to continue from a snapshot, or `None` if the call must start from the beginning.
fn resumption_of(state: &SessionSnapshot, agent: &Agent) -> Option<Resumption> {
    match &state.unfinished {
        Some(unfinished) if unfinished.run.is_some() => Some(Resumption::Run),
        _ => {
            let history = state.tree.history();
            let last = history.last().filter(|message| message.kind() == MessageKind::Assistant)?;
            (!last.has_tool_calls()).then(|| result_of_text(agent, &last.text()))?.map(Resumption::Result)
        }
    }
}
