//! The run that contains another run, and the model that the inner run inherits.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use crate::types::identity::RunIdentity;
use crate::types::limits::UsageMeter;
use crate::types::usage_by_agent::UsageByAgent;
use turntree_core::json::RawObject;
use turntree_upp::Model;

/// The model of the calling run, for agents without a model of their own (UAP-1.0 §8.3).
#[derive(Debug, Clone)]
pub struct InheritedModel {
    /// The model with its configuration.
    pub model: Arc<dyn Model>,
    /// The model's parameters. An agent's own parameters take precedence.
    pub params: Arc<RawObject>,
}

/// A run of an agent, as described to the runs inside its tools.
///
/// Spec: UAP-1.0 §8.3, §8.4
#[derive(Debug, Clone)]
pub struct ParentRun {
    /// The agent and the run.
    pub identity: Arc<RunIdentity>,
    /// The model for agents without one.
    pub inherited_model: InheritedModel,
    /// Cancelled when the run is aborted or dropped.
    pub cancellation: CancellationToken,
    /// The depth of the deepest run that is allowed.
    pub max_depth: u32,
    /// Counts the usage of the run and of the runs inside it, if it has limits.
    pub meter: Option<Arc<UsageMeter>>,
    /// Receives the usage of the runs inside it.
    pub usage: Arc<UsageByAgent>,
}

/// The default limit of nested agents (decision A94).
pub const DEFAULT_DEPTH: u32 = 8;

/// The largest limit that can be set. Nested agents are polled on one stack; a level takes about 75 KB of it in debug
/// builds.
pub const GREATEST_DEPTH: u32 = 16;
