//! [`EventSource`]: the Rust source of an event stream and the wakers of its readers. Independent of asyncio.

use std::collections::VecDeque;
use std::num::NonZeroUsize;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};

use crate::prelude::*;
use futures_util::Stream;
use pyo3::exceptions::{PyBaseException, PyRuntimeError};
use pyo3::pyclass::{PyTraverseError, PyVisit};
use pyo3::types::PyList;

use super::gil::{self, lock};

/// A source with its type erased. Items are converted when they are taken.
trait Source: Send {
    /// Polls for one more item.
    fn advance(&mut self, context: &mut Context<'_>) -> Poll<Advance>;
    /// Whether the source has ended. Items and an error may still be ready.
    fn is_over(&self) -> bool;
    /// Number of items that are ready.
    fn ready(&self) -> usize;
    /// Converts the oldest ready item.
    fn take(&mut self, py: Python<'_>) -> Option<PyResult<Py<PyAny>>>;
    /// The error that ended the source; to be raised after the ready items.
    fn take_error(&mut self, py: Python<'_>) -> Option<PyErr>;
    /// Visits that error, whose traceback may refer to the stream.
    fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError>;
}

enum Advance {
    Item,
    End,
}

struct Converting<S, T, C> {
    /// `None` after its end: a stream must not be polled again.
    stream: Option<Pin<Box<S>>>,
    ready: VecDeque<T>,
    error: Option<Py<PyBaseException>>,
    convert: C,
}

impl<S, T, C> Source for Converting<S, T, C>
where
    S: Stream<Item = PyResult<T>> + Send,
    T: Send,
    C: Fn(Python<'_>, T) -> PyResult<Py<PyAny>> + Send,
{
    fn advance(&mut self, context: &mut Context<'_>) -> Poll<Advance> {
        let Some(stream) = self.stream.as_mut() else { return Poll::Ready(Advance::End) };
        match stream.as_mut().poll_next(context) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Some(Ok(item))) => {
                self.ready.push_back(item);
                Poll::Ready(Advance::Item)
            }
            Poll::Ready(end) => {
                let error = end.and_then(Result::err);
                self.error = error.and_then(|error| gil::if_held(|py| error.into_value(py)));
                self.stream = None;
                Poll::Ready(Advance::End)
            }
        }
    }

    fn is_over(&self) -> bool {
        self.stream.is_none()
    }

    fn ready(&self) -> usize {
        self.ready.len()
    }

    fn take(&mut self, py: Python<'_>) -> Option<PyResult<Py<PyAny>>> {
        self.ready.pop_front().map(|item| (self.convert)(py, item))
    }

    fn take_error(&mut self, py: Python<'_>) -> Option<PyErr> {
        self.error.take().map(|error| PyErr::from_value(error.into_bound(py).into_any()))
    }

    fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.error)
    }
}

/// The wakers of all tasks that wait for the source.
#[derive(Default)]
struct Waiters(Mutex<Vec<Waker>>);

impl Waiters {
    fn add(&self, waker: &Waker) {
        let mut wakers = lock(&self.0);
        if !wakers.iter().any(|known| known.will_wake(waker)) {
            wakers.push(waker.clone());
        }
    }

    fn wake_others(&self, own: &Waker) {
        let others = {
            // Under one lock, or a wake-up could miss our own waker.
            let mut wakers = lock(&self.0);
            let (own, others) =
                std::mem::take(&mut *wakers).into_iter().partition::<Vec<_>, _>(|known| known.will_wake(own));
            *wakers = own;
            others
        };
        for waker in others {
            waker.wake();
        }
    }

    fn wake_all(&self) {
        let wakers = std::mem::take(&mut *lock(&self.0));
        for waker in wakers {
            waker.wake();
        }
    }
}

impl Wake for Waiters {
    fn wake(self: Arc<Self>) {
        self.wake_all();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.wake_all();
    }
}

/// The source that the Python objects of one stream share.
pub(super) struct EventSource {
    state: Mutex<SourceState>,
    waiters: Arc<Waiters>,
    /// The waker that the source is polled with. It wakes all waiters.
    waker: Waker,
}

enum SourceState {
    Idle(Box<dyn Source>),
    /// Taken out to be polled or converted. True if it was closed in the meantime.
    CheckedOut(bool),
    Closed,
}

/// The source while it is taken out. Puts it back when dropped.
struct SourceGuard<'a> {
    shared: &'a EventSource,
    source: Option<Box<dyn Source>>,
}

impl Drop for SourceGuard<'_> {
    fn drop(&mut self) {
        let Some(source) = self.source.take() else { return };
        let mut state = lock(&self.shared.state);
        // After a panic the source must not be polled again.
        let is_usable = matches!(*state, SourceState::CheckedOut(false)) && !std::thread::panicking();
        if is_usable {
            *state = SourceState::Idle(source);
        } else {
            *state = SourceState::Closed;
            drop(state);
            drop(source);
        }
    }
}

/// The result of a poll for events.
pub(super) enum Next {
    Value(Py<PyAny>),
    End,
}

impl EventSource {
    fn check_out(&self) -> PyResult<Option<SourceGuard<'_>>> {
        let mut state = lock(&self.state);
        match std::mem::replace(&mut *state, SourceState::CheckedOut(false)) {
            SourceState::Idle(source) => Ok(Some(SourceGuard { shared: self, source: Some(source) })),
            SourceState::Closed => {
                *state = SourceState::Closed;
                Ok(None)
            }
            SourceState::CheckedOut(closed) => {
                *state = SourceState::CheckedOut(closed);
                Err(PyRuntimeError::new_err("this stream is being advanced already"))
            }
        }
    }

    pub(super) fn new<S, T, C>(source: S, convert: C) -> Arc<Self>
    where
        S: Stream<Item = PyResult<T>> + Send + 'static,
        T: Send + 'static,
        C: Fn(Python<'_>, T) -> PyResult<Py<PyAny>> + Send + 'static,
    {
        let source =
            Converting { stream: Some(Box::pin(source)), ready: VecDeque::new(), error: None, convert };
        let waiters = Arc::new(Waiters::default());
        let waker = Waker::from(Arc::clone(&waiters));
        Arc::new(Self { state: Mutex::new(SourceState::Idle(Box::new(source))), waiters, waker })
    }

    /// One event, or with `batch` a list of the events that are ready, at most that many. Needs the GIL.
    pub(super) fn poll_events(
        &self,
        py: Python<'_>,
        batch: Option<NonZeroUsize>,
        waker: &Waker,
    ) -> Poll<PyResult<Next>> {
        let Some(mut out) = self.check_out()? else { return Poll::Ready(Ok(Next::End)) };
        let Some(source) = out.source.as_mut() else { return Poll::Ready(Ok(Next::End)) };
        let wanted = batch.map_or(1, NonZeroUsize::get);
        let ended = gil::mark_held(py, || self.fill(source.as_mut(), wanted, waker));
        let answer = match batch {
            _ if source.ready() == 0 => {
                if ended.is_pending() {
                    return Poll::Pending;
                }
                source.take_error(py).map_or(Ok(Next::End), Err)
            }
            None => source.take(py).map_or(Ok(Next::End), |item| item.map(Next::Value)),
            Some(limit) => take_batch(py, source.as_mut(), limit).map(Next::Value),
        };
        gil::mark_held(py, || drop(out));
        Poll::Ready(answer)
    }

    /// Polls until `wanted` items are ready or the source is pending; `Ready` if it has ended.
    fn fill(&self, source: &mut dyn Source, wanted: usize, waker: &Waker) -> Poll<()> {
        if source.ready() >= wanted {
            return Poll::Pending;
        }
        self.waiters.add(waker);
        let mut context = Context::from_waker(&self.waker);
        while source.ready() < wanted {
            match source.advance(&mut context) {
                Poll::Ready(Advance::Item) => {}
                Poll::Ready(Advance::End) => {
                    // Wakes the tasks that wait for the end.
                    self.waiters.wake_all();
                    return Poll::Ready(());
                }
                Poll::Pending => return Poll::Pending,
            }
        }
        Poll::Pending
    }

    /// Drives the source to its end, independently of the reader.
    pub(super) fn poll_finished(&self, context: &Context<'_>) -> Poll<PyResult<()>> {
        let Some(mut out) = self.check_out()? else { return Poll::Ready(Ok(())) };
        let Some(source) = out.source.as_mut() else { return Poll::Ready(Ok(())) };
        let before = source.ready();
        let ended = self.fill(source.as_mut(), usize::MAX, context.waker());
        if source.ready() > before {
            self.waiters.wake_others(context.waker());
        }
        ended.map(Ok)
    }

    /// Whether the source has ended or is closed.
    pub(super) fn is_over(&self) -> bool {
        match &*lock(&self.state) {
            SourceState::Idle(source) => source.is_over(),
            SourceState::CheckedOut(closed) => *closed,
            SourceState::Closed => true,
        }
    }

    /// For `__traverse__` of the Python object that owns the stream.
    pub(super) fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        // The collector must not wait for a lock; its holder is in use.
        match self.state.try_lock().as_deref() {
            Ok(SourceState::Idle(source)) => source.traverse(visit),
            _ => Ok(()),
        }
    }

    /// Drops the source. Readers see the end of the stream.
    pub(super) fn close(&self) {
        let source = {
            let mut state = lock(&self.state);
            match std::mem::replace(&mut *state, SourceState::Closed) {
                SourceState::Idle(source) => Some(source),
                SourceState::CheckedOut(_) => {
                    *state = SourceState::CheckedOut(true);
                    None
                }
                SourceState::Closed => None,
            }
        };
        drop(source);
        self.waiters.wake_all();
    }
}

impl Drop for EventSource {
    fn drop(&mut self) {
        let state = std::mem::replace(&mut *lock(&self.state), SourceState::Closed);
        if let SourceState::Idle(source) = state {
            gil::in_destructor(|| drop(source));
        }
    }
}

fn take_batch(py: Python<'_>, source: &mut dyn Source, limit: NonZeroUsize) -> PyResult<Py<PyAny>> {
    let list = PyList::empty(py);
    while list.len() < limit.get() {
        let Some(item) = source.take(py) else { break };
        list.append(item?)?;
    }
    Ok(list.into_any().unbind())
}
