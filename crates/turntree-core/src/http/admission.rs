//! The time that a request waits for a place on a connection, which is not time of the server.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

/// Tells the client whether its request waits for a place on a connection. Clones share it.
#[derive(Debug, Clone)]
pub(super) struct Admission(Arc<watch::Sender<State>>);

#[derive(Debug, Clone, Copy)]
enum State {
    /// The request waits.
    Waiting,
    /// It waits no more since this time.
    Admitted(Instant),
}

impl Admission {
    /// A request that does not wait.
    pub(super) fn new() -> Self {
        Self(Arc::new(watch::Sender::new(State::Admitted(Instant::now()))))
    }

    /// Stops the time until [`Admission::admit`].
    pub(super) fn wait(&self) {
        self.0.send_replace(State::Waiting);
    }

    /// Starts the time from zero.
    pub(super) fn admit(&self) {
        self.0.send_replace(State::Admitted(Instant::now()));
    }

    /// Resolves when the request was admitted for this time without an end.
    pub(super) async fn elapsed(&self, limit: Duration) {
        let mut states = self.0.subscribe();
        loop {
            let state = *states.borrow_and_update();
            let until = match state {
                State::Waiting => None,
                State::Admitted(since) => since.checked_add(limit),
            };
            match until {
                Some(until) if timeout_at(until, states.changed()).await.is_err() => return,
                Some(_) => {}
                // The sender lives as long as `self`, so this waits for a change.
                None => drop(states.changed().await),
            }
        }
    }
}
