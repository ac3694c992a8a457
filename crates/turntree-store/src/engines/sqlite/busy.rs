//! How a connection waits for a lock that another process has.
//!
//! SQLite has no queue of those who wait: they try again after a pause. A process that writes without a break frees the
//! lock for a part of a millisecond between two transactions, while each transaction takes as long as the disk. SQLite's
//! own wait, with pauses up to 100 ms, rarely meets these moments: on a disk of 50 ms for a flush, ten processes that
//! wrote three entries each, one after the other, needed 25 s. With short pauses they need 12 s.

use std::cell::Cell;
use std::ffi::c_int;
use std::thread;
use std::time::{Duration, Instant};

use rusqlite::Connection;

/// The pause between two tries at first.
const FIRST_PAUSE: Duration = Duration::from_millis(1);

/// The number of tries with the first pause.
const FIRST_TRIES: c_int = 200;

/// The pause after them: who waits for longer leaves the processor to those who hold the lock.
const LATER_PAUSE: Duration = Duration::from_millis(4);

/// A wait of the thread's connection.
#[derive(Debug, Clone, Copy)]
struct Wait {
    timeout: Duration,
    start: Option<Instant>,
}

thread_local! {
    // A thread has one connection, and SQLite's handlers are plain functions.
    static WAIT: Cell<Wait> = const { Cell::new(Wait { timeout: Duration::ZERO, start: None }) };
}

/// Lets the thread's connection wait for locks.
pub(super) fn install(connection: &mut Connection, timeout: Duration) -> rusqlite::Result<()> {
    set_timeout(timeout);
    connection.busy_handler(Some(try_again))
}

/// Sets how long the thread's connection waits for a lock. Returns the time that was set before.
pub(super) fn set_timeout(timeout: Duration) -> Duration {
    WAIT.replace(Wait { timeout, start: None }).timeout
}

/// Whether to try again, after a pause. SQLite calls it with the number of tries of this wait before.
fn try_again(tries: c_int) -> bool {
    let mut wait = WAIT.get();
    let start = match wait.start {
        Some(start) if tries > 0 => start,
        _ => *wait.start.insert(Instant::now()),
    };
    WAIT.set(wait);
    if start.elapsed() >= wait.timeout {
        return false;
    }
    thread::sleep(if tries < FIRST_TRIES { FIRST_PAUSE } else { LATER_PAUSE });
    true
}
