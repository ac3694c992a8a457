//! The thread that wakes event loops that cannot watch a file descriptor, by `call_soon_threadsafe`.
//!
//! That call needs the GIL, which a network thread must not take: it puts the waker into this thread's queue.

use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};

use crate::prelude::*;
use pyo3::intern;
use turntree_core::runtime::PerProcess;

use super::gil;
use super::loop_waker::{LoopWaker, WakeHandler};

/// The queue of the thread of this process. Without a lock: a network thread could hold it while the process forks, and
/// the child would wait for it.
static QUEUE: PerProcess<Sender<Arc<LoopWaker>>> = PerProcess::new();

/// Calls `call_soon_threadsafe` on the waker's loop, in the thread. Needs no GIL.
pub(crate) fn wake_loop(loop_waker: Arc<LoopWaker>) {
    // An error means that the system has no thread left, or that the process is exiting.
    if let Ok(queue) = QUEUE.get_or_try_create(start) {
        let _ = queue.send(loop_waker);
    }
}

/// Starts the thread. It ends when its queue is dropped or the process exits.
fn start() -> std::io::Result<Sender<Arc<LoopWaker>>> {
    let (sender, receiver) = channel::<Arc<LoopWaker>>();
    std::thread::Builder::new().name("turntree-waker".to_owned()).spawn(move || {
        for loop_waker in receiver {
            if gil::attach(|py| deliver(py, &loop_waker)).is_none() {
                // The process is exiting.
                return;
            }
        }
    })?;
    Ok(sender)
}

fn deliver(py: Python<'_>, loop_waker: &Arc<LoopWaker>) {
    let called = loop_waker.event_loop(py).map(|event_loop| {
        let listener = WakeHandler::once(py, Arc::clone(loop_waker))?;
        event_loop.call_method1(intern!(py, "call_soon_threadsafe"), (listener,))
    });
    // The loop is collected or closed: its messages cannot be processed.
    if !matches!(called, Some(Ok(_))) {
        gil::mark_held(py, || loop_waker.close());
    }
}
