//! The open spans of one run.

use std::sync::{Arc, Mutex, PoisonError};

use crate::driver::driver::{Driver, Protocol};
use crate::driver::telemetry::{
    AgentOperation, StepOperation, ToolLoopOperation, ToolOperation, TurnOutcome,
};
use crate::host::tool::Tool;
use crate::machine::machine::Machine;
use crate::types::action::Notification;
use turntree_core::message::{ToolCall, Turn};
use turntree_core::telemetry::{Completed, Operation, SpanGuard, Tracer};
use turntree_upp::telemetry::{ChatOperation, ErrorOutcome};
use turntree_upp::{ModelRequest, UppError};

/// The spans of one run. Without a tracer it holds nothing.
#[derive(Default)]
pub(super) struct RunTrace(Option<Box<Spans>>);

struct Spans {
    tracer: Arc<dyn Tracer>,
    // Dropped before the span of the run, which contains it.
    step: Mutex<SpanGuard>,
    run: SpanGuard,
}

impl Spans {
    fn start(&self, operation: &dyn Operation, driver: &Driver) -> SpanGuard {
        let step = self.step.lock().unwrap_or_else(PoisonError::into_inner);
        let span = self.tracer.start(operation, step.span().or_else(|| self.run.span()));
        SpanGuard::new(span, driver.cancellation.clone())
    }

    /// Replaces the span of the step and returns the previous one.
    fn replace_step(&self, span: SpanGuard) -> SpanGuard {
        std::mem::replace(&mut *self.step.lock().unwrap_or_else(PoisonError::into_inner), span)
    }
}

impl RunTrace {
    /// Starts the span of a run if the host has a tracer. A bare model without tools has only the span of its request.
    pub(super) fn begin(machine: &Machine, driver: &Driver) -> Self {
        let Some(tracer) = driver.host.tracer() else { return Self(None) };
        let model = &*driver.model;
        let start = |operation: &dyn Operation| {
            SpanGuard::new(tracer.start(operation, None), driver.cancellation.clone())
        };
        let run = match driver.config.protocol {
            // The tracer has a span for the run that contains this one.
            Protocol::Uap if driver.config.is_nested => SpanGuard::default(),
            Protocol::Uap => start(&AgentOperation {
                name: driver.config.agent_name.as_deref(),
                identity: &driver.identity,
                model,
                input: machine.state().messages(),
            }),
            Protocol::Upp if driver.has_tools() => start(&ToolLoopOperation { model }),
            Protocol::Upp => SpanGuard::default(),
        };
        Self(Some(Box::new(Spans { tracer, step: Mutex::default(), run })))
    }

    /// Ends the spans of the run.
    pub(super) fn end(self, outcome: &Result<Arc<Turn>, UppError>) {
        let Some(spans) = self.0 else { return };
        let step = spans.replace_step(SpanGuard::default());
        match outcome {
            Ok(turn) => {
                // The step is open if an abort or a recovery ended it. Dropping an aborted span marks it.
                if step.is_aborted() {
                    drop(step);
                } else {
                    step.end(&Completed);
                }
                spans.run.end(&TurnOutcome(turn));
            }
            Err(error) => {
                step.end(&ErrorOutcome(error));
                spans.run.end(&ErrorOutcome(error));
            }
        }
    }

    /// Called before the hooks of a notification.
    pub(super) fn before(&self, machine: &Machine, driver: &Driver, notification: Notification) {
        let Some(spans) = self.0.as_deref() else { return };
        if matches!(notification, Notification::StepStart) && driver.config.protocol == Protocol::Uap {
            spans.replace_step(SpanGuard::default()).end(&Completed);
            let operation = StepOperation { number: machine.state().step(), id: machine.step_id() };
            let step = spans.start(&operation, driver);
            drop(spans.replace_step(step));
        }
    }

    /// Called after the hooks of a notification.
    pub(super) fn after(&self, notification: Notification) {
        let Some(spans) = self.0.as_deref() else { return };
        if matches!(notification, Notification::StepEnd) {
            spans.replace_step(SpanGuard::default()).end(&Completed);
        }
    }

    /// Starts the span of a request to the model.
    pub(super) fn chat(&self, driver: &Driver, request: &ModelRequest) -> SpanGuard {
        let Some(spans) = self.0.as_deref() else { return SpanGuard::default() };
        let operation = ChatOperation {
            model: &*driver.model,
            request,
            streaming: driver.ports.events.is_some(),
            conversation_id: driver.identity.session_id.as_deref(),
        };
        spans.start(&operation, driver)
    }

    /// Starts the span of a tool call. `tool` is `None` for an unknown tool.
    pub(super) fn tool(&self, driver: &Driver, call: &ToolCall, tool: Option<&Tool>) -> SpanGuard {
        let Some(spans) = self.0.as_deref() else { return SpanGuard::default() };
        let definition = tool.map(|tool| &tool.definition);
        spans.start(&ToolOperation { call, definition }, driver)
    }
}
