//! Records the state of a session's run at every boundary: for resuming, as checkpoints, and to the store.

use std::any::Any;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::future::BoxFuture;

use crate::host::agent_tool::AgentTool;
use crate::host::event_queue::EventQueue;
use crate::host::recorder::{RunRecorder, SubAgentSession};
use crate::machine::state::RunState;
use crate::session::checkpoint::shared_history::SharedHistory;
use crate::session::checkpoint::{Checkpoint, CheckpointState, SubAgentStates};
use crate::session::options::{CheckpointInterval, SaveInterval};
use crate::session::session::{Session, Shared};
use crate::session::sub_agent::SubAgentCall;
use crate::sub_agent::SubAgent;
use crate::tree::position::TreePosition;
use crate::types::action::Boundary;
use crate::types::event::{AgentStreamEvent, SubAgentRun};
use turntree_core::json::{Extra, RawObject};
use turntree_core::message::Message;
use turntree_core::message::message::History;
use turntree_upp::UppError;

impl Shared {
    /// Records the state that the active run can be resumed from. Ignores the state of a run that is over.
    pub(super) fn record(&self, state: &RunState) {
        if state.is_over() {
            return;
        }
        if let Some(unfinished) = &mut self.state().unfinished {
            unfinished.run = Some(state.clone());
        }
    }

    /// Records that the run has ended in this process: its calls have ended too, or were cancelled.
    pub(super) fn record_end(&self, state: &RunState) {
        self.record(state);
        if let Some(unfinished) = &mut self.state().unfinished {
            unfinished.active = false;
        }
    }

    pub(super) fn checkpoint(
        &self,
        position: TreePosition,
        uncommitted: History,
        state: CheckpointState,
    ) -> Checkpoint {
        Checkpoint {
            id: self.ids.string().into(),
            session_id: Arc::clone(&self.header.id),
            timestamp: self.clock.now(),
            position,
            uncommitted,
            sub_agent_states: SubAgentStates::default(),
            metadata: RawObject::new(),
            extra: Extra::new(),
            reserved: RawObject::new(),
            state,
        }
    }
}

/// Records the state of one run in its session.
pub(super) struct SessionRecorder {
    session: Session,
    position: TreePosition,
    uncommitted: History,
    history: Mutex<Arc<SharedHistory>>,
    /// True if the store may have a state of the current step.
    is_step_stored: AtomicBool,
}

impl SessionRecorder {
    pub(super) fn new(
        session: Session,
        position: TreePosition,
        uncommitted: History,
        is_resumed: bool,
    ) -> Self {
        // A resumed run continues the history of its checkpoints.
        let current = session.current_checkpoint();
        let history = current.and_then(|checkpoint| checkpoint.shared_history()).unwrap_or_default();
        let is_step_stored = AtomicBool::new(is_resumed);
        Self { session, position, uncommitted, history: Mutex::new(history), is_step_stored }
    }
}

impl RunRecorder for SessionRecorder {
    fn record(&self, boundary: Boundary, state: &RunState) -> Option<String> {
        let shared = &self.session.shared;
        let mut session = shared.state();
        if let Some(unfinished) = &mut session.unfinished {
            unfinished.run = Some(state.clone());
        }
        let has_checkpoint = matches!(boundary, Boundary::StepEnded | Boundary::Planned);
        if !has_checkpoint || shared.header.interval != CheckpointInterval::Step {
            return None;
        }
        // The history is replaced as a whole, so a panic cannot leave it half written.
        let snapshot = self.history.lock().unwrap_or_else(PoisonError::into_inner).snapshot(state);
        let state = CheckpointState::Resumable(Box::new(snapshot), Extra::new());
        let checkpoint = Checkpoint {
            sub_agent_states: session.sub_agents.clone(),
            ..shared.checkpoint(self.position.clone(), self.uncommitted.clone(), state)
        };
        let id = checkpoint.id.to_string();
        session.add_checkpoint(checkpoint);
        Some(id)
    }

    fn open_child(
        &self,
        agent: &dyn AgentTool,
        run: &SubAgentRun,
        message: &Message,
    ) -> Option<Box<dyn SubAgentSession>> {
        let agent: &dyn Any = agent;
        let agent = agent.downcast_ref::<SubAgent>()?.agent();
        Some(Box::new(SubAgentCall::open(&self.session, agent, run, message)?))
    }

    fn record_failure(&self, state: &RunState) {
        self.session.shared.record(state);
    }

    fn approved(&self, state: &RunState) -> Option<BoxFuture<'_, Result<(), UppError>>> {
        self.session.shared.record(state);
        // If the store knows nothing of the round, a restarted process makes its calls again in any case.
        let is_due =
            self.session.save_interval == SaveInterval::Tool || self.is_step_stored.load(Ordering::Relaxed);
        (is_due && self.session.has_store())
            .then(|| Box::pin(async move { Ok(self.session.save().await?) }) as _)
    }

    fn save(&self, boundary: Boundary, state: &RunState) -> Option<BoxFuture<'_, Result<(), UppError>>> {
        let session = &self.session;
        let is_approved = || state.last_execution().is_some_and(|last| last.approved == Some(true));
        let is_due = match session.save_interval {
            SaveInterval::Tool => true,
            SaveInterval::Step if matches!(boundary, Boundary::StepEnded | Boundary::Planned) => true,
            SaveInterval::Step | SaveInterval::Turn => boundary == Boundary::ToolFinished && is_approved(),
        };
        if is_due || boundary == Boundary::StepEnded {
            self.is_step_stored.store(boundary != Boundary::StepEnded, Ordering::Relaxed);
        }
        (is_due && session.has_store()).then(|| Box::pin(async move { Ok(session.save().await?) }) as _)
    }

    fn send_when_saved(&self, events: &Arc<EventQueue>, event: AgentStreamEvent) {
        self.session.send_when_saved(events, event);
    }
}
