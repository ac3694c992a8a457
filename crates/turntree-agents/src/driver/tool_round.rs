//! Runs the tool calls of one response concurrently. UPP-1.2 §10.4

use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, Waker};

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;

use crate::driver::run_loop::RunLoop;
use crate::driver::tool_call::{CallResult, CallStop};
use crate::machine::machine::Machine;
use crate::types::action::{Action, ActionResult, ToolRound};
use turntree_upp::UppError;

impl RunLoop<'_> {
    /// Runs all calls of a round concurrently and feeds each result when it arrives.
    pub(super) async fn run_tools(&self, machine: &mut Machine, round: &ToolRound) -> Result<(), UppError> {
        let step = machine.state().step();
        let calls = round.waiting.iter().map(|position| self.run_call(round, *position, step, None));
        let mut running = RunningCalls { scope: self, machine, calls: calls.collect() };
        while let Some((position, outcome)) = running.calls.next().await {
            let reply = match outcome {
                Ok(outcome) => ActionResult::Tool { position, outcome: Ok(outcome) },
                Err(CallStop::Round(error)) => ActionResult::Tool { position, outcome: Err(error) },
                Err(CallStop::AwaitingApproval(call)) => ActionResult::ApprovalNeeded { position, call },
                Err(CallStop::Returned(outcome)) => {
                    let returned = outcome.returned.clone();
                    self.feed(running.machine, ActionResult::Returned { position, returned })?;
                    running.calls.push(self.run_call(round, position, step, Some(*outcome)));
                    continue;
                }
                Err(CallStop::Run(error)) => return Err(error),
            };
            self.feed(running.machine, reply)?;
            if let Action::Checkpoint(boundary) = running.machine.next() {
                let reply = self.checkpoint(running.machine, boundary).await?;
                self.feed(running.machine, reply)?;
            }
        }
        Ok(())
    }
}

/// The running calls of a round. When dropped, it stores the results of calls that have ended but were not processed, so that
/// these tools are not called again on resume.
struct RunningCalls<'a, C: Future<Output = (usize, CallResult)>> {
    scope: &'a RunLoop<'a>,
    machine: &'a mut Machine,
    calls: FuturesUnordered<C>,
}

impl<C: Future<Output = (usize, CallResult)>> Drop for RunningCalls<'_, C> {
    fn drop(&mut self) {
        if self.calls.is_empty() {
            return;
        }
        self.scope.closing.store(true, Ordering::Relaxed);
        let mut context = Context::from_waker(Waker::noop());
        let ended: Vec<_> = Pin::new(&mut self.calls)
            .iter_pin_mut()
            .filter_map(|call| match call.poll(&mut context) {
                Poll::Ready(ended) => Some(ended),
                Poll::Pending => None,
            })
            .collect();
        for (position, outcome) in ended {
            let reply = match outcome {
                Ok(outcome) => ActionResult::Tool { position, outcome: Ok(outcome) },
                Err(CallStop::Returned(outcome)) => {
                    ActionResult::Returned { position, returned: outcome.returned }
                }
                Err(CallStop::AwaitingApproval(call)) => ActionResult::ApprovalNeeded { position, call },
                Err(CallStop::Round(_) | CallStop::Run(_)) => continue,
            };
            // If the round rejects the result, the tool is called again on resume, as for calls that have not ended.
            let _accepted = self.scope.feed(self.machine, reply);
            if matches!(self.machine.next(), Action::Checkpoint(_)) {
                let _continued = self.machine.feed(ActionResult::Continue);
            }
        }
    }
}
