//! The one thread that may ring with the GIL, for event loops that cannot watch a descriptor.
//!
//! It exists so that a network thread never has to: the network thread leaves the bell in a queue and goes on.

use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};

use pyo3::intern;
use pyo3::prelude::*;

use super::bell::{Bell, Listener};
use super::guard::{self, lock};

/// The queue of the thread of this process; a forked child starts its own.
static QUEUE: Mutex<Option<(u32, Sender<Arc<Bell>>)>> = Mutex::new(None);

/// Has the thread call `call_soon_threadsafe` on the bell's loop. Needs no GIL.
pub(crate) fn ring(bell: Arc<Bell>) {
    let process = std::process::id();
    let mut queue = lock(&QUEUE);
    let unsent = match queue.as_ref() {
        Some((owner, sender)) if *owner == process => sender.send(bell).err().map(|refused| refused.0),
        _ => Some(bell),
    };
    let Some(bell) = unsent else { return };
    let (sender, receiver) = channel::<Arc<Bell>>();
    let started = std::thread::Builder::new().name("turntree-bell".to_owned()).spawn(move || {
        for bell in receiver {
            if guard::foreign(|py| deliver(py, &bell)).is_none() {
                // The process is exiting.
                return;
            }
        }
    });
    if started.is_ok() && sender.send(bell).is_ok() {
        *queue = Some((process, sender));
    }
}

fn deliver(py: Python<'_>, bell: &Arc<Bell>) {
    let called = bell.event_loop(py).map(|event_loop| {
        let listener = Listener::once(py, Arc::clone(bell))?;
        event_loop.call_method1(intern!(py, "call_soon_threadsafe"), (listener,))
    });
    // No loop, or one that refuses because it is closed: nobody will ever answer.
    if !matches!(called, Some(Ok(_))) {
        guard::holding(py, || bell.close());
    }
}
