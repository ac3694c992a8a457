//! Runs the tool calls of one response concurrently. UPP-1.2 §10.4

use std::collections::VecDeque;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, Waker};

use futures_util::StreamExt as _;
use futures_util::future::{Either, select};
use futures_util::stream::FuturesUnordered;

use crate::driver::run_loop::RunLoop;
use crate::driver::stop::limit_error;
use crate::driver::tool_call::{CallResult, CallStop, CallsOfRound, Rest};
use crate::host::tool::Tool;
use crate::machine::machine::Machine;
use crate::types::action::{Action, ActionResult, ToolRound};
use turntree_core::message::ToolCall;
use turntree_upp::UppError;

impl RunLoop<'_> {
    /// Runs all calls of a round concurrently and feeds each result when it arrives.
    pub(super) async fn run_tools(
        &self,
        machine: &mut Machine,
        round: &ToolRound,
        tools: &Arc<[Tool]>,
    ) -> Result<(), UppError> {
        if let Some(meter) = &self.driver.ports.meter
            && let Err(error) = meter.begin_calls(round.waiting.len(), self.driver.host.clock().now())
        {
            let error = limit_error(error, self.provider());
            for position in round.waiting.iter().copied() {
                self.feed(machine, ActionResult::Tool { position, outcome: Err(error.clone()) })?;
            }
            return Ok(());
        }
        let calls = CallsOfRound { round, tools, step: machine.state().step() };
        let start = |position, rest| self.run_call(calls, position, rest);
        let calls = round.waiting.iter().map(|position| start(*position, Rest::All)).collect();
        let mut running = RunningCalls { scope: self, machine, calls, ended: VecDeque::new() };
        while let Some((position, outcome)) = running.next().await {
            // Boxed, so that nested agents use little of the stack.
            let rest = Box::pin(self.take_outcome(&mut running, position, outcome)).await?;
            running.calls.extend(rest.map(|rest| start(position, rest)));
        }
        Ok(())
    }

    /// Feeds the outcome of a call and saves it. Returns the rest of the call, if it has not ended.
    async fn take_outcome<C: Future<Output = (usize, CallResult)>>(
        &self,
        running: &mut RunningCalls<'_, C>,
        position: usize,
        outcome: CallResult,
    ) -> Result<Option<Rest>, UppError> {
        let reply = match outcome {
            Ok(outcome) => ActionResult::Tool { position, outcome: Ok(outcome) },
            Err(CallStop::Round(error)) => ActionResult::Tool { position, outcome: Err(error) },
            Err(CallStop::AwaitingApproval(call)) => ActionResult::ApprovalNeeded { position, call },
            Err(CallStop::Suspended(suspended)) => {
                ActionResult::Suspended { position, suspended: *suspended }
            }
            Err(CallStop::Approved(call)) => {
                let replaced = call.replaced();
                return Ok(Some(match self.store_approval(running, position, replaced).await? {
                    Ok(()) => Rest::Tool(call),
                    Err(error) => Rest::Nothing(call, error),
                }));
            }
            Err(CallStop::Returned(outcome)) => {
                let returned = outcome.returned.clone();
                self.feed(running.machine, ActionResult::Returned { position, returned })?;
                return Ok(Some(Rest::Hooks(outcome)));
            }
            Err(CallStop::Run(error)) => return Err(error),
        };
        self.feed(running.machine, reply)?;
        if let Action::Checkpoint(boundary) = running.machine.next() {
            let RunningCalls { machine, calls, ended, .. } = running;
            let reply = while_running(self.checkpoint(machine, boundary), calls, ended).await?;
            self.feed(running.machine, reply)?;
        }
        Ok(None)
    }

    /// Stores the approval of a call. The inner error is that of the store.
    async fn store_approval<C: Future<Output = (usize, CallResult)>>(
        &self,
        running: &mut RunningCalls<'_, C>,
        position: usize,
        replaced: Option<Arc<ToolCall>>,
    ) -> Result<Result<(), UppError>, UppError> {
        self.feed(running.machine, ActionResult::Granted { position, replaced })?;
        let RunningCalls { machine, calls, ended, .. } = running;
        let recorder = self.driver.ports.recorder.as_ref();
        match recorder.and_then(|recorder| recorder.approved(machine.state())) {
            Some(saving) => Ok(while_running(saving, calls, ended).await),
            None => Ok(Ok(())),
        }
    }
}

/// Awaits a save while the calls of the round continue. A sub-agent among them can be waiting for the same session's lock, or
/// hold it. The outcomes of calls that end meanwhile are added to `ended`.
async fn while_running<T, C: Future<Output = (usize, CallResult)>>(
    saving: impl Future<Output = T>,
    calls: &mut FuturesUnordered<C>,
    ended: &mut VecDeque<(usize, CallResult)>,
) -> T {
    let mut saving = pin!(saving);
    loop {
        if calls.is_empty() {
            return saving.await;
        }
        match select(saving.as_mut(), calls.next()).await {
            Either::Left((saved, _)) => return saved,
            Either::Right((call, _)) => ended.extend(call),
        }
    }
}

/// The running calls of a round. When dropped, it stores the results of calls that have ended but were not processed, so that
/// these tools are not called again on resume.
struct RunningCalls<'a, C: Future<Output = (usize, CallResult)>> {
    scope: &'a RunLoop<'a>,
    machine: &'a mut Machine,
    calls: FuturesUnordered<C>,
    /// The outcomes that were not processed yet, oldest first.
    ended: VecDeque<(usize, CallResult)>,
}

impl<C: Future<Output = (usize, CallResult)>> RunningCalls<'_, C> {
    /// Returns the outcome of the next call that ends.
    async fn next(&mut self) -> Option<(usize, CallResult)> {
        match self.ended.pop_front() {
            Some(ended) => Some(ended),
            None => self.calls.next().await,
        }
    }
}

impl<C: Future<Output = (usize, CallResult)>> Drop for RunningCalls<'_, C> {
    fn drop(&mut self) {
        if self.calls.is_empty() && self.ended.is_empty() {
            return;
        }
        self.scope.closing.store(true, Ordering::Relaxed);
        let mut context = Context::from_waker(Waker::noop());
        let mut ended = std::mem::take(&mut self.ended);
        ended.extend(Pin::new(&mut self.calls).iter_pin_mut().filter_map(
            |call| match call.poll(&mut context) {
                Poll::Ready(ended) => Some(ended),
                Poll::Pending => None,
            },
        ));
        for (position, outcome) in ended {
            let reply = match outcome {
                Ok(outcome) => ActionResult::Tool { position, outcome: Ok(outcome) },
                Err(CallStop::Returned(outcome)) => {
                    ActionResult::Returned { position, returned: outcome.returned }
                }
                Err(CallStop::AwaitingApproval(call)) => ActionResult::ApprovalNeeded { position, call },
                Err(CallStop::Suspended(suspended)) => {
                    ActionResult::Suspended { position, suspended: *suspended }
                }
                Err(CallStop::Approved(_) | CallStop::Round(_) | CallStop::Run(_)) => continue,
            };
            // If the round rejects the result, the tool is called again on resume, as for calls that have not ended.
            let _accepted = self.scope.feed(self.machine, reply);
            if matches!(self.machine.next(), Action::Checkpoint(_)) {
                let _continued = self.machine.feed(ActionResult::Continue);
            }
        }
    }
}
