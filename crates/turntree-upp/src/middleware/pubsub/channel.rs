//! The buffer of one published stream. Publishers append; each subscriber reads at its own position.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use crate::error::UppError;
use turntree_core::message::{StreamEvent, Turn};

/// How a stream ended: with a turn (`None` if no language model was called) or with an error.
pub(super) type End = Result<Option<Arc<Turn>>, UppError>;

/// The buffer of one stream.
#[derive(Debug, Default)]
pub(super) struct Channel(Mutex<Buffer>);

#[derive(Debug, Default)]
struct Buffer {
    events: Vec<Arc<StreamEvent>>,
    end: Option<End>,
    waiting: HashMap<u64, Waker>,
    subscribers: u64,
}

/// The item at the position of a subscriber.
pub(super) enum StreamItem {
    Event(Arc<StreamEvent>),
    End(End),
}

impl Channel {
    fn lock(&self) -> MutexGuard<'_, Buffer> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A new key to wait with.
    pub(super) fn join(&self) -> u64 {
        let mut buffer = self.lock();
        buffer.subscribers += 1;
        buffer.subscribers
    }

    /// Removes a waiting subscriber.
    pub(super) fn leave(&self, key: u64) {
        let waker = self.lock().waiting.remove(&key);
        drop(waker);
    }

    /// Appends an event, unless the stream has ended.
    pub(super) fn publish(&self, event: StreamEvent) {
        let mut buffer = self.lock();
        if buffer.end.is_some() {
            return;
        }
        buffer.events.push(Arc::new(event));
        wake(buffer);
    }

    /// Ends the stream; the first end counts.
    pub(super) fn end(&self, end: End) -> bool {
        let mut buffer = self.lock();
        if buffer.end.is_some() {
            return false;
        }
        buffer.end = Some(end);
        wake(buffer);
        true
    }

    pub(super) fn is_over(&self) -> bool {
        self.lock().end.is_some()
    }

    /// The item at `place`; waits for it under `key`.
    pub(super) fn poll(&self, place: usize, key: u64, context: &Context<'_>) -> Poll<StreamItem> {
        let mut buffer = self.lock();
        if let Some(event) = buffer.events.get(place) {
            return Poll::Ready(StreamItem::Event(Arc::clone(event)));
        }
        if let Some(end) = &buffer.end {
            return Poll::Ready(StreamItem::End(end.clone()));
        }
        let replaced = buffer.waiting.insert(key, context.waker().clone());
        drop(buffer);
        drop(replaced);
        Poll::Pending
    }

    /// The end of the stream; waits for it under `key`.
    pub(super) fn poll_end(&self, key: u64, context: &Context<'_>) -> Poll<End> {
        match self.poll(usize::MAX, key, context) {
            Poll::Ready(StreamItem::End(end)) => Poll::Ready(end),
            Poll::Ready(StreamItem::Event(_)) | Poll::Pending => Poll::Pending,
        }
    }
}

/// Wakes all waiting subscribers after the lock is released, since a waker may run any code.
fn wake(mut buffer: MutexGuard<'_, Buffer>) {
    let waiting = std::mem::take(&mut buffer.waiting);
    drop(buffer);
    waiting.into_values().for_each(Waker::wake);
}
