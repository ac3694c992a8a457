//! The bridge between Rust futures and Python's event loops.
//!
//! A run of an agent is one Rust future. The thread of the event loop that awaits it polls it:
//! [`coroutine::Coroutine`] is a coroutine object whose `send` polls, [`stream::PyEventStream`] an asynchronous iterator
//! whose `anext` polls. Awaiting a ready value costs 0.5 µs, tools are called on the same thread, and a cancelled task has
//! dropped its future before it continues. Network I/O runs on other threads, which wake the loop through a file
//! descriptor ([`loop_waker`]). [`sync`] drives the same future without an event loop.
//!
//! The rules:
//!
//! 1. A network thread never takes the GIL. It wakes a [`task_waker`] or queues a callback for the loop's thread.
//! 2. Only [`gil`] attaches to the interpreter. It stops attaching threads when the process exits.
//! 3. Python is never called while one of our mutexes is locked: the call may release the GIL, and the thread that takes
//!    the GIL may need the mutex.
//! 4. A future or stream that is taken out to be polled is dropped, not put back, if the poll panics or its owner was
//!    closed in the meantime.
//! 5. Nothing is shared across a fork: wakers, threads and pools belong to the process that created them.
//! 6. Code that runs Python is protected from the unwinding of `pthread_exit` (`thread_exit`).
//! 7. Importing turntree does not import asyncio; the first use does.

pub(crate) mod background_loop;
pub(crate) mod call;
pub(crate) mod callbacks;
pub(crate) mod cleanup;
pub(crate) mod context;
pub(crate) mod coroutine;
pub(crate) mod gc;
pub(crate) mod gil;
pub(crate) mod imports;
mod iteration;
mod log_thread;
pub(crate) mod loop_waker;
mod pending_call;
#[cfg(feature = "bridge-selftest")]
#[path = "../../tests/python/bridge/selftest.rs"]
pub(crate) mod selftest;
mod source;
pub(crate) mod stream;
pub(crate) mod sync;
pub(crate) mod task_waker;
mod thread_exit;
mod thread_pool;
mod waker_thread;

use crate::prelude::*;

/// Installs what the bridge needs in a process: the handlers of its exit and of forks, and the logger of the crates.
///
/// # Errors
/// The exceptions of registering the handlers.
pub(crate) fn install(py: Python<'_>) -> PyResult<()> {
    gil::install(py)?;
    log_thread::install(py)
}
