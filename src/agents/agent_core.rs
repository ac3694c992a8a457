//! The native half of `turntree.Agent`: the agent and the application's functions.

use std::sync::{Arc, Mutex};

use crate::prelude::*;

use super::functions::Functions;
use crate::bridge::callbacks::Callbacks;
use crate::bridge::gc::garbage_collected;
use turntree_agents::Agent as CoreAgent;

/// The native half of ``turntree.Agent``. Any number of runs can run at the same time.
#[pyclass(frozen, weakref, module = "turntree._core")]
pub(crate) struct AgentCore {
    agent: CoreAgent,
    functions: Arc<Mutex<Functions>>,
    /// The model object, and the callbacks of the agent's configuration.
    callbacks: Callbacks,
}

garbage_collected!(AgentCore: functions, callbacks);

impl AgentCore {
    pub(super) fn from_parts(agent: CoreAgent, functions: Functions, callbacks: Callbacks) -> Self {
        Self { agent, functions: Arc::new(Mutex::new(functions)), callbacks }
    }

    /// Returns the application's functions. Lock them for a lookup only, never during a call.
    pub(crate) const fn functions(&self) -> &Arc<Mutex<Functions>> {
        &self.functions
    }

    /// Returns the agent.
    pub(crate) const fn agent(&self) -> &CoreAgent {
        &self.agent
    }
}
