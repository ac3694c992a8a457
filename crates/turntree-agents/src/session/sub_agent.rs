//! The session of a sub-agent: one a call, kept with the session of the run that makes the call. Decisions A73, A74.
//!
//! While the sub-agent runs, its session is written with the other one; when it has ended, or was stopped, what it came
//! to is kept by the tool call. A call that was stopped goes on from there when the run is resumed.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::agent::Agent;
use crate::host::run_context::RunContext;
use crate::session::checkpoint::SubAgentStates;
use crate::session::json::SessionSnapshot;
use crate::session::session::{Session, SessionOptions, Shared};
use crate::session::state::Book;
use crate::sub_agent::{result_of, result_of_text};
use crate::types::event::SubAgentRun;
use turntree_core::json::{RawJson, RawObject};
use turntree_core::message::{Message, MessageKind};
use turntree_upp::UppError;

/// Members of the metadata of a sub-agent's session beside those of its [`SubAgentRun`].
const MESSAGE: &str = "messageId";
const STATUS: &str = "status";

/// The session of one call, as it runs. Dropping it keeps what there is.
pub(crate) struct Child {
    parent: Arc<Shared>,
    session: Session,
    facts: Arc<Mutex<RawObject>>,
    call: Arc<str>,
    left: Left,
    status: &'static str,
}

/// What an interrupted run of the same call has left.
enum Left {
    Nothing,
    /// A run to go on with.
    Run,
    /// Its answer, which was on its way to the model.
    Answer(RawJson),
}

impl Child {
    /// Opens the session of a call. `None` where it cannot be made.
    pub(super) fn open(
        parent: &Arc<Shared>,
        agent: &Agent,
        run: &SubAgentRun,
        message: &Message,
    ) -> Option<Self> {
        let facts = Arc::new(Mutex::new(facts(run, message)));
        let options = SessionOptions {
            interval: parent.interval,
            metadata: Arc::clone(&facts) as _,
            ids: Arc::clone(&parent.ids),
            clock: Arc::clone(&parent.clock),
            ..SessionOptions::default()
        };
        let is_of_call = |state: &SessionSnapshot| {
            is(state, MESSAGE, &message.id) && is(state, "toolCallId", &run.tool_call_id)
        };
        let mut book = parent.book();
        let before = book.sub_agents.take(is_of_call).and_then(|state| Some((left(&state, agent)?, state)));
        let (left, session) = match before {
            Some((left, state)) => {
                (left, Session::from_snapshot(SessionSnapshot::clone(&state), agent.clone(), options))
            }
            None => (Left::Nothing, Session::new(agent.clone(), options).ok()?),
        };
        let call = Arc::clone(&run.tool_call_id);
        book.children.push((Arc::clone(&call), session.clone()));
        drop(book);
        Some(Self { parent: Arc::clone(parent), session, facts, call, left, status: "interrupted" })
    }

    /// The metadata that the run starts with: those of the run that it goes on with.
    pub(crate) fn metadata_of_run(&self) -> Arc<RawObject> {
        let state = self.session.unfinished().and_then(|unfinished| unfinished.state());
        state.map(|state| state.metadata).unwrap_or_default()
    }

    /// Runs the sub-agent, or goes on with its run.
    ///
    /// # Errors
    /// Those of the run.
    ///
    /// # Cancel safety
    /// As [`Session::run`]: what there is can be taken up again.
    pub(crate) async fn answer(mut self, task: String, context: RunContext) -> Result<RawJson, UppError> {
        let outcome = match &self.left {
            Left::Nothing => self.session.run(task, context).await.map(|turn| result_of(&turn)),
            Left::Run => self.session.resume(context).await.map(|turn| result_of(&turn)),
            Left::Answer(answer) => Ok(answer.clone()),
        };
        self.status = if outcome.is_ok() { "completed" } else { "failed" };
        Ok(outcome?)
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        lock(&self.facts).insert(STATUS, RawJson::from_str_value(self.status));
        let mut book = self.parent.book();
        book.children.retain(|(_, session)| session.id() != self.session.id());
        if let Some(state) = state_of(&self.session) {
            book.sub_agents.keep(&self.call, state);
        }
    }
}

/// The session of a sub-agent as another session holds it.
///
/// Only its last checkpoint holds its own sub-agents: all that it has called stand there, or with the run that is not
/// finished. Were they in each, every level would multiply what is written by its steps.
fn state_of(session: &Session) -> Option<Arc<SessionSnapshot>> {
    // Its metadata are ours, so they have JSON.
    let mut state = session.snapshot().ok()?;
    let before = state.checkpoints.len().saturating_sub(1);
    for checkpoint in state.checkpoints.iter_mut().take(before) {
        if !checkpoint.sub_agent_states.is_empty() {
            Arc::make_mut(checkpoint).sub_agent_states = SubAgentStates::default();
        }
    }
    Some(Arc::new(state))
}

impl Book {
    /// The sub-agents of the run that is under way or not finished: those that have ended, and those that run.
    pub(super) fn all_sub_agents(&self) -> SubAgentStates {
        let mut states = self.sub_agents.clone();
        for (call, session) in &self.children {
            if let Some(state) = state_of(session) {
                states.keep(call, state);
            }
        }
        states
    }
}

fn lock(facts: &Mutex<RawObject>) -> MutexGuard<'_, RawObject> {
    facts.lock().unwrap_or_else(PoisonError::into_inner)
}

fn facts(run: &SubAgentRun, message: &Message) -> RawObject {
    let known = RawJson::from_value(run).ok();
    let mut facts = known.as_ref().and_then(RawObject::from_raw).unwrap_or_default();
    facts.insert(MESSAGE, RawJson::from_str_value(&message.id));
    facts.insert(STATUS, RawJson::from_str_value("running"));
    facts
}

fn is(state: &SessionSnapshot, key: &str, text: &str) -> bool {
    state.metadata.get(key).and_then(RawJson::as_string).as_deref() == Some(text)
}

/// What a session has left; nothing where the call has to be made anew.
fn left(state: &SessionSnapshot, agent: &Agent) -> Option<Left> {
    match &state.unfinished {
        Some(unfinished) if unfinished.run.is_some() => Some(Left::Run),
        _ => {
            let history = state.tree.history();
            let last = history.last().filter(|message| message.kind() == MessageKind::Assistant)?;
            (!last.has_tool_calls()).then(|| result_of_text(agent, &last.text()))?.map(Left::Answer)
        }
    }
}
