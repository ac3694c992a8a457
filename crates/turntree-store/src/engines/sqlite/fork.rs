//! Closes all connections before a fork.
//!
//! SQLite keeps its knowledge of the locks of a process in memory. A child that has it by a fork would take the locks of
//! its parent for its own, and the parent could then delete the log of a file that the child writes. Therefore no
//! connection is open at the moment of a fork: the thread that forks waits until the threads of all stores have closed
//! theirs. Both processes open the file again when they need it. A fork takes 1 to 2 ms longer, and at most
//! [`PATIENCE`] if a store waits for a lock. `vfork` and `posix_spawn`, which Python's `subprocess` uses, do not wait.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, Once, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};

use turntree_core::runtime::PerProcess;

use super::database::Message;

/// How long a fork waits for connections to close.
const PATIENCE: Duration = Duration::from_secs(5);

/// The interval at which the threads look at the counters.
const INTERVAL: Duration = Duration::from_micros(50);

/// The number of forks that are about to happen.
static FORKS: AtomicUsize = AtomicUsize::new(0);

/// The number of open connections.
static CONNECTIONS: AtomicUsize = AtomicUsize::new(0);

/// Wakes the threads that own connections. A child has its own list, because a thread that it does not have could hold
/// the lock.
static WAKERS: PerProcess<Wakers> = PerProcess::new();

fn wakers() -> Option<&'static Wakers> {
    WAKERS.get_or_try_create(|| Ok::<_, ()>(Mutex::default())).ok()
}

type Wakers = Mutex<Vec<Weak<Sender<Message>>>>;

/// Counts an open connection until it is dropped.
#[derive(Debug)]
pub(super) struct Permit(());

impl Permit {
    /// Waits until no fork is about to happen. Take it before a connection is opened; drop it after it was closed.
    pub(super) fn new() -> Self {
        loop {
            CONNECTIONS.fetch_add(1, Ordering::SeqCst);
            if FORKS.load(Ordering::SeqCst) == 0 {
                return Self(());
            }
            CONNECTIONS.fetch_sub(1, Ordering::SeqCst);
            thread::sleep(INTERVAL);
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        CONNECTIONS.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Whether a fork is about to happen, so that the connection must be closed.
pub(super) fn is_near() -> bool {
    FORKS.load(Ordering::SeqCst) > 0
}

/// Sends a message to a thread before each fork, so that it looks at [`is_near`].
pub(super) fn wake_before(sender: &Arc<Sender<Message>>) {
    static HANDLERS: Once = Once::new();
    HANDLERS.call_once(install);
    if let Some(wakers) = wakers() {
        wakers.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::downgrade(sender));
    }
}

#[expect(unsafe_code, reason = "the standard library has no fork handlers")]
fn install() {
    // SAFETY: the functions have the type that is required, live as long as the program, and do not unwind: what they
    // call does not panic. The result is ignored: it is an error only if there is no memory.
    unsafe {
        libc::pthread_atfork(Some(before), Some(after_in_parent), Some(after_in_child));
    }
}

extern "C" fn before() {
    FORKS.fetch_add(1, Ordering::SeqCst);
    if let Some(wakers) = wakers() {
        // Those whose thread has ended are removed.
        let mut wakers = wakers.lock().unwrap_or_else(PoisonError::into_inner);
        wakers.retain(|sender| sender.upgrade().is_some_and(|sender| sender.send(Message::Wake).is_ok()));
    }
    let start = Instant::now();
    while CONNECTIONS.load(Ordering::SeqCst) > 0 && start.elapsed() < PATIENCE {
        thread::sleep(INTERVAL);
    }
}

extern "C" fn after_in_parent() {
    FORKS.fetch_sub(1, Ordering::SeqCst);
}

extern "C" fn after_in_child() {
    FORKS.store(0, Ordering::SeqCst);
    CONNECTIONS.store(0, Ordering::SeqCst);
}
