//! `run_sync`: drives a future on the calling thread, without an event loop.
//!
//! It does not use asyncio on this thread, so it works inside a running loop (a notebook cell). It releases the GIL while
//! it waits. Async tools run on the background loop in another thread ([`super::background_loop`]).

use std::cell::Cell;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use crate::prelude::*;
use pyo3::intern;
use pyo3::sync::PyOnceLock;
use pyo3::types::PySet;

use super::coroutine::Coroutine;
use super::gc::GcRoots;
use super::gil::{self, lock};
use super::imports;
use super::loop_waker::LoopWaker;

/// How often the main thread checks for signals such as Ctrl-C, which do not end a wait on a condition variable.
const SIGNAL_INTERVAL: Duration = Duration::from_millis(50);

#[derive(Default)]
struct ThreadWaker {
    woken: Mutex<bool>,
    change: Condvar,
}

impl ThreadWaker {
    /// Waits until woken, or for `limit`. Returns whether it was woken, and consumes the wake-up.
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
/// The future's own error, or the exception of a Python signal handler (`KeyboardInterrupt`), which drops the future.
pub(crate) fn run_sync<T>(py: Python<'_>, future: impl Future<Output = PyResult<T>> + Send) -> PyResult<T>
where
    T: Send,
{
    // The future's destructors may call Python, so it is dropped in here too.
    gil::mark_held(py, || {
        // On the heap: timers refer to the future, and the thread may be ended without unwinding (see `thread_exit`).
        let mut future = Box::pin(future);
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

/// Runs `rest` to its end without a caller that waits for it: as a task of the running event loop, with this `name`. If no
/// loop is running here, as a task of `home`; without it, on this thread.
///
/// # Errors
/// The exception of starting the task.
pub(crate) fn run_in_background(
    py: Python<'_>,
    name: &'static str,
    home: Option<&Arc<LoopWaker>>,
    rest: Pin<Box<dyn Future<Output = ()> + Send>>,
) -> PyResult<()> {
    let rest = async move {
        rest.await;
        gil::require_held(|py| Ok(py.None()))
    };
    let is_on_loop = address_of_running_loop(py)? != 0 && !is_blocking_loop(py)?;
    let home = home.filter(|home| !home.is_closed());
    if !is_on_loop && home.is_none() {
        return if gil::is_exiting() { Ok(()) } else { run_sync(py, rest).map(drop) };
    }
    let coroutine = Coroutine::from_boxed(name, GcRoots::default(), Box::pin(rest));
    if is_on_loop {
        return start_task(py, coroutine);
    }
    if let Some(home) = home {
        home.call_soon(move |py| {
            if let Err(error) = start_task(py, coroutine) {
                error.write_unraisable(py, None);
            }
        });
    }
    Ok(())
}

/// Starts a task of the running loop. asyncio holds tasks weakly, so they are kept until they are done.
fn start_task(py: Python<'_>, coroutine: Coroutine) -> PyResult<()> {
    static TASKS: PyOnceLock<Py<PySet>> = PyOnceLock::new();
    let tasks = TASKS.get_or_try_init(py, || PySet::empty(py).map(Bound::unbind))?.bind(py);
    let task = imports::ensure_future(py)?.call1((coroutine,))?;
    tasks.add(&task)?;
    let forget = tasks.getattr(intern!(py, "discard"))?;
    task.call_method1(intern!(py, "add_done_callback"), (forget,)).map(drop)
}

thread_local! {
    /// Address of the event loop that is blocked while this thread drives a future; 0 for none.
    static BLOCKED: Cell<usize> = const { Cell::new(0) };
}

/// Whether the running loop of this thread is blocked by [`run_sync`]: waiting for that loop would never end.
pub(crate) fn is_blocking_loop(py: Python<'_>) -> PyResult<bool> {
    Ok(BLOCKED.get() != 0 && address_of_running_loop(py)? == BLOCKED.get())
}

fn address_of_running_loop(py: Python<'_>) -> PyResult<usize> {
    // If asyncio is not imported, no loop runs; this check does not import it.
    if !py.import(intern!(py, "sys"))?.getattr(intern!(py, "modules"))?.contains(intern!(py, "asyncio"))? {
        return Ok(0);
    }
    Ok(imports::running_loop(py)?.map_or(0, |event_loop| event_loop.as_ptr().addr()))
}

/// Marks the running loop as blocked until it is dropped.
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
