//! What a run takes from where it is started: the application, its place in a tree of agents, a way to stop it.

use std::fmt;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::host::Host;
use crate::core::json::RawObject;
use crate::upp::Model;

/// Who runs. UAP-1.0 §8.4.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Identity {
    /// The agent.
    pub agent_id: Arc<str>,
    /// This run of it.
    pub turn_id: Arc<str>,
    /// The agent whose tool this run is.
    pub parent: Option<Parent>,
    /// The session it belongs to.
    pub session_id: Option<Arc<str>>,
}

/// The run whose tool another run is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Parent {
    /// Its agent.
    pub agent_id: Arc<str>,
    /// The run.
    pub turn_id: Arc<str>,
}

/// Where a run is started from.
#[derive(Clone)]
pub struct RunContext {
    /// The application.
    pub host: Arc<dyn Host>,
    /// The model of whoever started the run, for agents that have none of their own.
    pub inherited_model: Option<Arc<dyn Model>>,
    /// Aborts the run when it fires: the run gives the turn it has.
    pub cancellation: Option<CancellationToken>,
    /// The run whose tool this one is.
    pub parent: Option<Parent>,
    /// The session it belongs to.
    pub session_id: Option<Arc<str>>,
    /// What the application keeps with the run, at its start.
    pub metadata: Arc<RawObject>,
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
            metadata: Arc::default(),
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
