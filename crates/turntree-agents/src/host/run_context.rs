//! What a run takes from where it is started: the application, its place in a tree of agents, a way to stop it.

use std::fmt;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use crate::driver::stream::EventQueue;
use crate::host::host::Host;
use crate::types::middleware_state::MiddlewareState;
use turntree_core::json::{RawJson, RawObject};
use turntree_upp::Model;
use turntree_upp::middleware::MiddlewareStack;

/// Who runs. UAP-1.0 §8.4.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RunIdentity {
    /// The agent.
    pub agent_id: Arc<str>,
    /// This run of it.
    pub turn_id: Arc<str>,
    /// The agent whose tool this run is.
    pub parent: Option<ParentIds>,
    /// The session it belongs to.
    pub session_id: Option<Arc<str>>,
    /// How many runs it is inside of; 0 for a run that no agent has started.
    pub depth: u32,
}

impl RunIdentity {
    /// Agent, run, and those that called them, in the words of UAP-1.0 §8.4: `agentId`, `turnId`, and `parentAgentId`,
    /// `parentTurnId` where there is a parent.
    pub fn tracking(&self) -> RawObject {
        let mut facts = RawObject::new();
        let mut tell = |key: &str, id: &str| facts.insert(key, RawJson::from_str_value(id));
        tell("agentId", &self.agent_id);
        tell("turnId", &self.turn_id);
        if let Some(parent) = &self.parent {
            tell("parentAgentId", &parent.agent_id);
            tell("parentTurnId", &parent.turn_id);
        }
        facts
    }
}

/// The run whose tool another run is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ParentIds {
    /// Its agent.
    pub agent_id: Arc<str>,
    /// The run.
    pub turn_id: Arc<str>,
}

/// What an agent without a model of its own runs with: that of the agent whose tool it is (UAP-1.0 §8.3).
#[derive(Debug, Clone)]
pub struct InheritedModel {
    /// The model, bound to its configuration.
    pub model: Arc<dyn Model>,
    /// The model's parameters; an agent with parameters of its own keeps those.
    pub params: Arc<RawObject>,
}

/// The run of an agent, as whatever runs inside one of its tools sees it. UAP-1.0 §8.3 and §8.4.
#[derive(Debug, Clone)]
pub struct ParentRun {
    /// Who runs.
    pub identity: Arc<RunIdentity>,
    /// What it lends to agents without a model.
    pub inheritance: InheritedModel,
    /// Fires when the run is aborted or dropped.
    pub cancellation: CancellationToken,
    /// The depth of the deepest run that is let in.
    pub deepest: u32,
}

/// How many agents may run inside one another where nothing else is said (decision A94).
pub const DEFAULT_DEPTH: u32 = 8;

/// The most that may be asked for: agents that are tools are polled inside one another, on one stack. Unoptimised, a
/// level takes some 75 KB of it.
pub const GREATEST_DEPTH: u32 = 16;

/// Where a run is started from.
#[derive(Clone)]
pub struct RunContext {
    /// The application.
    pub host: Arc<dyn Host>,
    /// What whoever started the run lends to agents that have no model of their own.
    pub inheritance: Option<InheritedModel>,
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
    pub enclosing: Option<Arc<ParentRun>>,
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
            inheritance: None,
            cancellation: None,
            parent: None,
            session_id: None,
            middleware_state: None,
            middleware: MiddlewareStack::default(),
            metadata: Arc::default(),
            enclosing: None,
            turn_id: None,
            sub_agent_events: false,
            events: None,
        }
    }

    /// A run inside of a tool of another run: it has that one's model where it has none of its own, is stopped with it,
    /// and names it as its parent.
    pub fn inside(host: Arc<dyn Host>, enclosing: &Arc<ParentRun>) -> Self {
        let RunIdentity { agent_id, turn_id, session_id, .. } = &*enclosing.identity;
        Self {
            inheritance: Some(enclosing.inheritance.clone()),
            cancellation: Some(enclosing.cancellation.clone()),
            parent: Some(ParentIds { agent_id: Arc::clone(agent_id), turn_id: Arc::clone(turn_id) }),
            session_id: session_id.clone(),
            enclosing: Some(Arc::clone(enclosing)),
            ..Self::new(host)
        }
    }

    /// How many runs this one is inside of.
    pub(crate) fn depth(&self) -> u32 {
        self.enclosing.as_ref().map_or(0, |enclosing| enclosing.identity.depth + 1)
    }

    /// The depth of the deepest run that is let in inside of this one; `own` is how many levels its agent allows.
    pub(crate) fn deepest(&self, own: Option<u32>) -> u32 {
        let inherited = self.enclosing.as_ref().map(|enclosing| enclosing.deepest);
        let own = own.map(|levels| self.depth().saturating_add(levels));
        match (own, inherited) {
            (Some(own), Some(inherited)) => own.min(inherited),
            (Some(deepest), None) | (None, Some(deepest)) => deepest,
            (None, None) => self.depth().saturating_add(DEFAULT_DEPTH),
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
