//! What a run takes from where it is started: the application, its place in a tree of agents, a way to stop it.

use std::fmt;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::host::Host;
use crate::agents::session::Ledger;
use crate::core::json::RawObject;
use crate::upp::Model;
use crate::upp::middleware::Chain;

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

/// What an agent without a model of its own runs with: that of the agent whose tool it is (UAP-1.0 §8.3).
#[derive(Debug, Clone)]
pub struct Inheritance {
    /// The model, bound to its configuration.
    pub model: Arc<dyn Model>,
    /// The model's parameters; an agent with parameters of its own keeps those.
    pub params: Arc<RawObject>,
}

/// Where a run is started from.
#[derive(Clone)]
pub struct RunContext {
    /// The application.
    pub host: Arc<dyn Host>,
    /// What whoever started the run lends to agents that have no model of their own.
    pub inheritance: Option<Inheritance>,
    /// Aborts the run when it fires: the run gives the turn it has.
    pub cancellation: Option<CancellationToken>,
    /// The run whose tool this one is.
    pub parent: Option<Parent>,
    /// The session it belongs to.
    pub session_id: Option<Arc<str>>,
    /// What middleware keeps with the session.
    pub ledger: Option<Arc<Ledger>>,
    /// The middleware of this call, in the place of the model's; only for [`crate::agents::Llm`].
    pub middleware: Chain,
    /// What the application keeps with the run, at its start.
    pub metadata: Arc<RawObject>,
}

impl RunContext {
    /// A run of its own.
    pub fn new(host: Arc<dyn Host>) -> Self {
        Self {
            host,
            inheritance: None,
            cancellation: None,
            parent: None,
            session_id: None,
            ledger: None,
            middleware: Chain::default(),
            metadata: Arc::default(),
        }
    }
}

impl fmt::Debug for RunContext {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("RunContext")
            .field("inheritance", &self.inheritance)
            .field("parent", &self.parent)
            .field("session_id", &self.session_id)
            .field("metadata", &self.metadata)
            .finish_non_exhaustive()
    }
}
