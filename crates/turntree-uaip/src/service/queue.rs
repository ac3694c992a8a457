//! One action at a time for each session, in the order of the requests.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::OwnedMutexGuard;

/// The queues of the sessions that have an action. A queue exists as long as it has one.
#[derive(Debug, Clone)]
pub(super) struct SessionQueues {
    depth: usize,
    queues: Arc<Mutex<HashMap<String, Queue>>>,
}

#[derive(Debug, Default)]
struct Queue {
    turn: Arc<tokio::sync::Mutex<()>>,
    /// Actions that run or wait.
    actions: usize,
}

/// The right to execute an action of a session, until it is dropped.
#[derive(Debug)]
pub(super) struct Turn {
    // Dropped first: the next action can begin before the queue is looked at.
    _turn: OwnedMutexGuard<()>,
    _place: Place,
}

/// A place in a queue.
#[derive(Debug)]
struct Place {
    session_id: String,
    queues: Arc<Mutex<HashMap<String, Queue>>>,
}

impl SessionQueues {
    pub(super) fn new(depth: usize) -> Self {
        Self { depth, queues: Arc::default() }
    }

    pub(super) const fn depth(&self) -> usize {
        self.depth
    }

    /// Waits for the actions that came before. Returns `None` if too many wait already.
    ///
    /// # Cancel safety
    /// Dropping the future gives up the place.
    pub(super) async fn enter(&self, session_id: &str) -> Option<Turn> {
        let turn = {
            let mut queues = lock(&self.queues);
            let queue = queues.entry(session_id.to_owned()).or_default();
            if queue.actions > self.depth {
                return None;
            }
            queue.actions += 1;
            Arc::clone(&queue.turn)
        };
        let place = Place { session_id: session_id.to_owned(), queues: Arc::clone(&self.queues) };
        Some(Turn { _turn: turn.lock_owned().await, _place: place })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut queues = lock(&self.queues);
        if let Some(queue) = queues.get_mut(&self.session_id) {
            queue.actions = queue.actions.saturating_sub(1);
            if queue.actions == 0 {
                queues.remove(&self.session_id);
            }
        }
    }
}

fn lock(queues: &Mutex<HashMap<String, Queue>>) -> MutexGuard<'_, HashMap<String, Queue>> {
    // No operation panics between two changes that belong together.
    queues.lock().unwrap_or_else(PoisonError::into_inner)
}
