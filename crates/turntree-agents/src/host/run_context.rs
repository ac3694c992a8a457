//! Where a run starts: the application, the calling run, cancellation.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::host::event_queue::EventQueue;
use crate::host::host::Host;
use crate::host::strategy::StrategyRunsHandle;
use crate::types::identity::{ParentIds, RunIdentity};
use crate::types::limits::UsageMeter;
use crate::types::middleware_state::MiddlewareState;
use crate::types::parent_run::{DEFAULT_DEPTH, InheritedModel, ParentRun};
use turntree_core::json::RawObject;
use turntree_core::message::message::History;
use turntree_core::principal::Principal;
use turntree_upp::Model;
use turntree_upp::middleware::MiddlewareStack;

/// What one run has instead of the agent's own.
#[derive(Debug, Clone, Default)]
pub struct RunOverrides {
    /// The model. Agents without a model that the run calls use it too.
    pub model: Option<Arc<dyn Model>>,
    /// Parameters of the model. They are added to those of the agent; those of the run take precedence.
    pub params: Option<Arc<RawObject>>,
    /// The maximum duration of the run. It then fails with [`turntree_upp::ErrorCode::Timeout`].
    pub timeout: Option<Duration>,
}

/// Where a run starts.
#[derive(Clone)]
pub struct RunContext {
    /// The application.
    pub host: Arc<dyn Host>,
    /// The caller's model, for agents without one.
    pub inherited_model: Option<InheritedModel>,
    /// Aborts the run when it is cancelled: the run returns the turn that it has.
    pub cancellation: Option<CancellationToken>,
    /// The run that calls the agent as a tool.
    pub parent: Option<ParentIds>,
    /// The session of the run.
    pub session_id: Option<Arc<str>>,
    /// The values that middleware stores with the session.
    pub middleware_state: Option<Arc<MiddlewareState>>,
    /// Middleware for this call; replaces the middleware of the model. Only for [`crate::Llm`].
    pub middleware: MiddlewareStack,
    /// The metadata of the run at its start.
    pub metadata: Arc<RawObject>,
    /// The run that contains this one; determines its depth.
    pub parent_run: Option<Arc<ParentRun>>,
    /// The id of the run, a UUIDv4. Default: a new id.
    pub turn_id: Option<Arc<str>>,
    /// True if the stream contains the events of sub-agents (decision A60).
    pub sub_agent_events: bool,
    /// The queue of the calling run, for the events of this one.
    pub events: Option<Arc<EventQueue>>,
    /// What the run has instead of the agent's own.
    pub overrides: Option<Box<RunOverrides>>,
    /// Counts the usage of the run and of the runs inside it, if it has limits.
    pub meter: Option<Arc<UsageMeter>>,
    /// Who asked a server for the run.
    pub principal: Option<Principal>,
    /// The runs of the strategy that starts this run, if that strategy executes a run of a session.
    pub strategy_runs: Option<StrategyRunsHandle>,
    /// Messages before those of the session.
    pub preceding: History,
    /// The handoff by which the agent has the conversation, and the host of the agent that has it among its tools.
    pub handed_by: Option<(Arc<dyn Host>, usize)>,
    /// True if the responses carry the name of the agent: another agent has handed the conversation to it.
    pub names_agent: bool,
}

impl RunContext {
    /// A run that no other run contains.
    pub fn new(host: Arc<dyn Host>) -> Self {
        Self {
            host,
            inherited_model: None,
            cancellation: None,
            parent: None,
            session_id: None,
            middleware_state: None,
            middleware: MiddlewareStack::default(),
            metadata: Arc::default(),
            parent_run: None,
            turn_id: None,
            sub_agent_events: false,
            events: None,
            overrides: None,
            meter: None,
            principal: None,
            strategy_runs: None,
            preceding: History::new(),
            handed_by: None,
            names_agent: false,
        }
    }

    /// A run inside a tool of another run: it inherits the model and is cancelled with the parent run.
    pub fn inside(host: Arc<dyn Host>, parent_run: &Arc<ParentRun>) -> Self {
        let RunIdentity { agent_id, turn_id, session_id, principal, .. } = &*parent_run.identity;
        Self {
            inherited_model: Some(parent_run.inherited_model.clone()),
            cancellation: Some(parent_run.cancellation.clone()),
            parent: Some(ParentIds { agent_id: Arc::clone(agent_id), turn_id: Arc::clone(turn_id) }),
            session_id: session_id.clone(),
            meter: parent_run.meter.clone(),
            principal: principal.clone(),
            parent_run: Some(Arc::clone(parent_run)),
            ..Self::new(host)
        }
    }

    /// The number of runs that contain this one.
    pub(crate) fn depth(&self) -> u32 {
        self.parent_run.as_ref().map_or(0, |parent_run| parent_run.identity.depth + 1)
    }

    /// The depth of the deepest run allowed inside this one. `own`: how many levels the agent allows.
    pub(crate) fn max_depth(&self, own: Option<u32>) -> u32 {
        let inherited = self.parent_run.as_ref().map(|parent_run| parent_run.max_depth);
        let own = own.map(|levels| self.depth().saturating_add(levels));
        match (own, inherited) {
            (Some(own), Some(inherited)) => own.min(inherited),
            (Some(max_depth), None) | (None, Some(max_depth)) => max_depth,
            (None, None) => self.depth().saturating_add(DEFAULT_DEPTH),
        }
    }
}

impl fmt::Debug for RunContext {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("RunContext")
            .field("inherited_model", &self.inherited_model)
            .field("parent", &self.parent)
            .field("session_id", &self.session_id)
            .field("metadata", &self.metadata)
            .finish_non_exhaustive()
    }
}
