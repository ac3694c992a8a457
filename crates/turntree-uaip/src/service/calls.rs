//! Performs the calls of an action, with time limits.

use std::pin::pin;
use std::sync::Arc;

use futures_util::future::{Either, select};
use turntree_core::runtime;

use super::Inner;
use super::runner::CallContext;
use crate::definition::Workflow;
use crate::engine::{Call, CallFailure, CallResult, EngineError, Execution, Failure, Outcome, Reply, Step};

/// An action that is done.
#[derive(Debug)]
pub(super) struct Finished {
    pub(super) outcome: Outcome,
    /// True if a function of the application was called.
    pub(super) has_called: bool,
}

impl Inner {
    /// Performs calls until the action is done.
    pub(super) async fn run(
        &self,
        workflow: &Arc<Workflow>,
        mut execution: Execution,
        mut step: Step,
        context: &CallContext,
    ) -> Result<Finished, EngineError> {
        let mut has_called = false;
        loop {
            match step {
                Step::Done(outcome) => {
                    log_failure(&outcome, context);
                    return Ok(Finished { outcome: *outcome, has_called });
                }
                Step::Call(call) => {
                    has_called = true;
                    let result = self.perform(workflow, *call, context.clone()).await;
                    step = execution.feed(result)?;
                }
            }
        }
    }

    async fn perform(&self, workflow: &Arc<Workflow>, call: Call, context: CallContext) -> CallResult {
        let limit = call.timeout.unwrap_or(self.options.task_timeout);
        let work = self.runner.call(Arc::clone(workflow), call, context);
        match select(work, pin!(runtime::sleep(limit))).await {
            Either::Left((result, _)) => result,
            Either::Right(((), _)) => CallResult::Failed(CallFailure::Timeout { limit }),
        }
    }
}

/// Logs what the client does not see.
fn log_failure(outcome: &Outcome, context: &CallContext) {
    let id = &context.correlation_id;
    let stage = &outcome.session.stage;
    match &outcome.reply {
        Reply::Failed(Failure::InvalidResult { task, violations }) => {
            let first = violations.first().map(ToString::to_string).unwrap_or_default();
            log::error!(target: "turntree.uaip", "{id}: task \"{task}\" has returned what its schema forbids: {first}");
        }
        Reply::Failed(Failure::InvalidState { violations }) => {
            let first = violations.first().map(ToString::to_string).unwrap_or_default();
            log::error!(target: "turntree.uaip", "{id}: stage \"{stage}\" has written state that is not allowed: {first}");
        }
        Reply::Failed(Failure::Timeout { limit }) => {
            let seconds = limit.as_secs_f64();
            log::warn!(target: "turntree.uaip", "{id}: a call in stage \"{stage}\" took longer than {seconds} s");
        }
        _ => {}
    }
}
