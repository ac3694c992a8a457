//! The queue between a function that sends events and the stream that reads them.
//!
//! The sender may be on any thread. It waits while the queue is full, by blocking or by a callback.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use turntree_core::message::StreamEvent;

/// Capacity of the queue, in events.
pub const CAPACITY: usize = 256;

/// The reader has closed the stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the reader has closed the stream; stop sending events")]
pub struct StreamClosed;

/// Called once when the queue has space again, or when the reader has closed the stream.
pub type SpaceCallback = Box<dyn FnOnce() + Send>;

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    /// Notifies blocked senders when there is space, or when the reader has closed the stream.
    has_space: Condvar,
}

#[derive(Default)]
struct State {
    events: VecDeque<StreamEvent>,
    waker: Option<Waker>,
    on_space: Option<SpaceCallback>,
    is_closed: bool,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notifies the senders that wait. The callback runs without the lock.
    fn notify_space(&self, on_space: Option<SpaceCallback>) {
        self.has_space.notify_all();
        if let Some(on_space) = on_space {
            on_space();
        }
    }
}

/// Sends events into a stream. Clones send into the same stream.
#[derive(Clone)]
pub struct EventSender(Arc<Shared>);

impl fmt::Debug for EventSender {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("EventSender")
    }
}

impl EventSender {
    /// Adds an event and returns whether there is space for another. A full queue still accepts events; wait with
    /// [`Self::wait`] or [`Self::on_space`] before the next one.
    ///
    /// # Errors
    /// [`StreamClosed`] if the reader has closed the stream.
    pub fn send(&self, event: StreamEvent) -> Result<bool, StreamClosed> {
        let (waker, has_space) = {
            let mut state = self.0.state();
            if state.is_closed {
                return Err(StreamClosed);
            }
            state.events.push_back(event);
            (state.waker.take(), state.events.len() < CAPACITY)
        };
        if let Some(waker) = waker {
            waker.wake();
        }
        Ok(has_space)
    }

    /// Blocks this thread until half of the queue is free.
    ///
    /// # Errors
    /// [`StreamClosed`] if the reader has closed the stream.
    pub fn wait(&self) -> Result<(), StreamClosed> {
        let is_full = |state: &mut State| state.events.len() > CAPACITY / 2 && !state.is_closed;
        let state = self.0.has_space.wait_while(self.0.state(), is_full);
        if state.unwrap_or_else(PoisonError::into_inner).is_closed { Err(StreamClosed) } else { Ok(()) }
    }

    /// Calls a function when half of the queue is free or the reader has closed the stream; at once if the queue is
    /// not full. Replaces a function that waits.
    pub fn on_space(&self, function: SpaceCallback) {
        {
            let mut state = self.0.state();
            if state.events.len() >= CAPACITY && !state.is_closed {
                state.on_space = Some(function);
                return;
            }
        }
        function();
    }
}

/// The reading end of the queue. Closes the stream when dropped.
pub(super) struct EventReceiver(Arc<Shared>);

impl EventReceiver {
    /// Creates a queue.
    pub(super) fn new() -> (EventSender, Self) {
        let shared = Arc::<Shared>::default();
        (EventSender(Arc::clone(&shared)), Self(shared))
    }

    /// Takes the next event. If there is none, stores the waker for the next one.
    pub(super) fn next(&self, waker: &Waker) -> Option<StreamEvent> {
        let mut state = self.0.state();
        let Some(event) = state.events.pop_front() else {
            state.waker = Some(waker.clone());
            return None;
        };
        if state.events.len() <= CAPACITY / 2 {
            let on_space = state.on_space.take();
            drop(state);
            self.0.notify_space(on_space);
        }
        Some(event)
    }
}

impl Drop for EventReceiver {
    fn drop(&mut self) {
        let on_space = {
            let mut state = self.0.state();
            state.is_closed = true;
            state.on_space.take()
        };
        self.0.notify_space(on_space);
    }
}
