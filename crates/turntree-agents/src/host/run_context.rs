//! Where a run starts: the application, the calling run, cancellation.

use std::fmt;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use crate::host::event_queue::EventQueue;
use crate::host::host::Host;
use crate::types::identity::{ParentIds, RunIdentity};
use crate::types::middleware_state::MiddlewareState;
use crate::types::parent_run::{DEFAULT_DEPTH, InheritedModel, ParentRun};
use turntree_core::json::RawObject;
use turntree_upp::middleware::MiddlewareStack;

/// Where a run is started from.
#[derive(Clone)]
pub struct RunContext {
    /// The application.
    pub host: Arc<dyn Host>,
    /// What whoever started the run lends to agents that have no model of their own.
    pub inherited_model: Option<InheritedModel>,
    /// Aborts the run when it fires: the run gives the turn it has.
    pub cancellation: Option<CancellationToken>,
    /// The run whose tool this one is.
    pub parent: Option<ParentIds>,
    /// The session it belongs to.
    pub session_id: Option<Arc<str>>,
    /// What middleware keeps with the session.
    pub middleware_state: Option<Arc<MiddlewareState>>,
    /// The middleware of this call, in the place of the model's; only for [`crate::Llm`].
    pub middleware: MiddlewareStack,
    /// What the application keeps with the run, at its start.
    pub metadata: Arc<RawObject>,
    /// The run inside of whose tool this one is started: it counts the depth.
    pub parent_run: Option<Arc<ParentRun>>,
    /// The id of the run, a UUIDv4; a fresh one when not given.
    pub turn_id: Option<Arc<str>>,
    /// Whether a listener hears the agents too that run as tools of this one (decision A60).
    pub sub_agent_events: bool,
    /// Who listens already: the listener of the agent whose tool this run is.
    pub events: Option<Arc<EventQueue>>,
}

impl RunContext {
    /// A run of its own.
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
        }
    }

    /// A run inside of a tool of another run: it has that one's model where it has none of its own, is stopped with it,
    /// and names it as its parent.
    pub fn inside(host: Arc<dyn Host>, parent_run: &Arc<ParentRun>) -> Self {
        let RunIdentity { agent_id, turn_id, session_id, .. } = &*parent_run.identity;
        Self {
            inherited_model: Some(parent_run.inherited_model.clone()),
            cancellation: Some(parent_run.cancellation.clone()),
            parent: Some(ParentIds { agent_id: Arc::clone(agent_id), turn_id: Arc::clone(turn_id) }),
            session_id: session_id.clone(),
            parent_run: Some(Arc::clone(parent_run)),
            ..Self::new(host)
        }
    }

    /// How many runs this one is inside of.
    pub(crate) fn depth(&self) -> u32 {
        self.parent_run.as_ref().map_or(0, |parent_run| parent_run.identity.depth + 1)
    }

    /// The depth of the max_depth run that is let in inside of this one; `own` is how many levels its agent allows.
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
