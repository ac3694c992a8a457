//! Converts a future that emits events to a stream of events.
//!
//! The driver of a run is one future. [`driven`] polls it if no event is buffered, and returns all events of one poll
//! before it polls again.

use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use futures_util::Stream;

use crate::bridge::gil::lock;

/// Maximum number of buffered events; [`Emitter::send`] waits above it.
const CAPACITY: usize = 256;

/// The sending end of the driver. Cheap to clone.
pub(crate) struct Emitter<T>(Arc<Mutex<Queue<T>>>);

struct Queue<T> {
    ready: VecDeque<T>,
    /// The tasks that wait for capacity.
    waiting: Vec<Waker>,
}

impl<T> Clone for Emitter<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> Emitter<T> {
    /// Emits without waiting, also above the capacity.
    pub(crate) fn emit(&self, event: T) {
        lock(&self.0).ready.push_back(event);
    }

    /// Emits as soon as the buffer has capacity.
    ///
    /// # Cancel safety
    /// If the future is dropped before it is ready, the event is not emitted.
    pub(crate) async fn send(&self, event: T) {
        let mut event = Some(event);
        poll_fn(|context| {
            let mut queue = lock(&self.0);
            if queue.ready.len() >= CAPACITY {
                queue.waiting.push(context.waker().clone());
                return Poll::Pending;
            }
            queue.ready.extend(event.take());
            Poll::Ready(())
        })
        .await;
    }
}

/// The events of `drive`, then its error if it fails.
///
/// # Cancel safety
/// Dropping the stream drops the driver.
pub(crate) fn driven<T, E, F>(drive: impl FnOnce(Emitter<T>) -> F) -> DrivenStream<T, E, F>
where
    F: Future<Output = Result<(), E>>,
{
    let queue = Arc::new(Mutex::new(Queue { ready: VecDeque::new(), waiting: Vec::new() }));
    let driver = Box::pin(drive(Emitter(Arc::clone(&queue))));
    DrivenStream { driver: Some(driver), queue, failure: None }
}

/// The stream of [`driven`].
pub(crate) struct DrivenStream<T, E, F> {
    driver: Option<Pin<Box<F>>>,
    queue: Arc<Mutex<Queue<T>>>,
    /// The error of the driver, returned after the buffered events.
    failure: Option<E>,
}

impl<T, E, F> DrivenStream<T, E, F> {
    fn pop(&self) -> Option<T> {
        let mut queue = lock(&self.queue);
        let event = queue.ready.pop_front();
        if queue.ready.is_empty() && !queue.waiting.is_empty() {
            let waiting = std::mem::take(&mut queue.waiting);
            drop(queue);
            waiting.into_iter().for_each(Waker::wake);
        }
        event
    }
}

impl<T, E, F> Stream for DrivenStream<T, E, F>
where
    F: Future<Output = Result<(), E>>,
    // Only the boxed driver is pinned.
    T: Unpin,
    E: Unpin,
{
    type Item = Result<T, E>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if let Some(event) = self.pop() {
            return Poll::Ready(Some(Ok(event)));
        }
        let this = &mut *self;
        let Some(driver) = this.driver.as_mut() else { return Poll::Ready(this.failure.take().map(Err)) };
        let polled = driver.as_mut().poll(context);
        if polled.is_ready() {
            this.driver = None;
        }
        match (this.pop(), polled) {
            (Some(event), Poll::Ready(Err(error))) => {
                // The error comes after the events that were emitted before it.
                this.failure = Some(error);
                Poll::Ready(Some(Ok(event)))
            }
            (Some(event), _) => Poll::Ready(Some(Ok(event))),
            (None, Poll::Ready(Err(error))) => Poll::Ready(Some(Err(error))),
            (None, Poll::Ready(Ok(()))) => Poll::Ready(None),
            (None, Poll::Pending) => Poll::Pending,
        }
    }
}
