//! Waits for notifications of new runs, on a connection of its own.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::timeout;
use turntree_core::runtime::PerProcess;

use super::pool::{ListenerConnection, Pool};

/// The longest time without a look at the queue: leases expire and times come without a notification, and behind a
/// pooler there are none.
const POLL: Duration = Duration::from_secs(1);

/// The listener of one store.
#[derive(Default)]
pub(super) struct Listener {
    // A child process must not use the socket of its parent.
    state: PerProcess<State>,
}

#[derive(Default)]
struct State {
    notify: Arc<Notify>,
    connection: Mutex<Option<ListenerConnection>>,
    is_pooled: AtomicBool,
}

impl State {
    fn connection(&self) -> MutexGuard<'_, Option<ListenerConnection>> {
        self.connection.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Listener {
    /// Waits for a notification, and for the time at most. A notification since the last call counts.
    pub(super) async fn wait(&self, pool: &Pool, limit: Duration) {
        let Ok(state) = self.state.get_or_try_create(|| Ok::<_, ()>(State::default())) else { return };
        let limit = limit.min(POLL);
        let is_open = state.connection().as_ref().is_some_and(|connection| !connection.client.is_closed());
        if !is_open && !state.is_pooled.load(Ordering::Relaxed) {
            // Without a connection the caller looks again after the time.
            let connected = timeout(limit, pool.listen(&state.notify)).await;
            if let Ok(Ok(connection)) = connected {
                state.is_pooled.store(connection.is_none(), Ordering::Relaxed);
                *state.connection() = connection;
                // Runs may have been added before the server knew of the listener.
                return;
            }
        }
        let _ = timeout(limit, state.notify.notified()).await;
    }

    /// Closes the connection.
    pub(super) fn close(&self) {
        if let Ok(state) = self.state.get_or_try_create(|| Ok::<_, ()>(State::default())) {
            state.connection().take();
        }
    }
}

impl fmt::Debug for Listener {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Listener").finish_non_exhaustive()
    }
}
