//! A run as a stream of events.
//!
//! Polling the stream polls the run. Events wait in a bounded queue; the run is polled only while the queue is empty. So an
//! event reaches the consumer without another task, channel or wake-up.
//!
//! Spec: UAP-1.0 §12

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::future::BoxFuture;
use futures_util::{Stream, StreamExt as _};
use tokio_util::sync::CancellationToken;

use crate::driver::driver::{Driver, DriverPorts};
use crate::host::event_queue::EventQueue;
use crate::machine::machine::Machine;
use crate::types::approval::approval_required;
use crate::types::event::AgentStreamEvent;
use crate::types::partial_output::PartialOutput;
use crate::types::structure::Structure;
use turntree_core::message::Turn;
use turntree_upp::{StopReason, UppError};

/// The consumer of a stream: its event queue and its abort token.
#[derive(Debug, Clone)]
pub(crate) struct Listener {
    pub(crate) events: Arc<EventQueue>,
    pub(crate) cancellation: CancellationToken,
}

impl Listener {
    /// Connects a driver to the consumer.
    pub(crate) fn attach(&self, driver: Driver) -> Driver {
        let ports = DriverPorts { events: Some(Arc::clone(&self.events)), ..driver.ports };
        Driver { cancellation: Some(self.cancellation.clone()), ports, ..driver }
    }
}

/// A run as a stream of its events.
///
/// Lazy: nothing is sent before the stream is polled. Any executor can poll it. The stream ends after an error; after
/// [`AgentStream::abort`] it ends without an error.
///
/// # Cancel safety
/// Polling can be interrupted at any point; no event is lost. Dropping the stream stops the run: the model call and the
/// tools are dropped.
pub struct AgentStream {
    work: Option<BoxFuture<'static, Result<Arc<Turn>, UppError>>>,
    events: Arc<EventQueue>,
    cancellation: CancellationToken,
    answer: Arc<PartialOutput>,
    outcome: Option<Result<Arc<Turn>, UppError>>,
    /// True if the stream has returned the error.
    reported: bool,
}

impl fmt::Debug for AgentStream {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("AgentStream").field("outcome", &self.outcome).finish_non_exhaustive()
    }
}

impl AgentStream {
    /// Streams a run that begins or resumes.
    pub fn new(machine: Machine, driver: Driver) -> Self {
        let (outer, structure) = (driver.cancellation.clone(), driver.structure.clone());
        Self::of(outer.as_ref(), structure.as_deref(), |listener| {
            Box::pin(listener.attach(driver).complete(machine))
        })
    }

    /// Streams a run that `work` executes with the listener attached. Cancelling `outer` aborts the run; `structure` is
    /// the structure of its output.
    pub(crate) fn of(
        outer: Option<&CancellationToken>,
        structure: Option<&Structure>,
        work: impl FnOnce(Listener) -> BoxFuture<'static, Result<Arc<Turn>, UppError>>,
    ) -> Self {
        let events = Arc::new(EventQueue::default());
        let cancellation = outer.map_or_else(CancellationToken::new, CancellationToken::child_token);
        let answer = Arc::new(PartialOutput::new(structure.is_some_and(Structure::is_wrapped)));
        let listener = Listener { events: Arc::clone(&events), cancellation: cancellation.clone() };
        Self { work: Some(work(listener)), events, cancellation, answer, outcome: None, reported: false }
    }

    /// Aborts the run: the stream ends, and [`Self::turn`] returns the partial turn. Events in the queue are dropped. Has
    /// no effect on a run that has ended.
    ///
    /// Spec: UAP-1.0 §12.5; decision A56
    pub fn abort(&self) {
        self.cancellation.cancel();
    }

    /// The token that aborts the run: cancelling it has the effect of [`Self::abort`].
    pub const fn abort_token(&self) -> &CancellationToken {
        &self.cancellation
    }

    /// Returns an event from the queue, without polling the run.
    pub fn take_buffered(&mut self) -> Option<AgentStreamEvent> {
        let event = if self.is_silenced() { None } else { self.events.pop() };
        if let Some(AgentStreamEvent::Upp(event)) = &event {
            self.answer.push(event);
        }
        event
    }

    /// The structured output in the events that the consumer has taken.
    pub const fn answer(&self) -> &Arc<PartialOutput> {
        &self.answer
    }

    /// The result of the run; `None` until it has ended.
    pub const fn outcome(&self) -> Option<&Result<Arc<Turn>, UppError>> {
        self.outcome.as_ref()
    }

    /// Why the last model call has stopped; `None` before its end.
    pub fn stop_reason(&self) -> Option<StopReason> {
        self.events.stop_reason()
    }

    /// Runs to the end and returns the turn. Drops the remaining events. Can be called repeatedly.
    ///
    /// # Errors
    /// As for [`Driver::run`].
    ///
    /// # Cancel safety
    /// An interrupted call drops events that arrived; polling it again continues the run.
    pub async fn turn(&mut self) -> Result<Arc<Turn>, UppError> {
        while self.outcome.is_none() {
            if self.next().await.is_none() {
                break;
            }
        }
        let unfinished = || Err(UppError::cancelled(""));
        self.outcome.clone().unwrap_or_else(unfinished)
    }

    /// True for an aborted run, unless it ended before the abort.
    fn is_silenced(&self) -> bool {
        self.cancellation.is_cancelled() && self.outcome.is_none()
    }

    /// Polls the run. Ready if it has ended.
    fn poll_work(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let Some(work) = &mut self.work else {
            return Poll::Ready(());
        };
        match work.as_mut().poll(context) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(outcome) => {
                if self.cancellation.is_cancelled() {
                    self.events.clear();
                }
                self.outcome = Some(outcome);
                // Releases the connection, the tools and the host of the run.
                self.work = None;
                Poll::Ready(())
            }
        }
    }
}

impl Stream for AgentStream {
    type Item = Result<AgentStreamEvent, UppError>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let stream = self.get_mut();
        if let Some(event) = stream.take_buffered() {
            return Poll::Ready(Some(Ok(event)));
        }
        let polled = stream.poll_work(context);
        if polled.is_pending() {
            // Registered before the queue is read again, so that a later event wakes the consumer.
            stream.events.register(context.waker());
        }
        if let Some(event) = stream.take_buffered() {
            return Poll::Ready(Some(Ok(event)));
        }
        match (polled, &stream.outcome) {
            (Poll::Pending, _) => Poll::Pending,
            (Poll::Ready(()), Some(Err(error))) if !stream.reported && !is_paused(error) => {
                stream.reported = true;
                Poll::Ready(Some(Err(error.clone())))
            }
            (Poll::Ready(()), _) => Poll::Ready(None),
        }
    }
}

/// A session's run that waits for approval has not failed: its stream ends, and only [`AgentStream::turn`] returns the
/// error.
fn is_paused(error: &UppError) -> bool {
    approval_required(error).is_some_and(|required| required.session_id.is_some())
}
