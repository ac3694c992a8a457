//! Identifies agents and their runs.

use std::sync::Arc;

use turntree_core::json::{RawJson, RawObject};
use turntree_core::principal::Principal;

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

/// Identifies a run: agent, turn, parent, session. UAP-1.0 §8.4
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RunIdentity {
    /// The agent.
    pub agent_id: Arc<str>,
    /// The run.
    pub turn_id: Arc<str>,
    /// The run that called the agent as a tool.
    pub parent: Option<ParentIds>,
    /// The session of the run.
    pub session_id: Option<Arc<str>>,
    /// The number of runs that contain this one; 0 for a run that no agent started.
    pub depth: u32,
    /// Who asked a server for the run. Runs inside of it have the same.
    pub principal: Option<Principal>,
}

impl RunIdentity {
    /// The ids of the run and of its parent under the names of UAP-1.0 §8.4: `agentId`, `turnId`, and `parentAgentId`,
    /// `parentTurnId` if there is a parent.
    pub fn tracking(&self) -> RawObject {
        let mut ids = RawObject::new();
        let mut insert = |key: &str, id: &str| ids.insert(key, RawJson::from_str_value(id));
        insert("agentId", &self.agent_id);
        insert("turnId", &self.turn_id);
        if let Some(parent) = &self.parent {
            insert("parentAgentId", &parent.agent_id);
            insert("parentTurnId", &parent.turn_id);
        }
        ids
    }
}

/// The ids of a parent run.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ParentIds {
    /// The agent.
    pub agent_id: Arc<str>,
    /// The run.
    pub turn_id: Arc<str>,
}
