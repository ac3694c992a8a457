//! Sessions: where an agent is in a workflow, and what it has collected.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::definition::Workflow;
use crate::state::{State, WorkingState};

/// Whether a session goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SessionStatus {
    /// The session goes on.
    Active,
    /// The session has entered a stage that completes it. Its tasks can still be called.
    Completed,
    /// The session was ended. Clients no longer find it.
    Terminated,
}

impl SessionStatus {
    /// The name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Completed => "completed",
            Self::Terminated => "terminated",
        }
    }
}

/// A session. The engine never changes one: an outcome contains the session that follows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Session {
    /// The name of the workflow.
    pub workflow: String,
    /// The current stage.
    pub stage: String,
    /// Whether the session goes on.
    pub status: SessionStatus,
    /// The number of actions that have changed the session: it grows by one with each of them.
    pub version: u64,
    /// The state that all stages share.
    pub state: State,
    /// The stores of the stages, if the workflow has `state_management`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub stages: BTreeMap<Arc<str>, State>,
}

impl Session {
    /// A session in the initial stage, with nothing in its state.
    pub(crate) fn new(workflow: &Workflow) -> Self {
        Self {
            workflow: workflow.name().to_owned(),
            stage: workflow.initial_stage().to_owned(),
            status: SessionStatus::Active,
            version: 0,
            state: State::default(),
            stages: BTreeMap::new(),
        }
    }

    /// The state that tasks of the current stage read and write.
    pub fn working_state(&self, workflow: &Workflow) -> WorkingState {
        let own = self.stages.get(self.stage.as_str()).cloned().unwrap_or_default();
        WorkingState::new(self.state.clone(), workflow.has_stage_stores().then_some(own))
    }

    pub(super) fn store(&mut self, working: WorkingState) {
        let (state, own) = working.into_parts();
        self.state = state;
        if let Some(own) = own {
            self.stages.insert(self.stage.as_str().into(), own);
        }
    }

    /// The size of the state as JSON, in bytes.
    pub fn state_bytes(&self) -> usize {
        self.state.bytes() + self.stages.values().map(State::bytes).sum::<usize>()
    }

    /// What an agent may see of the state: no private keys, also not inside of objects.
    pub fn visible_state(&self, workflow: &Workflow) -> Map<String, Value> {
        let working = self.working_state(workflow);
        let own = working.current().iter();
        let shared = working.shared().iter();
        let mut visible: Map<String, Value> = shared
            .chain(own)
            .filter(|(key, _)| !workflow.is_private(key))
            .map(|(key, value)| (key.to_string(), (**value).clone()))
            .collect();
        for private in workflow.private_keys() {
            for (index, _) in private.match_indices('.') {
                let (head, tail) = private.split_at(index);
                if let (Some(value), Some(tail)) = (visible.get_mut(head), tail.get(1..)) {
                    remove_path(value, tail);
                }
            }
        }
        visible
    }
}

/// Removes every member that a read of the path could find.
fn remove_path(value: &mut Value, path: &str) {
    let mut waiting = vec![(value, path)];
    while let Some((value, path)) = waiting.pop() {
        let Some(object) = value.as_object_mut() else { continue };
        object.shift_remove(path);
        for (key, value) in object.iter_mut() {
            let rest = path.strip_prefix(key.as_str()).and_then(|rest| rest.strip_prefix('.'));
            waiting.extend(rest.map(|rest| (value, rest)));
        }
    }
}
