//! One call of a tool, as the host receives it.

use std::any::Any;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::host::progress::Progress;
use crate::types::idempotency::idempotency_key;
use crate::types::identity::RunIdentity;
use crate::types::parent_run::{InheritedModel, ParentRun};
use turntree_core::json::RawJson;
use turntree_core::message::{Message, ToolCall};
use turntree_core::telemetry::Span;
use turntree_core::time::Timestamp;

/// The host's own data about a tool, for example the Python object that it calls.
pub type ToolBinding = Arc<dyn Any + Send + Sync>;

/// One call of a tool.
#[derive(Debug, Clone)]
pub struct ToolInvocation {
    /// The call, with the arguments after `on_before_call`.
    pub call: Arc<ToolCall>,
    /// The index of the tool among the tools that the run has at this step. The agent's own tools come first.
    pub tool: usize,
    /// The host's own data about the tool; `None` if the host finds the tool by its index.
    pub binding: Option<ToolBinding>,
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
    /// The id of the round of tool calls; see [`Self::idempotency_key`].
    pub(crate) round: Arc<str>,
    /// Receives progress reports; `None` if the run is not streamed.
    pub(crate) progress: Option<Arc<Progress>>,
}

impl ToolInvocation {
    /// Returns a UUID that identifies the call among all calls of all runs. It is the same when the call is repeated by a
    /// resumed run, in this process or in another one: services that know idempotency keys then execute it once. It does
    /// not depend on the vendor's id of the call, which some vendors repeat.
    ///
    /// Spec: decision A111.
    pub fn idempotency_key(&self) -> Uuid {
        idempotency_key(&self.round, self.position)
    }

    /// Reports progress: the stream contains an event `tool_execution_progress` between the start and the end of the
    /// call. Does nothing if the run is not streamed, and after the call. Can be called on any thread.
    pub fn report(&self, progress: RawJson, at: Timestamp) {
        if let Some(listening) = &self.progress {
            listening.report(&self.call, progress, at);
        }
    }
}
