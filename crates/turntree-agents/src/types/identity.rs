//! Identifies agents and their runs.

use std::sync::Arc;

use turntree_core::json::{RawJson, RawObject};

/// Describes an agent to middleware and telemetry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentInfo {
    /// The agent's id.
    pub id: Arc<str>,
    /// The agent's name, if it has one.
    pub name: Option<Arc<str>>,
    /// True if the model returns structured output inside the member
    /// [`WRAPPED`](crate::types::structure::WRAPPED); see [`Structure::is_wrapped`](crate::types::Structure::is_wrapped).
    pub wraps_output: bool,
}

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
