//! The queue of events between the drivers of a run and its consumer.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

use futures_util::future::poll_fn;
use futures_util::task::AtomicWaker;

use crate::host::progress::TOOL_EXECUTION_PROGRESS;
use crate::types::event::{AgentStreamEvent, SubAgentEvent, SubAgentRun};
use turntree_core::message::Delta;
use turntree_upp::StopReason;

/// Events that can wait before the model's stream is paused. One wake-up of an event loop delivers all of them.
const CAPACITY: usize = 256;

/// Events on their way from drivers to the consumer of a stream. An [`AgentStream`](crate::driver::AgentStream)
/// creates the queue.
#[derive(Debug, Default)]
pub struct EventQueue {
    waiting: Arc<Waiting>,
    /// The sub-agent whose events are added through this handle.
    sub_agent: Option<Arc<SubAgentRun>>,
    /// Why the last model call of the run has stopped.
    stop_reason: Mutex<Option<StopReason>>,
}

#[derive(Debug, Default)]
struct Waiting {
    events: Mutex<VecDeque<AgentStreamEvent>>,
    /// The consumer, while it waits for events that do not come from the run it polls.
    consumer: AtomicWaker,
}

impl EventQueue {
    fn lock(&self) -> MutexGuard<'_, VecDeque<AgentStreamEvent>> {
        self.waiting.events.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A handle to the same queue for the events of a sub-agent.
    pub(crate) fn of_sub_agent(&self, run: Arc<SubAgentRun>) -> Self {
        Self { waiting: Arc::clone(&self.waiting), sub_agent: Some(run), stop_reason: Mutex::default() }
    }

    /// Stores why a model call of the run has stopped.
    pub(crate) fn set_stop_reason(&self, reason: StopReason) {
        *self.stop_reason.lock().unwrap_or_else(PoisonError::into_inner) = Some(reason);
    }

    /// Why the last model call of the run has stopped.
    pub(crate) fn stop_reason(&self) -> Option<StopReason> {
        *self.stop_reason.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn attributed(&self, event: AgentStreamEvent) -> AgentStreamEvent {
        match &self.sub_agent {
            None => event,
            Some(run) => AgentStreamEvent::SubAgent(Box::new(SubAgentEvent { run: Arc::clone(run), event })),
        }
    }

    /// Adds an event. Never waits: tools and steps send few events.
    pub(crate) fn push(&self, event: AgentStreamEvent) {
        self.lock().push_back(self.attributed(event));
    }

    /// Adds an event that does not come from the run that the consumer polls.
    pub(crate) fn push_and_wake(&self, event: AgentStreamEvent) {
        self.push(event);
        self.waiting.consumer.wake();
    }

    /// Adds a progress event, on any thread, and wakes the consumer. If the queue is full, the event replaces the last
    /// waiting progress event of the same call.
    pub(crate) fn push_progress(&self, event: AgentStreamEvent) {
        let event = self.attributed(event);
        let mut events = self.lock();
        let full = events.len() >= CAPACITY;
        match events.iter_mut().rev().find(|waiting| full && is_same_progress(waiting, &event)) {
            Some(waiting) => *waiting = event,
            None => events.push_back(event),
        }
        drop(events);
        self.waiting.consumer.wake();
    }

    /// Waits until the queue has capacity. Needs no waker: the consumer takes events before it polls the driver.
    pub(crate) async fn wait_for_capacity(&self) {
        poll_fn(|_| if self.has_capacity() { Poll::Ready(()) } else { Poll::Pending }).await;
    }

    /// True if the queue has capacity.
    pub(crate) fn has_capacity(&self) -> bool {
        self.lock().len() < CAPACITY
    }

    /// Waits until the queue is empty. Needs no waker, as [`Self::wait_for_capacity`].
    pub(crate) async fn wait_until_empty(&self) {
        poll_fn(|_| if self.lock().is_empty() { Poll::Ready(()) } else { Poll::Pending }).await;
    }

    /// Removes all events.
    pub(crate) fn clear(&self) {
        self.lock().clear();
    }

    /// Registers the waker of the consumer. Events that do not come from the run it polls wake it.
    pub(crate) fn register(&self, waker: &Waker) {
        self.waiting.consumer.register(waker);
    }

    pub(crate) fn pop(&self) -> Option<AgentStreamEvent> {
        self.lock().pop_front()
    }
}

/// True if both events report progress of the same call.
fn is_same_progress(one: &AgentStreamEvent, other: &AgentStreamEvent) -> bool {
    let progress_of = |event: &AgentStreamEvent| match event.as_upp().map(|event| &event.delta) {
        Some(Delta::Unknown { kind, delta }) if **kind == *TOOL_EXECUTION_PROGRESS => {
            Some((event.sub_agent().map(|run| Arc::clone(&run.turn_id)), delta.get("toolCallId").cloned()))
        }
        _ => None,
    };
    progress_of(one).is_some_and(|one| Some(one) == progress_of(other))
}
