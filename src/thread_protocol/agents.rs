//! The agents of a document as Python classes and dicts.

use crate::prelude::*;
use pyo3::exceptions::PyTypeError;
use pyo3::types::{PyDict, PyString};

use super::actions::timestamp_or_now;
use super::options::owned;
use crate::convert::text::text_of;
use crate::to_python::{ToPython, data_class};
use turntree_core::ids::{IdSource, RandomIds};
use turntree_core::json::Extra;
use turntree_thread_protocol::document::{self as core, AgentRegistry};

data_class! {
    /// One agent of a thread.
    ///
    /// Spec: ThreadProtocol 1.0.0, "Agent Configuration".
    AgentConfig as "AgentConfig" in "turntree.thread_protocol" over core::AgentConfig, inside ACTION {
        /// Id of the agent, the same as its key in the thread.
        agent_id,
        /// Identifier, unique in the thread, such as `fred_v1`.
        agent_identifier,
        /// Display name, such as `Fred`.
        agent_name,
        /// Time of creation.
        created_at,
        /// Reference to the full configuration.
        config_ref,
    }

    #[new]
    #[pyo3(signature = (
        agent_name, *, agent_id = None, agent_identifier = None, created_at = None, config_ref = None
    ))]
    fn new(
        agent_name: String,
        agent_id: Option<String>,
        agent_identifier: Option<String>,
        created_at: Option<&Bound<'_, PyAny>>,
        config_ref: Option<String>,
    ) -> PyResult<PyClassInitializer<Self>> {
        Ok(Self::holding(core::AgentConfig {
            agent_id: agent_id.unwrap_or_else(|| RandomIds.string()),
            agent_identifier: agent_identifier.unwrap_or_else(|| core::AgentConfig::identifier_of(&agent_name)),
            agent_name,
            created_at: timestamp_or_now(created_at, "created_at")?,
            config_ref,
            extra: Extra::new(),
        }))
    }
}

impl ToPython for AgentRegistry {
    fn to_python<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let dict = PyDict::new(py);
        for (key, agent) in self.iter() {
            dict.set_item(key, agent.to_python(py)?)?;
        }
        Ok(dict.into_any())
    }
}

/// Reads agents from a list, or from a dict by id.
pub(super) fn agents_from(value: &Bound<'_, PyAny>) -> PyResult<AgentRegistry> {
    let mut registry = AgentRegistry::default();
    if let Ok(dict) = value.cast::<PyDict>() {
        for (key, agent) in dict.iter() {
            if !key.is_instance_of::<PyString>() {
                return Err(PyTypeError::new_err("agents: the keys are ids, which are strings"));
            }
            let key: String = text_of(&key, "a key of agents")?;
            let agent = owned::<AgentConfig>(&agent, &format!("agents[\"{key}\"]"))?;
            registry.insert(key, agent);
        }
        return Ok(registry);
    }
    for agent in super::lists::list_of::<AgentConfig>(value, "agents")? {
        registry.add(agent);
    }
    Ok(registry)
}
