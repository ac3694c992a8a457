//! `run_sync`: the same future, driven by the calling thread without any event loop.
//!
//! Nothing of asyncio is touched on this thread, so it works inside a running loop (a notebook cell). The GIL is
//! released while waiting. Async tools run on a loop of ours in another thread ([`super::helper_loop`]).

use std::cell::Cell;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use pyo3::intern;
use pyo3::prelude::*;

use super::coroutine::Coroutine;
use super::gc::GcRoots;
use super::gil::{self, lock};
use super::imports;

/// How soon Ctrl-C is noticed. A signal does not end a wait on a condition variable, so the main thread looks.
const SIGNAL_INTERVAL: Duration = Duration::from_millis(50);

#[derive(Default)]
struct ThreadWaker {
    woken: Mutex<bool>,
    change: Condvar,
}

impl ThreadWaker {
    /// Waits until woken, or until `limit` is over. Tells whether it was woken, and consumes the wake-up.
    fn wait(&self, limit: Option<Duration>) -> bool {
        let woken = lock(&self.woken);
        let mut woken = match limit {
            Some(limit) => {
                let waited = self.change.wait_timeout_while(woken, limit, |woken| !*woken);
                waited.unwrap_or_else(PoisonError::into_inner).0
            }
            None => self.change.wait_while(woken, |woken| !*woken).unwrap_or_else(PoisonError::into_inner),
        };
        std::mem::take(&mut *woken)
    }
}

impl Wake for ThreadWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        *lock(&self.woken) = true;
        self.change.notify_one();
    }
}

/// Drives `future` to its end on this thread.
///
/// # Errors
/// The future's own error, or what a Python signal handler raised meanwhile (`KeyboardInterrupt`): the future is
/// dropped then, and with it everything behind it.
pub(crate) fn run_sync<T>(py: Python<'_>, future: impl Future<Output = PyResult<T>> + Send) -> PyResult<T>
where
    T: Send,
{
    // The future must also be dropped where its destructors may call Python.
    gil::mark_held(py, || {
        let mut future = pin!(future);
        block_on(py, |context| future.as_mut().poll(context))
    })
}

/// As [`run_sync`], for anything that can be polled.
pub(crate) fn block_on<T>(
    py: Python<'_>,
    mut poll: impl FnMut(&mut Context<'_>) -> Poll<PyResult<T>>,
) -> PyResult<T> {
    let thread_waker = Arc::new(ThreadWaker::default());
    let waker = Waker::from(Arc::clone(&thread_waker));
    let mut context = Context::from_waker(&waker);
    let mut signals = None;
    let _blocking = BlockedLoop::begin(py)?;
    loop {
        if let Poll::Ready(outcome) = gil::mark_held(py, || poll(&mut context)) {
            return outcome;
        }
        let receives_signals = match signals {
            Some(known) => known,
            None => *signals.insert(is_main_thread(py)?),
        };
        let limit = receives_signals.then_some(SIGNAL_INTERVAL);
        while !py.detach(|| thread_waker.wait(limit)) {
            py.check_signals()?;
        }
        py.check_signals()?;
    }
}

/// Has `rest` run to its end with nobody waiting for it: as a task of the event loop that runs here, which is called
/// `name`; without one, on this thread and now.
///
/// # Errors
/// What starting the task raises.
pub(crate) fn run_in_background(
    py: Python<'_>,
    name: &'static str,
    rest: Pin<Box<dyn Future<Output = ()> + Send>>,
) -> PyResult<()> {
    let rest = async move {
        rest.await;
        gil::require_held(|py| Ok(py.None()))
    };
    if address_of_running_loop(py)? == 0 || is_blocking_loop(py)? {
        return run_sync(py, rest).map(drop);
    }
    let coroutine = Coroutine::from_boxed(name, GcRoots::default(), Box::pin(rest));
    imports::ensure_future(py)?.call1((coroutine,)).map(drop)
}

thread_local! {
    /// The event loop that stands still while this thread drives a future; its address, 0 for none.
    static BLOCKED: Cell<usize> = const { Cell::new(0) };
}

/// Whether the running loop of this thread waits for what this thread drives: nothing may wait for it in turn.
pub(crate) fn is_blocking_loop(py: Python<'_>) -> PyResult<bool> {
    Ok(BLOCKED.get() != 0 && address_of_running_loop(py)? == BLOCKED.get())
}

fn address_of_running_loop(py: Python<'_>) -> PyResult<usize> {
    // Where asyncio was never imported no loop runs, and it need not be imported to know that.
    if !py.import(intern!(py, "sys"))?.getattr(intern!(py, "modules"))?.contains(intern!(py, "asyncio"))? {
        return Ok(0);
    }
    Ok(imports::running_loop(py)?.map_or(0, |event_loop| event_loop.as_ptr().addr()))
}

/// Marks the running loop as blocked while it lives.
struct BlockedLoop(usize);

impl BlockedLoop {
    fn begin(py: Python<'_>) -> PyResult<Self> {
        Ok(Self(BLOCKED.replace(address_of_running_loop(py)?)))
    }
}

impl Drop for BlockedLoop {
    fn drop(&mut self) {
        BLOCKED.set(self.0);
    }
}

fn is_main_thread(py: Python<'_>) -> PyResult<bool> {
    let main = imports::main_thread(py)?.call0()?.getattr(intern!(py, "ident"))?;
    imports::get_ident(py)?.call0()?.eq(main)
}
