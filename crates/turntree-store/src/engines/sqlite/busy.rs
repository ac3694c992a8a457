//! How connections of several processes take turns.
//!
//! SQLite has no queue of those who wait for a lock: they try again after a pause. A process that writes without a break
//! frees the lock for some microseconds between two transactions, which the others rarely meet: they can wait for a
//! minute. So each connection leaves the lock alone for [`BREAK`] after [`LONGEST_STRETCH`] of writing, and those who wait
//! try again after [`PAUSE`], which is shorter than a break.

use std::cell::Cell;
use std::ffi::c_int;
use std::thread;
use std::time::{Duration, Instant};

use rusqlite::Connection;

/// The pause between two tries.
const PAUSE: Duration = Duration::from_millis(1);

/// How long the lock is free for others: some pauses, because a system under load wakes threads late.
const BREAK: Duration = Duration::from_millis(4);

/// How long a connection writes, or waits to write, without a break: it loses a twenty-fifth of its time, and only if it
/// has always something to write.
const LONGEST_STRETCH: Duration = Duration::from_millis(100);

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
    thread::sleep(PAUSE);
    true
}

/// When a connection has written and rested.
#[derive(Debug)]
pub(super) struct Breaks {
    /// The end of the last break.
    rested: Instant,
    /// When it wrote last.
    written: Instant,
}

impl Breaks {
    pub(super) fn new() -> Self {
        let now = Instant::now();
        Self { rested: now, written: now }
    }

    /// Takes a break if one is due. Called before the connection writes.
    pub(super) fn rest(&mut self) {
        let now = Instant::now();
        let rest = BREAK.saturating_sub(now - self.written);
        if rest.is_zero() {
            self.rested = now;
        } else if now - self.rested >= LONGEST_STRETCH {
            thread::sleep(rest);
            self.rested = Instant::now();
        }
    }

    /// Notes that the connection has written.
    pub(super) fn note_write(&mut self) {
        self.written = Instant::now();
    }
}
