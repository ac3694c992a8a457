//! What a strategy of the application stores of the parts that it runs: the sessions of the agents that are their tools.

use std::sync::Arc;

use futures_util::future::BoxFuture;

use crate::host::agent_tool::AgentTool;
use crate::host::event_queue::EventQueue;
use crate::host::recorder::{RunRecorder, SubAgentSession};
use crate::machine::state::RunState;
use crate::types::action::Boundary;
use crate::types::event::{AgentStreamEvent, SubAgentRun};
use turntree_core::message::Message;
use turntree_upp::UppError;

/// Opens the sessions of sub-agents in the session of the run, so that their calls can wait for approval. The state of a
/// part is stored by the run that it belongs to, when the run waits.
pub(super) struct PartRecorder(pub(super) Arc<dyn RunRecorder>);

impl RunRecorder for PartRecorder {
    fn record(&self, _boundary: Boundary, _state: &RunState) -> Option<String> {
        None
    }

    fn open_child(
        &self,
        agent: &dyn AgentTool,
        run: &SubAgentRun,
        message: &Message,
    ) -> Option<Box<dyn SubAgentSession>> {
        self.0.open_child(agent, run, message)
    }

    fn record_failure(&self, _state: &RunState) {}

    fn approved(&self, _state: &RunState) -> Option<BoxFuture<'_, Result<(), UppError>>> {
        None
    }

    fn save(&self, _boundary: Boundary, _state: &RunState) -> Option<BoxFuture<'_, Result<(), UppError>>> {
        None
    }

    fn send_when_saved(&self, _events: &Arc<EventQueue>, _event: AgentStreamEvent) {}
}
