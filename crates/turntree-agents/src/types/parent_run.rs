//! The run that contains another run, and the model that it lends.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use crate::types::identity::RunIdentity;
use turntree_core::json::RawObject;
use turntree_upp::Model;

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
    pub inherited_model: InheritedModel,
    /// Fires when the run is aborted or dropped.
    pub cancellation: CancellationToken,
    /// The depth of the max_depth run that is let in.
    pub max_depth: u32,
}

/// How many agents may run inside one another where nothing else is said (decision A94).
pub const DEFAULT_DEPTH: u32 = 8;

/// The most that may be asked for: agents that are tools are polled inside one another, on one stack. Unoptimised, a
/// level takes some 75 KB of it.
pub const GREATEST_DEPTH: u32 = 16;
