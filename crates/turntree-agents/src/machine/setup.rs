//! The inputs of a run that do not change while it runs.

use std::sync::Arc;

use crate::types::structure::Structure;
use turntree_core::json::{RawJson, RawObject};
use turntree_core::message::ToolDefinition;
use turntree_core::message::message::History;
use turntree_upp::System;

/// What a run is started with and what does not change.
#[derive(Debug, Clone, Default)]
pub struct Setup {
    /// What was said before.
    pub history: History,
    /// The system prompt.
    pub system: Option<Arc<System>>,
    /// The model's own parameters.
    pub params: Arc<RawObject>,
    /// The tools the model may call.
    pub tools: Arc<[ToolDefinition]>,
    /// JSON Schema of the structured answer, when one is wanted.
    pub structure: Option<Arc<RawJson>>,
    /// JSON Schema of the plan, where the strategy makes one.
    pub plan_schema: Option<Arc<RawJson>>,
    /// What a plan is held to beside the rules for all plans.
    pub plan_rules: Option<Arc<Structure>>,
    /// Whether the answer stands in the member [`WRAPPED`](crate::types::structure::WRAPPED) of what the model gives.
    pub is_wrapped: bool,
    /// Whether the model is asked once more when its answer does not fit.
    pub structure_repair: bool,
    /// Whose model runs; in errors.
    pub provider: Arc<str>,
}
