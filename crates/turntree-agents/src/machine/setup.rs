//! The inputs of a run that do not change while it runs.

use std::sync::Arc;

use crate::types::structure::Structure;
use turntree_core::json::{RawJson, RawObject};
use turntree_core::message::ToolDefinition;
use turntree_core::message::message::History;
use turntree_upp::System;

/// The inputs of a run that do not change.
#[derive(Debug, Clone, Default)]
pub struct Setup {
    /// The history.
    pub history: History,
    /// The system prompt.
    pub system: Option<Arc<System>>,
    /// The model's own parameters.
    pub params: Arc<RawObject>,
    /// The tools the model may call.
    pub tools: Arc<[ToolDefinition]>,
    /// JSON Schema of the structured output.
    pub structure: Option<Arc<RawJson>>,
    /// JSON Schema of the plan, if the strategy makes one.
    pub plan_schema: Option<Arc<RawJson>>,
    /// Rules for the plan, in addition to those of all plans.
    pub plan_rules: Option<Arc<Structure>>,
    /// True if the output is inside the member [`WRAPPED`](crate::types::structure::WRAPPED) of the model's response.
    pub is_wrapped: bool,
    /// True if the model is asked once to repair output that does not match the structure.
    pub structure_repair: bool,
    /// How often the model is asked again for output that was refused; `None` for the defaults.
    pub output_retries: Option<u32>,
    /// True if the output is validated also without a structure.
    pub validates_output: bool,
    /// The name that the responses carry, if the conversation can change between agents.
    pub agent: Option<Arc<str>>,
    /// The model's provider, for errors.
    pub provider: Arc<str>,
}
