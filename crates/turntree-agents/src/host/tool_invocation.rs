//! One call of a tool, as the host receives it.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use crate::host::progress::Progress;
use crate::types::identity::RunIdentity;
use crate::types::parent_run::{InheritedModel, ParentRun};
use turntree_core::json::RawJson;
use turntree_core::message::{Message, ToolCall};
use turntree_core::telemetry::Span;
use turntree_core::time::Timestamp;

/// One call of a tool, as the application gets it.
#[derive(Debug, Clone)]
pub struct ToolInvocation {
    /// The call; its arguments are those in effect, after `on_before_call`.
    pub call: Arc<ToolCall>,
    /// The tool's place among the agent's tools.
    pub tool: usize,
    /// The call's place in the answer.
    pub position: usize,
    /// The step.
    pub step: u32,
    /// Who runs.
    pub identity: Arc<RunIdentity>,
    /// What a sub-agent without a model of its own runs with.
    pub inherited_model: InheritedModel,
    /// Fires when the run is aborted or dropped. The future of the call is dropped then; this is for work it started elsewhere.
    pub cancellation: CancellationToken,
    /// The call's span, where somebody watches: what the tool starts belongs inside.
    pub span: Option<Arc<dyn Span>>,
    /// The answer that makes the call.
    pub message: Arc<Message>,
    /// The run of an agent that the call is inside of; none in a call of a bare model that no agent has started.
    pub parent_run: Option<Arc<ParentRun>>,
    /// Where the tool tells how far it is; none where nobody listens.
    pub(crate) progress: Option<Arc<Progress>>,
}

impl ToolInvocation {
    /// Tells listeners how far the tool is: they get an event `tool_execution_progress` between the start and the end
    /// of the call. Has no effect where nobody listens and after the call. May be called on any thread.
    pub fn report(&self, progress: RawJson, at: Timestamp) {
        if let Some(listening) = &self.progress {
            listening.report(&self.call, progress, at);
        }
    }
}
