//! The state of a run as hooks and stop conditions receive it.
//!
//! Spec: UAP-1.0 §5.1, §13.4

use std::sync::Arc;

use imbl::Vector;
use serde::{Deserialize, Serialize};

use crate::types::plan_step::PlanStep;
use turntree_core::json::object::Field;
use turntree_core::json::schema::{Definitions, JsonSchema};
use turntree_core::json::{Extra, RawObject, json_object};
use turntree_core::message::Message;
use turntree_core::message::message::History;

json_object! {
    /// [`ExecutionState`] as JSON.
    #[derive(Debug, Clone)]
    struct ExecutionStateJson {
        /// See [`ExecutionState::step`].
        pub step: u32 = "step",
        /// See [`ExecutionState::messages`].
        pub messages: Vec<Arc<Message>> = "messages",
        /// See [`ExecutionState::metadata`].
        pub metadata: RawObject = "metadata", default,
        /// See [`ExecutionState::reasoning`].
        pub reasoning: Option<Vec<String>> = "reasoning",
        /// See [`ExecutionState::plan`].
        pub plan: Option<Vec<PlanStep>> = "plan",
    }
}

/// The state of a run as hooks and stop conditions receive it.
///
/// Spec: UAP-1.0 §5.1, §13.4
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ExecutionState {
    /// The number of the current step, from 1.
    pub step: u32,
    /// The input, then all new messages, in order.
    pub messages: History,
    /// The application's metadata of the run.
    pub metadata: Arc<RawObject>,
    /// The reasoning of the model, one text for each step; `None` if the strategy has no reasoning phase.
    pub reasoning: Option<Vector<String>>,
    /// The plan, if the strategy makes one.
    pub plan: Option<Vector<PlanStep>>,
    /// Members that this version does not know.
    pub extra: Extra,
}

impl Serialize for ExecutionState {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeMap as _;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("step", &self.step)?;
        map.serialize_entry("messages", &self.messages.iter().collect::<Vec<_>>())?;
        map.serialize_entry("metadata", &self.metadata)?;
        if let Some(reasoning) = &self.reasoning {
            map.serialize_entry("reasoning", &reasoning.iter().collect::<Vec<_>>())?;
        }
        if let Some(plan) = &self.plan {
            map.serialize_entry("plan", &plan.iter().collect::<Vec<_>>())?;
        }
        self.extra.serialize_into(&mut map)?;
        map.end()
    }
}

impl<'de> Deserialize<'de> for ExecutionState {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let json = ExecutionStateJson::deserialize(deserializer)?;
        Ok(Self {
            step: json.step,
            messages: json.messages.into(),
            metadata: Arc::new(json.metadata),
            reasoning: json.reasoning.map(Into::into),
            plan: json.plan.map(Into::into),
            extra: json.extra,
        })
    }
}

impl Field for ExecutionState {}

impl JsonSchema for ExecutionState {
    fn schema(definitions: &mut Definitions) -> serde_json::Value {
        ExecutionStateJson::schema(definitions)
    }
}
