//! The spans of one run while they are open.

use std::sync::{Arc, Mutex, PoisonError};

use tokio_util::sync::CancellationToken;

use crate::driver::driver::{Driver, Protocol};
use crate::driver::trace::{Outcome, Span, Tracer, Work};
use crate::machine::machine::Machine;
use crate::types::action::Notification;
use turntree_core::message::{ToolCall, Turn};
use turntree_upp::{ModelRequest, ModelResponse, UppError};

/// A span that is ended, or ends when it is dropped. Holds nothing where nobody watches.
#[derive(Debug, Default)]
pub struct Open {
    span: Option<Arc<dyn Span>>,
    /// Tells an abort from a future that was dropped.
    abort: Option<CancellationToken>,
}

impl Open {
    /// An open span. With `abort`, a dropped span ends as aborted once the token is cancelled.
    pub fn new(span: Arc<dyn Span>, abort: Option<CancellationToken>) -> Self {
        Self { span: Some(span), abort }
    }

    /// The span, for what runs inside it.
    pub const fn span(&self) -> Option<&Arc<dyn Span>> {
        self.span.as_ref()
    }

    /// Records the first chunk of a streamed response.
    pub fn first_chunk(&self) {
        if let Some(span) = &self.span {
            span.first_chunk();
        }
    }

    /// Ends the span with `outcome`.
    pub fn end(mut self, outcome: &Outcome<'_>) {
        if let Some(span) = self.span.take() {
            span.end(outcome);
        }
    }

    /// Ends with what a model answered.
    pub fn answered(self, outcome: &Result<ModelResponse, UppError>, provider: &str) {
        match outcome {
            Ok(response) => self.end(&Outcome::Answer { response, provider }),
            Err(error) => self.end(&Outcome::Failed(error)),
        }
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        let Some(span) = self.span.take() else { return };
        let aborted = self.abort.as_ref().is_some_and(CancellationToken::is_cancelled);
        span.end(if aborted { &Outcome::Aborted } else { &Outcome::Dropped });
    }
}

/// All spans of one run; one pointer where nobody watches.
#[derive(Default)]
pub(crate) struct Trace(Option<Box<Spans>>);

struct Spans {
    tracer: Arc<dyn Tracer>,
    // Dropped before the run, which it is a part of.
    step: Mutex<Open>,
    run: Open,
}

impl Spans {
    fn begin(&self, work: &Work<'_>, drive: &Driver) -> Open {
        let step = self.step.lock().unwrap_or_else(PoisonError::into_inner);
        let span = self.tracer.begin(work, step.span().or_else(|| self.run.span()));
        Open::new(span, drive.cancellation.clone())
    }

    /// Puts another step in the place of the one before, which has ended.
    fn step(&self, open: Open) -> Open {
        std::mem::replace(&mut *self.step.lock().unwrap_or_else(PoisonError::into_inner), open)
    }
}

impl Trace {
    /// The spans of a run that begins, where somebody watches. A bare model without tools has no span around its one
    /// request.
    pub(crate) fn begin(machine: &Machine, drive: &Driver) -> Self {
        let Some(tracer) = drive.host.tracer() else { return Self(None) };
        let model = &*drive.model;
        let work = match drive.config.protocol {
            // The tracer knows the run that it is a part of.
            Protocol::Uap if drive.config.is_nested => None,
            Protocol::Uap => Some(Work::Agent {
                name: drive.config.agent_name.as_deref(),
                identity: &drive.identity,
                model,
                input: machine.state().messages(),
            }),
            Protocol::Upp if !drive.tools.is_empty() => Some(Work::Rounds { model }),
            Protocol::Upp => None,
        };
        let run = work.map(|work| Open::new(tracer.begin(&work, None), drive.cancellation.clone()));
        let spans = Spans { tracer, step: Mutex::default(), run: run.unwrap_or_default() };
        Self(Some(Box::new(spans)))
    }

    /// The run is over.
    pub(crate) fn end(self, outcome: &Result<Arc<Turn>, UppError>) {
        let Some(spans) = self.0 else { return };
        let step = spans.step(Open::default());
        match outcome {
            Ok(turn) => {
                drop_or_end(step, &Outcome::Done);
                spans.run.end(&Outcome::Turn(turn));
            }
            Err(error) => {
                step.end(&Outcome::Failed(error));
                spans.run.end(&Outcome::Failed(error));
            }
        }
    }

    /// Before hooks and listeners hear where an agent's run is.
    pub(crate) fn before(&self, machine: &Machine, drive: &Driver, point: Notification) {
        let Some(spans) = self.0.as_deref() else { return };
        if matches!(point, Notification::StepStart) && drive.config.protocol == Protocol::Uap {
            let before = spans.step(Open::default());
            before.end(&Outcome::Done);
            let work = Work::Step { number: machine.state().step(), id: machine.step_id() };
            let step = spans.begin(&work, drive);
            drop(spans.step(step));
        }
    }

    /// After they have heard of it.
    pub(crate) fn after(&self, point: Notification) {
        let Some(spans) = self.0.as_deref() else { return };
        if matches!(point, Notification::StepEnd) {
            spans.step(Open::default()).end(&Outcome::Done);
        }
    }

    /// A request to the model.
    pub(crate) fn chat(&self, drive: &Driver, request: &ModelRequest) -> Open {
        let Some(spans) = self.0.as_deref() else { return Open::default() };
        let streaming = drive.ports.events.is_some();
        let work = Work::Chat { model: &*drive.model, request, streaming, identity: &drive.identity };
        spans.begin(&work, drive)
    }

    /// A call of a tool: the one at `tool` of the agent's, or none of them.
    pub(crate) fn tool(&self, drive: &Driver, call: &ToolCall, tool: Option<usize>) -> Open {
        let Some(spans) = self.0.as_deref() else { return Open::default() };
        let definition = tool.and_then(|tool| drive.tools.get(tool)).map(|tool| &tool.definition);
        spans.begin(&Work::Tool { call, definition }, drive)
    }
}

/// Ends a step that is open though its run has a turn: an abort cut it short, or a recovery has ended it.
fn drop_or_end(step: Open, outcome: &Outcome<'_>) {
    if step.abort.as_ref().is_some_and(CancellationToken::is_cancelled) {
        drop(step);
    } else {
        step.end(outcome);
    }
}
