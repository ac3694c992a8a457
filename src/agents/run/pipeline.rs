//! One tool call, from the model's wish to the record: hooks, approval, the call, hooks. UPP-1.2 §10.4.

use std::sync::Arc;

use super::action::{ToolOutcome, ToolRound};
use super::drive::Scope;
use super::host::{Approval, BeforeCall, HookSet, HostError, HostErrorKind, ToolInvocation};
use super::passage::{Passage, tool_failure};
use crate::core::json::{Extra, RawJson};
use crate::message::event::{ToolExecutionEnd, ToolExecutionStart};
use crate::message::{Delta, StreamEvent, ToolCall, ToolExecution};
use crate::upp::UppError;

/// A call that ends more than itself.
pub(super) enum Stopped {
    /// Ends the run once the other calls have settled.
    Round(UppError),
    /// Ends the run now.
    Run(UppError),
}

type Outcome = Result<ToolOutcome, Stopped>;

impl Scope<'_> {
    /// Runs one call of a round.
    pub(super) async fn run_call(&self, round: &ToolRound, position: usize, step: u32) -> (usize, Outcome) {
        let Some(call) = round.call(position) else {
            let words = "a tool round has no call at the place it waits for";
            return (position, Err(Stopped::Run(UppError::invalid_request(self.provider(), words))));
        };
        if let Err(error) = self.emit(|| self.start_event(position, call)).await {
            return (position, Err(Stopped::Run(error)));
        }
        let tool = round.tools.get(position).copied().flatten();
        let outcome = match tool {
            Some(tool) if self.offers(&call.tool_name) => {
                let invocation = ToolInvocation {
                    call: Arc::new(call.clone()),
                    tool,
                    position,
                    step,
                    identity: Arc::clone(&self.drive.identity),
                    inheritance: self.inheritance.clone(),
                    cancellation: self.cancellation.clone(),
                };
                self.run_known(Arc::new(invocation)).await
            }
            _ => Ok(refused(call, &format!("Tool '{}' not found", call.tool_name))),
        };
        match self.emit(|| self.end_event(position, call, &outcome)).await {
            Ok(()) => (position, outcome),
            Err(error) => (position, Err(Stopped::Run(error))),
        }
    }

    /// Whether the middleware, where there is some, offers the tool to the model.
    fn offers(&self, tool: &str) -> bool {
        self.drive.middleware.as_ref().is_none_or(|passage| passage.offers(tool))
    }

    async fn run_known(&self, invocation: Arc<ToolInvocation>) -> Outcome {
        let invocation = match self.before(invocation).await {
            Ok(Before::Go(invocation)) => invocation,
            Ok(Before::Skip(invocation)) => return Ok(refused(&invocation.call, "Tool execution skipped")),
            Err((invocation, error)) => return self.failed(&invocation, error, Record::default()).await,
        };
        let approved = match self.approve(&invocation).await? {
            Some(Approval::Denied) => return Ok(denied(&invocation.call)),
            Some(Approval::Granted) => Some(true),
            None => None,
        };
        let began = self.drive.host.clock().now().milliseconds();
        let answer = self.drive.host.call_tool(Arc::clone(&invocation)).await;
        let ended = self.drive.host.clock().now().milliseconds();
        let record = Record { approved, duration: ended.abs_diff(began) };
        let answer = match answer {
            Ok(result) => self.after(&invocation, result).await,
            Err(error) => Err(error),
        };
        match answer {
            Ok(result) => Ok(record.outcome(&invocation.call, result, false)),
            Err(error) => self.failed(&invocation, error, record).await,
        }
    }

    async fn before(
        &self,
        invocation: Arc<ToolInvocation>,
    ) -> Result<Before, (Arc<ToolInvocation>, HostError)> {
        if self.has(HookSet::TOOL_CALL)
            && let Err(error) = self.drive.host.on_tool_call(Arc::clone(&invocation)).await
        {
            return Err((invocation, error));
        }
        if let Err(error) = self.tell_middleware(&invocation, None).await {
            return Err((invocation, error));
        }
        if !self.has(HookSet::BEFORE_CALL) {
            return Ok(Before::Go(invocation));
        }
        match self.drive.host.on_before_call(Arc::clone(&invocation)).await {
            Ok(BeforeCall::Proceed) => Ok(Before::Go(invocation)),
            Ok(BeforeCall::Skip) => Ok(Before::Skip(invocation)),
            Ok(BeforeCall::ProceedWith(arguments)) => {
                let call = ToolCall { arguments, ..ToolCall::clone(&invocation.call) };
                let invocation = ToolInvocation { call: Arc::new(call), ..Arc::unwrap_or_clone(invocation) };
                Ok(Before::Go(Arc::new(invocation)))
            }
            Err(error) => Err((invocation, error)),
        }
    }

    async fn approve(&self, invocation: &Arc<ToolInvocation>) -> Result<Option<Approval>, Stopped> {
        let asks = self.drive.tools.get(invocation.tool).is_some_and(|tool| tool.asks_approval);
        if !asks {
            return Ok(None);
        }
        match self.drive.host.approve(Arc::clone(invocation)).await {
            Ok(approval) => Ok(Some(approval)),
            Err(error) => Err(self.stopped(error, "the approval handler", &invocation.call)),
        }
    }

    async fn after(&self, invocation: &Arc<ToolInvocation>, result: RawJson) -> Result<RawJson, HostError> {
        let result = if self.has(HookSet::AFTER_CALL) {
            let replaced = self.drive.host.on_after_call(Arc::clone(invocation), result.clone()).await?;
            replaced.unwrap_or(result)
        } else {
            result
        };
        self.tell_middleware(invocation, Some(&result)).await?;
        Ok(result)
    }

    /// Tells the middleware that a tool is called, or what it has answered.
    async fn tell_middleware(
        &self,
        invocation: &ToolInvocation,
        result: Option<&RawJson>,
    ) -> Result<(), HostError> {
        let (Some(passage), Some(tool)) = (&self.drive.middleware, self.drive.tools.get(invocation.tool))
        else {
            return Ok(());
        };
        let Passage { chain, context } = passage;
        let told = match result {
            None => chain.tool_call(&tool.definition, &invocation.call.arguments, context).await,
            Some(result) => chain.tool_result(&tool.definition, result, context).await,
        };
        told.map_err(tool_failure)
    }

    /// A failure becomes an error result that the model can read.
    async fn failed(&self, invocation: &Arc<ToolInvocation>, error: HostError, record: Record) -> Outcome {
        if error.kind == HostErrorKind::Fatal {
            return Err(self.stopped(error, "the tool", &invocation.call));
        }
        let outcome = record.outcome(&invocation.call, RawJson::from_str_value(&error.message), true);
        if self.has(HookSet::TOOL_ERROR)
            && let Err(second) = self.drive.host.on_tool_error(Arc::clone(invocation), error).await
        {
            return Err(self.stopped(second, "on_error of the tool strategy", &invocation.call));
        }
        Ok(outcome)
    }

    fn stopped(&self, error: HostError, place: &str, call: &ToolCall) -> Stopped {
        let fatal = error.kind == HostErrorKind::Fatal;
        let place = format!("{place} for tool '{}'", call.tool_name);
        let error = error.into_error(&place, self.provider());
        if fatal { Stopped::Run(error) } else { Stopped::Round(error) }
    }

    fn start_event(&self, position: usize, call: &ToolCall) -> StreamEvent {
        let delta = ToolExecutionStart {
            tool_call_id: call.tool_call_id.clone(),
            tool_name: call.tool_name.clone(),
            timestamp: self.drive.host.clock().now().milliseconds(),
            extra: Extra::new(),
        };
        StreamEvent::new(index(position), Delta::ToolExecutionStart(delta))
    }

    fn end_event(&self, position: usize, call: &ToolCall, outcome: &Outcome) -> StreamEvent {
        let (result, is_error) = match outcome {
            Ok(outcome) => (outcome.told().clone(), outcome.execution.is_error),
            Err(Stopped::Round(error) | Stopped::Run(error)) => {
                (RawJson::from_str_value(&error.message), true)
            }
        };
        let delta = ToolExecutionEnd {
            tool_call_id: call.tool_call_id.clone(),
            tool_name: call.tool_name.clone(),
            result,
            is_error,
            timestamp: self.drive.host.clock().now().milliseconds(),
            extra: Extra::new(),
        };
        StreamEvent::new(index(position), Delta::ToolExecutionEnd(delta))
    }
}

/// What the hooks before a call came to.
enum Before {
    Go(Arc<ToolInvocation>),
    Skip(Arc<ToolInvocation>),
}

/// What a record holds beside call and result.
#[derive(Default, Clone, Copy)]
struct Record {
    approved: Option<bool>,
    duration: u64,
}

impl Record {
    fn outcome(self, call: &ToolCall, result: RawJson, is_error: bool) -> ToolOutcome {
        let execution = ToolExecution {
            tool_name: call.tool_name.clone(),
            tool_call_id: call.tool_call_id.clone(),
            arguments: call.arguments.clone(),
            result,
            is_error,
            duration: self.duration,
            approved: self.approved,
            extra: Extra::new(),
        };
        ToolOutcome { execution, told: None }
    }
}

fn refused(call: &ToolCall, words: &str) -> ToolOutcome {
    Record::default().outcome(call, RawJson::from_str_value(words), true)
}

fn denied(call: &ToolCall) -> ToolOutcome {
    let record = Record { approved: Some(false), duration: 0 };
    let outcome = record.outcome(call, RawJson::from_str_value("Tool execution denied"), true);
    ToolOutcome {
        told: Some(RawJson::from_str_value("Tool execution denied by approval handler")),
        ..outcome
    }
}

fn index(position: usize) -> u32 {
    u32::try_from(position).unwrap_or(u32::MAX)
}
