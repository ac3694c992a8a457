//! The bridge between Rust futures and Python's event loops.
//!
//! A run of an agent is one Rust future, and it is polled on the thread of the event loop that awaits it:
//! [`coroutine::Coroutine`] is a coroutine object whose `send` polls, [`stream::PyEventStream`] an asynchronous
//! iterator whose `anext` polls. So a ready value costs half a microsecond, tools are called where they are, and a
//! cancelled task has dropped its future before it goes on. Sockets live on other threads; what arrives there wakes
//! the loop through a file descriptor ([`loop_waker`]). [`sync`] drives the same future without an event loop.
//!
//! The laws:
//!
//! 1. A network thread never takes the GIL. It wakes a [`task_waker`] or posts an errand, and rings a bell.
//! 2. [`gil`] is the only room that attaches to the interpreter, and it closes when the process exits.
//! 3. Python is never called while one of our mutexes is locked: the call may give the GIL away, and who gets it may
//!    want the mutex.
//! 4. What is taken out to be polled is dropped, not put back, when the poll panics or the owner was closed meanwhile.
//! 5. Nothing outlives a fork: bells, threads and pools belong to the process that made them.
//! 6. asyncio is imported at first use, never when turntree is.

mod background_loop;
pub(crate) mod call;
pub(crate) mod callbacks;
pub(crate) mod context;
pub(crate) mod coroutine;
pub(crate) mod gc;
pub(crate) mod gil;
pub(crate) mod imports;
pub(crate) mod loop_waker;
mod pending_call;
#[cfg(feature = "bridge-selftest")]
#[path = "../../tests/python/bridge/selftest.rs"]
pub(crate) mod selftest;
mod source;
pub(crate) mod stream;
pub(crate) mod sync;
pub(crate) mod task_waker;
mod thread_pool;
mod waker_thread;

pub(crate) use gil::install;
