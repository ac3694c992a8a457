//! The thread that wakes event loops that cannot watch a file descriptor, by `call_soon_threadsafe`.
//!
//! That call needs the GIL, which a network thread must not take: it puts the waker into this thread's queue.

use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};

use pyo3::intern;
use pyo3::prelude::*;

use super::gil::{self, lock};
use super::loop_waker::{LoopWaker, WakeHandler};

/// The queue of the thread of this process; a forked child starts its own.
static QUEUE: Mutex<Option<(u32, Sender<Arc<LoopWaker>>)>> = Mutex::new(None);

/// Calls `call_soon_threadsafe` on the waker's loop, in the thread. Needs no GIL.
pub(crate) fn wake_loop(loop_waker: Arc<LoopWaker>) {
    let process = std::process::id();
    let mut queue = lock(&QUEUE);
    let unsent = match queue.as_ref() {
        Some((owner, sender)) if *owner == process => sender.send(loop_waker).err().map(|refused| refused.0),
        _ => Some(loop_waker),
    };
    let Some(loop_waker) = unsent else { return };
    let (sender, receiver) = channel::<Arc<LoopWaker>>();
    let started = std::thread::Builder::new().name("turntree-waker".to_owned()).spawn(move || {
        for loop_waker in receiver {
            if gil::attach(|py| deliver(py, &loop_waker)).is_none() {
                // The process is exiting.
                return;
            }
        }
    });
    if started.is_ok() && sender.send(loop_waker).is_ok() {
        *queue = Some((process, sender));
    }
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
