//! Model calls with limits or a system prompt that a function returns, and the validation of the output.

use std::sync::Arc;

use futures_util::future::BoxFuture;

use crate::driver::run_loop::RunLoop;
use crate::driver::stop::limit_error;
use crate::host::hook_set::HookSet;
use crate::machine::machine::Machine;
use crate::types::action::{Abort, Action, ActionResult};
use crate::types::failure;
use crate::types::structure::unwrapped;
use turntree_core::json::RawJson;
use turntree_core::message::Turn;
use turntree_core::message::fold::Fold;
use turntree_upp::{ModelRequest, System, UppError};

impl RunLoop<'_> {
    /// Calls the model of a run that has limits, or a system prompt that a function returns.
    ///
    /// Boxed in a function of its own, so that nested agents use little of the stack.
    pub(super) fn call_checked<'a>(
        &'a self,
        machine: &'a Machine,
        request: ModelRequest,
        fold: &'a mut Fold,
    ) -> BoxFuture<'a, Result<ActionResult, UppError>> {
        Box::pin(self.check_and_call(machine, request, fold))
    }

    async fn check_and_call(
        &self,
        machine: &Machine,
        mut request: ModelRequest,
        fold: &mut Fold,
    ) -> Result<ActionResult, UppError> {
        let meter = self.driver.ports.meter.as_ref();
        if let Some(Err(error)) = meter.map(|meter| meter.begin_request(self.driver.host.clock().now())) {
            return Ok(ActionResult::Failed(limit_error(error, self.provider())));
        }
        if self.has(HookSet::SYSTEM_PROMPT) {
            let run = Arc::new(self.driver.describe(machine, &self.cancellation));
            match self.driver.host.system_prompt(run).await {
                Ok(system) => request.system = joined(system, request.system),
                Err(error) => return self.result("system", Err(error), |()| ActionResult::Continue),
            }
        }
        let outcome = self.call_model(machine.state().step(), request, fold).await;
        if let (Some(meter), Ok(response)) = (meter, &outcome) {
            meter.count(&response.usage);
        }
        Ok(ActionResult::Answer(outcome))
    }

    /// Validates the output: first against the schema, then by its type, then by the validators of the application.
    ///
    /// Boxed as [`Self::call_checked`].
    pub(super) fn check_answer<'a>(
        &'a self,
        machine: &'a Machine,
        answer: RawJson,
    ) -> BoxFuture<'a, Result<ActionResult, UppError>> {
        Box::pin(self.check_output(machine, answer))
    }

    async fn check_output(&self, machine: &Machine, mut answer: RawJson) -> Result<ActionResult, UppError> {
        if let Some(structure) = &self.driver.structure {
            let violations = structure.violations(&answer);
            if !violations.is_empty() {
                return Ok(ActionResult::Checked(violations));
            }
            if structure.is_wrapped() {
                answer = unwrapped(&answer).unwrap_or_default();
            }
            if self.has(HookSet::CHECK_ANSWER) {
                match self.driver.host.check_answer(answer.clone()).await {
                    Ok(violations) if violations.is_empty() => {}
                    outcome => {
                        let place = "the type of the structured answer";
                        return self.result(place, outcome, ActionResult::Checked);
                    }
                }
            }
        }
        if !self.has(HookSet::VALIDATE_OUTPUT) {
            return Ok(ActionResult::Checked(Vec::new()));
        }
        let run = Arc::new(self.driver.describe(machine, &self.cancellation));
        let outcome = self.driver.host.validate_output(run, answer).await;
        self.result("the output validator", outcome, |refusal| {
            refusal.map_or_else(|| ActionResult::Checked(Vec::new()), ActionResult::Refused)
        })
    }

    /// The error of a run that took too long. The machine stays at its last boundary, from which the run can be resumed.
    pub(super) fn timed_out(&self, machine: &Machine, fold: Fold) -> UppError {
        let error = self.driver.timeout_error();
        let mut copy = machine.clone();
        let abort = Abort { partial: fold.finish(), results: self.stamp(), response: self.stamp() };
        let aborted = copy.feed(ActionResult::Aborted(Box::new(abort))).is_ok();
        match copy.next() {
            Action::Done(turn) if aborted => failure::attach(error, Turn::clone(&turn)),
            _ => error,
        }
    }
}

/// The system prompt that the application has made, with a text that a server has added to this run.
fn joined(made: Option<Arc<System>>, added: Option<Arc<System>>) -> Option<Arc<System>> {
    match (made, added) {
        (Some(made), Some(added)) => match &*added {
            System::Text(text) => Some(Arc::new(made.with_text(text))),
            System::Blocks(_) => Some(made),
        },
        (None, only) | (only, None) => only,
    }
}
