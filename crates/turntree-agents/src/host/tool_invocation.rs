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

/// One call of a tool.
#[derive(Debug, Clone)]
pub struct ToolInvocation {
    /// The call, with the arguments after `on_before_call`.
    pub call: Arc<ToolCall>,
    /// The index of the tool among the agent's tools.
    pub tool: usize,
    /// The index of the call in the response.
    pub position: usize,
    /// The step of the run.
    pub step: u32,
    /// The agent and the run.
    pub identity: Arc<RunIdentity>,
    /// The model for sub-agents without one.
    pub inherited_model: InheritedModel,
    /// Cancelled when the run is aborted or dropped. The future of the call is dropped too; the token stops work that
    /// the tool started elsewhere.
    pub cancellation: CancellationToken,
    /// The span of the call, if the host has a tracer: the parent of spans that the tool starts.
    pub span: Option<Arc<dyn Span>>,
    /// The response that contains the call.
    pub message: Arc<Message>,
    /// The run that contains the call; `None` for a bare model that no agent calls.
    pub parent_run: Option<Arc<ParentRun>>,
    /// Receives progress reports; `None` if the run is not streamed.
    pub(crate) progress: Option<Arc<Progress>>,
}

impl ToolInvocation {
    /// Reports progress: the stream contains an event `tool_execution_progress` between the start and the end of the
    /// call. Does nothing if the run is not streamed, and after the call. Can be called on any thread.
    pub fn report(&self, progress: RawJson, at: Timestamp) {
        if let Some(listening) = &self.progress {
            listening.report(&self.call, progress, at);
        }
    }
}
