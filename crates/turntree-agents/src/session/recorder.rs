//! Records the state of a session's run at every boundary: for resuming, as checkpoints, and to the store.

use std::any::Any;
use std::sync::Arc;

use futures_util::future::BoxFuture;

use crate::host::agent_tool::AgentTool;
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
use crate::types::event::SubAgentRun;
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
    history: Arc<SharedHistory>,
}

impl SessionRecorder {
    pub(super) fn new(session: Session, position: TreePosition, uncommitted: History) -> Self {
        Self { session, position, uncommitted, history: Arc::default() }
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
        let state = CheckpointState::Resumable(Box::new(self.history.snapshot(state)), Extra::new());
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
        Some(Box::new(SubAgentCall::open(&self.session.shared, agent, run, message)?))
    }

    fn record_failure(&self, state: &RunState) {
        self.session.shared.record(state);
    }

    fn save(&self, boundary: Boundary, state: &RunState) -> Option<BoxFuture<'_, Result<(), UppError>>> {
        let session = &self.session;
        session.persistence.as_ref()?;
        let is_approved = || state.last_execution().is_some_and(|last| last.approved == Some(true));
        let is_due = match session.save_interval {
            SaveInterval::Tool => true,
            SaveInterval::Step if boundary == Boundary::StepEnded => true,
            SaveInterval::Step | SaveInterval::Turn => boundary == Boundary::ToolFinished && is_approved(),
        };
        is_due.then(|| Box::pin(async move { Ok(session.save().await?) }) as _)
    }
}
