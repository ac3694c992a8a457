//! The options of an agent.
//!
//! Spec: UAP-1.0 §4.2

use std::sync::Arc;

use crate::host::strategy::Strategy;
use crate::host::tool::Tool;
use crate::host::toolset::Toolset;
use crate::machine::strategies::loop_::LoopOptions;
use crate::middleware::stack::AgentMiddlewareStack;
use turntree_core::json::{RawJson, RawObject};
use turntree_upp::{Model, System};

/// Options of an agent. All have a default. A run needs a model: the agent's own or that of its caller.
#[derive(Debug, Clone, Default)]
pub struct AgentOptions {
    /// The model. Without one, the agent runs with the model of its caller (decision A1).
    pub model: Option<Arc<dyn Model>>,
    /// The model's own parameters, sent unchanged.
    pub params: Arc<RawObject>,
    /// The system prompt.
    pub system: Option<Arc<System>>,
    /// The tools.
    pub tools: Vec<Tool>,
    /// Tools that can change between the steps of a run.
    pub toolsets: Vec<Arc<dyn Toolset>>,
    /// JSON Schema of the structured output.
    pub structure: Option<Arc<RawJson>>,
    /// True if the model is asked once to repair output that does not match the structure.
    pub structure_repair: bool,
    /// How often the model is asked again for output that was refused. Default: once for output that the host's validators
    /// refuse; once for output that does not match the structure, with `structure_repair`.
    pub output_retries: Option<u32>,
    /// True if the host validates the output ([`Host::validate_output`](crate::host::Host::validate_output)).
    pub validates_output: bool,
    /// The strategy. Default: `loop`.
    pub strategy: Option<Strategy>,
    /// Middleware around each run.
    pub middleware: AgentMiddlewareStack,
    /// Limits of tool use (decision A3).
    pub tool_strategy: ToolUseStrategy,
    /// The id, a UUIDv4. Default: a new one.
    pub id: Option<Arc<str>>,
    /// The name.
    pub name: Option<Arc<str>>,
    /// Maximum nesting depth of agents below this one. Default: the rest of the caller's limit, or
    /// [`DEFAULT_DEPTH`](crate::types::parent_run::DEFAULT_DEPTH) without a caller. Values above
    /// [`GREATEST_DEPTH`](crate::types::parent_run::GREATEST_DEPTH) are reduced to it.
    pub max_sub_agent_depth: Option<u32>,
}

/// Limits of tool use. The host implements the hooks of the tool strategy.
///
/// Spec: UPP-1.2 §5
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ToolUseStrategy {
    /// Maximum number of tool rounds if the strategy does not limit them. Default: 10.
    pub max_iterations: Option<u32>,
}

impl AgentOptions {
    /// The strategy of the agent. Default: `loop` with the limit of the tool strategy.
    pub fn effective_strategy(&self) -> Strategy {
        let limit = self.tool_strategy.max_iterations;
        let fallback =
            || limit.map_or_else(LoopOptions::default, |max_iterations| LoopOptions { max_iterations });
        self.strategy.clone().unwrap_or_else(|| Strategy::Loop(fallback()))
    }
}
