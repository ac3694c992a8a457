//! The responses that can be cancelled.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use turntree_server::Principal;

use crate::agent::RunControl;
use crate::agent::conversations::session_id;

/// The responses in progress of all principals.
#[derive(Debug, Default)]
pub struct Running {
    controls: Mutex<HashMap<String, RunControl>>,
}

impl Running {
    /// Locks the responses for one operation.
    fn controls(&self) -> MutexGuard<'_, HashMap<String, RunControl>> {
        // Each operation leaves the map consistent.
        self.controls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a response until the registration is dropped.
    pub fn register(
        self: &Arc<Self>,
        principal: Option<&Principal>,
        id: &str,
        control: RunControl,
    ) -> Registration {
        let key = session_id(principal, id);
        self.controls().insert(key.clone(), control);
        Registration { running: Arc::clone(self), key }
    }

    /// Cancels a response. Returns false if it is not in progress.
    pub fn cancel(&self, principal: Option<&Principal>, id: &str) -> bool {
        let control = self.controls().get(&session_id(principal, id)).cloned();
        if let Some(control) = &control {
            control.cancel();
        }
        control.is_some()
    }
}

/// Keeps a response in progress.
#[derive(Debug)]
pub struct Registration {
    running: Arc<Running>,
    key: String,
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.running.controls().remove(&self.key);
    }
}
