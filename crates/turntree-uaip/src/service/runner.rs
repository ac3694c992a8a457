//! The port that performs the calls of the engine: tasks, guards and hooks of the application.

use std::fmt;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::mpsc;

use crate::definition::Workflow;
use crate::engine::{Call, CallResult};
use crate::store::ApprovalDecision;

/// How many reports of a task may wait for a slow client. Later ones are discarded.
const CAPACITY: usize = 10_000;

/// Performs tasks, guards and hooks.
///
/// # Cancel safety
/// The future of a call is dropped when its time limit is over or the client disconnects. The call must then end, and its
/// result is discarded.
pub trait TaskRunner: fmt::Debug + Send + Sync + 'static {
    /// Performs a call. The state that it returns replaces that of the call if the whole action succeeds.
    fn call(
        &self,
        workflow: Arc<Workflow>,
        call: Call,
        context: CallContext,
    ) -> BoxFuture<'static, CallResult>;
}

/// What a call may know of its request.
#[derive(Debug, Clone)]
pub struct CallContext {
    /// The id of the session. It is a secret; do not log it.
    pub session_id: Arc<str>,
    /// Who has sent the request.
    pub principal: Option<Arc<str>>,
    /// The header `Idempotency-Key`, for calls of other services.
    pub idempotency_key: Option<Arc<str>>,
    /// An id for the log, which the client sees if the call fails.
    pub correlation_id: Arc<str>,
    /// The decision of a person about this call of a task, if there is one.
    pub approval: Option<ApprovalDecision>,
    /// Reports the progress of a task.
    pub progress: ProgressSender,
}

/// A report of a task.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    /// What the task does now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
    /// A sentence for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Anything else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Value>,
}

/// Reports the progress of a task. A client that did not ask for a stream does not see the reports.
#[derive(Debug, Clone, Default)]
pub struct ProgressSender(Option<mpsc::Sender<Progress>>);

impl ProgressSender {
    /// A sender and its receiver.
    pub(super) fn channel() -> (Self, mpsc::Receiver<Progress>) {
        let (sender, receiver) = mpsc::channel(CAPACITY);
        (Self(Some(sender)), receiver)
    }

    /// Reports progress. Does not wait.
    pub fn report(&self, progress: Progress) {
        if let Some(sender) = &self.0 {
            // A client that reads slowly, or has gone.
            let _ = sender.try_send(progress);
        }
    }
}
