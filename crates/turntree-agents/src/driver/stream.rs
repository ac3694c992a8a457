//! A run with somebody listening. UAP-1.0 §12.
//!
//! The stream drives the run itself: events wait in a bounded queue, and while any wait the run is not polled. So
//! there is no task, no channel and no wake-up between the model's bytes and the listener.

use std::collections::VecDeque;
use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use futures_util::future::{BoxFuture, poll_fn};
use futures_util::task::AtomicWaker;
use futures_util::{Stream, StreamExt as _};
use tokio_util::sync::CancellationToken;

use crate::driver::run_loop::{Driver, drive};
use crate::host::progress::TOOL_EXECUTION_PROGRESS;
use crate::machine::machine::Machine;
use crate::types::approval::approval_required;
use crate::types::event::{AgentStreamEvent, SubAgentEvent, SubAgentRun};
use crate::types::partial_output::PartialOutput;
use crate::types::structure::Structure;
use turntree_core::message::{Delta, Turn};
use turntree_upp::UppError;

/// Events that may wait before the model's stream is held back. One wake-up of an event loop hands over all of them.
const CAPACITY: usize = 256;

/// Events between drivers and the listener. Made by [`AgentStream`]; drivers hand it on.
#[derive(Debug, Default)]
pub struct EventQueue {
    waiting: Arc<Waiting>,
    /// Whose events are added here, where that is not the agent that is listened to.
    sub_agent: Option<Arc<SubAgentRun>>,
}

#[derive(Debug, Default)]
struct Waiting {
    events: Mutex<VecDeque<AgentStreamEvent>>,
    /// The listener, while it waits: for events that do not come from the run it polls.
    listener: AtomicWaker,
}

impl EventQueue {
    fn lock(&self) -> MutexGuard<'_, VecDeque<AgentStreamEvent>> {
        self.waiting.events.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The same queue for the events of a sub-agent.
    pub(crate) fn of_sub_agent(&self, run: Arc<SubAgentRun>) -> Self {
        Self { waiting: Arc::clone(&self.waiting), sub_agent: Some(run) }
    }

    fn attributed(&self, event: AgentStreamEvent) -> AgentStreamEvent {
        match &self.sub_agent {
            None => event,
            Some(run) => AgentStreamEvent::SubAgent(Box::new(SubAgentEvent { run: Arc::clone(run), event })),
        }
    }

    /// Adds an event. Never waits: events of tools and steps are few.
    pub(crate) fn push(&self, event: AgentStreamEvent) {
        self.lock().push_back(self.attributed(event));
    }

    /// Adds the progress of a tool, from whichever thread that is on, and wakes the listener. Where too many events wait,
    /// the new progress takes the place of the last one that waits for the same call.
    pub(crate) fn push_progress(&self, event: AgentStreamEvent) {
        let event = self.attributed(event);
        let mut events = self.lock();
        let full = events.len() >= CAPACITY;
        match events.iter_mut().rev().find(|waiting| full && is_same_progress(waiting, &event)) {
            Some(waiting) => *waiting = event,
            None => events.push_back(event),
        }
        drop(events);
        self.waiting.listener.wake();
    }

    /// Waits until the listener has taken what is there, when that is too much. Needs no waker: the listener takes
    /// before it polls the driver.
    pub(crate) async fn room(&self) {
        poll_fn(|_| if self.has_room() { Poll::Ready(()) } else { Poll::Pending }).await;
    }

    /// Whether the listener can be given more before it has taken what is there.
    pub(super) fn has_room(&self) -> bool {
        self.lock().len() < CAPACITY
    }

    /// Waits until the listener has taken all that is there. Needs no waker, as [`Self::room`].
    pub(super) async fn taken(&self) {
        poll_fn(|_| if self.lock().is_empty() { Poll::Ready(()) } else { Poll::Pending }).await;
    }

    fn pop(&self) -> Option<AgentStreamEvent> {
        self.lock().pop_front()
    }
}

/// Whether both tell how far the same call is.
fn is_same_progress(one: &AgentStreamEvent, other: &AgentStreamEvent) -> bool {
    let told = |event: &AgentStreamEvent| match event.as_upp().map(|event| &event.delta) {
        Some(Delta::Unknown { kind, delta }) if **kind == *TOOL_EXECUTION_PROGRESS => {
            Some((event.sub_agent().map(|run| Arc::clone(&run.turn_id)), delta.get("toolCallId").cloned()))
        }
        _ => None,
    };
    told(one).is_some_and(|one| Some(one) == told(other))
}

/// Who listens to a run, and may stop it.
#[derive(Debug, Clone)]
pub(crate) struct Listener {
    pub(crate) events: Arc<EventQueue>,
    pub(crate) cancellation: CancellationToken,
}

impl Listener {
    /// A driver that tells the listener everything.
    pub(crate) fn attach(&self, drive: Driver) -> Driver {
        let (events, cancellation) = (Arc::clone(&self.events), self.cancellation.clone());
        Driver { events: Some(events), cancellation: Some(cancellation), ..drive }
    }
}

/// A run as a stream of its events.
///
/// Lazy: nothing is sent before it is polled. May be polled on any executor. After an error it ends; after
/// [`AgentStream::abort`] it ends without one.
///
/// # Cancel safety
/// Polling may be interrupted anywhere; no event is lost. Dropping the stream stops the run: model call and tools are
/// dropped.
pub struct AgentStream {
    work: Option<BoxFuture<'static, Result<Arc<Turn>, UppError>>>,
    events: Arc<EventQueue>,
    cancellation: CancellationToken,
    answer: Arc<PartialOutput>,
    outcome: Option<Result<Arc<Turn>, UppError>>,
    /// The error has been given to whoever iterates.
    reported: bool,
}

impl fmt::Debug for AgentStream {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("AgentStream").field("outcome", &self.outcome).finish_non_exhaustive()
    }
}

impl AgentStream {
    /// A stream of a run that has not started, or goes on.
    pub fn new(mut machine: Machine, context: Driver) -> Self {
        let (outer, structure) = (context.cancellation.clone(), context.structure.clone());
        Self::of(outer.as_ref(), structure.as_deref(), |listener| {
            let context = listener.attach(context);
            Box::pin(async move { drive(&mut machine, &context).await })
        })
    }

    /// A stream of whatever work drives a run with the listener attached. `outer` aborts it from elsewhere;
    /// `structure` is what its answer must look like.
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

    /// Stops the run: the stream ends, and [`Self::turn`] gives what there is. UAP-1.0 §12.5, decision A56.
    ///
    /// Events that have not been taken are dropped. No effect on a run that is over.
    pub fn abort(&self) {
        self.cancellation.cancel();
    }

    /// What aborts the run from elsewhere: cancelling it is [`Self::abort`].
    pub const fn abort_token(&self) -> &CancellationToken {
        &self.cancellation
    }

    /// An event that is there already, without driving the run.
    pub fn take_buffered(&mut self) -> Option<AgentStreamEvent> {
        let event = if self.is_silenced() { None } else { self.events.pop() };
        if let Some(AgentStreamEvent::Upp(event)) = &event {
            self.answer.hear(event);
        }
        event
    }

    /// The structured answer so far, by the events that were taken; for whoever looks on.
    pub const fn answer(&self) -> &Arc<PartialOutput> {
        &self.answer
    }

    /// The turn, when the run is over.
    pub const fn outcome(&self) -> Option<&Result<Arc<Turn>, UppError>> {
        self.outcome.as_ref()
    }

    /// Drives the run to its end and gives its turn. Events that nobody takes are dropped. May be asked again.
    ///
    /// # Errors
    /// As [`drive()`].
    ///
    /// # Cancel safety
    /// Interrupted, it drops the events that came meanwhile; the run goes on when it is polled again.
    pub async fn turn(&mut self) -> Result<Arc<Turn>, UppError> {
        while self.outcome.is_none() {
            if self.next().await.is_none() {
                break;
            }
        }
        let unfinished = || Err(UppError::cancelled(""));
        self.outcome.clone().unwrap_or_else(unfinished)
    }

    /// An aborted run has nothing more to say, unless it was over before.
    fn is_silenced(&self) -> bool {
        self.cancellation.is_cancelled() && self.outcome.is_none()
    }

    /// Drives the run until it waits or is over.
    fn poll_work(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let Some(work) = &mut self.work else {
            return Poll::Ready(());
        };
        match work.as_mut().poll(context) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(outcome) => {
                if self.cancellation.is_cancelled() {
                    self.events.lock().clear();
                }
                self.outcome = Some(outcome);
                // What the run holds (connection, tools, host) is given up with it.
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
            // Before the last look: what comes after it wakes.
            stream.events.waiting.listener.register(context.waker());
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

/// A run of a session that waits for decisions has not failed: its stream ends, and whoever asks for the turn is told.
fn is_paused(error: &UppError) -> bool {
    approval_required(error).is_some_and(|required| required.session_id.is_some())
}
