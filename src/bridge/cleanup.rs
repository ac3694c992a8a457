//! [`CleanupScope`]: the cancelled Python calls of a run that have not ended.
//!
//! Cancelling a task only requests its end: its `finally` blocks run in later iterations of the event loop. A function
//! in a thread cannot be cancelled at all. A run that is polled is inside its scope, and so are the calls that it starts.
//! If such a call is dropped before its end, the scope counts it until it has ended, so that the owner of the run can wait
//! for it ([`CleanupScope::settled`]). After the time limit of the scope, the wait ends with a warning.

use std::borrow::Cow;
use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use crate::prelude::*;
use pyo3::intern;

use super::gil::{self, lock};
use super::loop_waker::LoopWaker;
use super::sync;
use turntree_core::runtime;

/// How long a run waits for cancelled calls if the application sets no limit.
pub(crate) const DEFAULT_TIMEOUT: Duration = Duration::from_secs(5);

/// The logger of the warnings.
const LOGGER: &str = "turntree.tools";

thread_local! {
    /// The scope of the run that this thread polls.
    static CURRENT: RefCell<Option<CleanupScope>> = const { RefCell::new(None) };
}

/// The cancelled calls of one run; see the module documentation. Clones share them.
#[derive(Clone)]
pub(crate) struct CleanupScope(Arc<Shared>);

struct Shared {
    timeout: Duration,
    /// A scope that counts the same calls: that of the session.
    enclosing: Option<CleanupScope>,
    state: Mutex<State>,
}

/// Python must not be called while this is locked.
#[derive(Default)]
struct State {
    last_id: u64,
    calls: Vec<CancelledCall>,
    waiters: Vec<Waker>,
}

/// A call that was cancelled and has not ended.
#[derive(Clone)]
pub(super) struct CancelledCall {
    id: u64,
    /// What the warning calls it.
    name: Cow<'static, str>,
    deadline: Instant,
    is_reported: Arc<AtomicBool>,
    /// True for a function in a thread, which does not observe its cancellation.
    is_in_thread: bool,
    /// The loop that has to run so that the call can end.
    loop_waker: Option<Arc<LoopWaker>>,
}

/// The calls that a wait is for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Waits {
    /// All calls.
    AllCalls,
    /// Calls that observe their cancellation; not functions in threads.
    Tasks,
}

impl CleanupScope {
    /// A scope whose calls delay their run for at most `timeout`.
    pub(crate) fn new(timeout: Duration) -> Self {
        Self(Arc::new(Shared { timeout, enclosing: None, state: Mutex::default() }))
    }

    /// A scope inside of this one, which counts the same calls.
    pub(crate) fn nested(&self, timeout: Duration) -> Self {
        Self(Arc::new(Shared { timeout, enclosing: Some(self.clone()), state: Mutex::default() }))
    }

    /// The scope of the run that this thread polls.
    pub(super) fn current() -> Option<Self> {
        CURRENT.try_with(|current| current.borrow().clone()).ok().flatten()
    }

    /// Runs `work` inside the scope.
    pub(crate) fn enter<R>(&self, work: impl FnOnce() -> R) -> R {
        struct Restore(Option<CleanupScope>);
        impl Drop for Restore {
            fn drop(&mut self) {
                let inner = CURRENT.try_with(|current| current.replace(self.0.take()));
                drop(inner);
            }
        }
        let before = CURRENT.try_with(|current| current.replace(Some(self.clone())));
        let _restore = Restore(before.ok().flatten());
        work()
    }

    /// Runs `future` inside the scope, then waits for its cancelled calls.
    ///
    /// # Cancel safety
    /// Dropping it drops `future`; its calls stay in the scope.
    pub(crate) async fn run<F: Future>(&self, future: F) -> F::Output {
        let output = {
            let mut future = pin!(future);
            poll_fn(|context| self.enter(|| future.as_mut().poll(context))).await
        };
        if !self.is_settled() {
            self.settled(Waits::AllCalls).await;
        }
        output
    }

    /// Whether all calls have ended.
    pub(crate) fn is_settled(&self) -> bool {
        lock(&self.0.state).calls.is_empty()
    }

    /// Ready when the cancelled calls have ended, or when their time is over. Poll it with the GIL held.
    pub(crate) fn settled(&self, waits: Waits) -> Settled {
        Settled { scope: self.clone(), waits, timer: None }
    }

    /// Counts a call until the guard is dropped. `name` is for the warning.
    pub(super) fn count(
        &self,
        name: Cow<'static, str>,
        is_in_thread: bool,
        loop_waker: Option<Arc<LoopWaker>>,
    ) -> CancelledCallGuard {
        let deadline = Instant::now() + self.0.timeout;
        let is_reported = Arc::new(AtomicBool::new(false));
        self.add(CancelledCall { id: 0, name, deadline, is_reported, is_in_thread, loop_waker })
    }

    fn add(&self, call: CancelledCall) -> CancelledCallGuard {
        let outer = self.0.enclosing.as_ref().map(|scope| Box::new(scope.add(call.clone())));
        let mut state = lock(&self.0.state);
        state.last_id = state.last_id.wrapping_add(1);
        let id = state.last_id;
        state.calls.push(CancelledCall { id, ..call });
        drop(state);
        CancelledCallGuard { scope: self.clone(), id, _outer: outer }
    }

    /// Removes the calls that need no wait, and those whose time is over, which it returns.
    fn remove_overdue(&self, blocked: Option<&Arc<LoopWaker>>, now: Instant) -> Vec<CancelledCall> {
        let mut state = lock(&self.0.state);
        let can_end = |call: &CancelledCall| {
            call.loop_waker.as_ref().is_none_or(|own| {
                !own.is_closed() && blocked.is_none_or(|blocked| !Arc::ptr_eq(own, blocked))
            })
        };
        state.calls.retain(can_end);
        let (overdue, rest) =
            std::mem::take(&mut state.calls).into_iter().partition(|call| call.deadline <= now);
        state.calls = rest;
        overdue
    }

    /// Adds a waiter. Returns the time until the first deadline of the calls to wait for, or `None` without such a call.
    fn wait(&self, waits: Waits, now: Instant, waker: &Waker) -> Option<Duration> {
        let mut state = lock(&self.0.state);
        let awaited = state.calls.iter().filter(|call| waits == Waits::AllCalls || !call.is_in_thread);
        let first = awaited.map(|call| call.deadline).min()?;
        if !state.waiters.iter().any(|known| known.will_wake(waker)) {
            state.waiters.push(waker.clone());
        }
        Some(first.saturating_duration_since(now))
    }

    fn report(&self, py: Python<'_>, calls: &[CancelledCall]) -> PyResult<()> {
        for call in calls.iter().filter(|call| !call.is_reported.swap(true, Ordering::Relaxed)) {
            let logger =
                py.import(intern!(py, "logging"))?.call_method1(intern!(py, "getLogger"), (LOGGER,))?;
            let message = "%s has not ended %.3g s after its cancellation; the run no longer waits for it. Let its \
                           cleanup end sooner, or raise cleanup_timeout";
            let arguments = (message, call.name.as_ref(), self.0.timeout.as_secs_f64());
            logger.call_method1(intern!(py, "warning"), arguments)?;
        }
        Ok(())
    }
}

/// The future of [`CleanupScope::settled`].
pub(crate) struct Settled {
    scope: CleanupScope,
    waits: Waits,
    timer: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

impl Future for Settled {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let this = self.get_mut();
        if this.scope.is_settled() {
            return Poll::Ready(());
        }
        // Calls on a loop that this thread blocks cannot end while it waits for them.
        let blocked = gil::if_held(|py| match sync::is_blocking_loop(py) {
            Ok(true) => LoopWaker::current(py).ok().flatten().map(|(_, loop_waker)| loop_waker),
            _ => None,
        });
        let blocked = blocked.flatten();
        loop {
            let now = Instant::now();
            let overdue = this.scope.remove_overdue(blocked.as_ref(), now);
            if !overdue.is_empty() {
                gil::if_held(|py| {
                    if let Err(error) = this.scope.report(py, &overdue) {
                        error.write_unraisable(py, None);
                    }
                });
            }
            let Some(limit) = this.scope.wait(this.waits, now, context.waker()) else {
                return Poll::Ready(());
            };
            let timer = this.timer.get_or_insert_with(|| Box::pin(runtime::sleep(limit)));
            if timer.as_mut().poll(context).is_pending() {
                return Poll::Pending;
            }
            this.timer = None;
        }
    }
}

/// A call that its scope counts. Dropping the guard says that the call has ended.
pub(crate) struct CancelledCallGuard {
    scope: CleanupScope,
    id: u64,
    _outer: Option<Box<Self>>,
}

impl Drop for CancelledCallGuard {
    fn drop(&mut self) {
        let waiters = {
            let mut state = lock(&self.scope.0.state);
            state.calls.retain(|call| call.id != self.id);
            std::mem::take(&mut state.waiters)
        };
        for waiter in waiters {
            waiter.wake();
        }
    }
}

/// Counts background work of the run that this thread polls, until the guard is dropped.
pub(crate) fn count_in_current_scope(py: Python<'_>, name: &'static str) -> Option<CancelledCallGuard> {
    let loop_waker = LoopWaker::current(py).ok().flatten().map(|(_, loop_waker)| loop_waker);
    CleanupScope::current().map(|scope| scope.count(Cow::Borrowed(name), false, loop_waker))
}
