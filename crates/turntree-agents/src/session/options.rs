//! Options of a session: id, checkpoint and save intervals, persistence, metadata.

use std::fmt;
use std::sync::{Arc, Mutex};

pub use crate::session::interval::{CheckpointInterval, SaveInterval};
use crate::session::metadata::SessionMetadata;
use crate::session::store::{SavedState, SessionStore};
use turntree_core::ids::{IdSource, RandomIds};
use turntree_core::json::RawObject;
use turntree_core::time::{Clock, SystemClock};

/// Options of a session. Each has a default.
pub struct SessionOptions {
    /// The id: 1 to 200 printable characters. Default: a new UUIDv4.
    pub id: Option<Arc<str>>,
    /// When checkpoints are created.
    pub interval: CheckpointInterval,
    /// The store that the session is saved to. Default: it is not saved.
    pub persistence: Option<Arc<dyn SessionStore>>,
    /// What the store remembers of the session, if it was loaded from there.
    pub saved: Option<SavedState>,
    /// When the session is saved during a run.
    pub save_interval: SaveInterval,
    /// The application's metadata.
    pub metadata: Arc<dyn SessionMetadata>,
    /// Creates ids of nodes and checkpoints.
    pub ids: Arc<dyn IdSource>,
    /// Provides timestamps.
    pub clock: Arc<dyn Clock>,
}

impl Default for SessionOptions {
    fn default() -> Self {
        Self {
            id: None,
            interval: CheckpointInterval::default(),
            persistence: None,
            saved: None,
            save_interval: SaveInterval::default(),
            metadata: Arc::new(Mutex::new(RawObject::new())),
            ids: Arc::new(RandomIds),
            clock: Arc::new(SystemClock),
        }
    }
}

impl fmt::Debug for SessionOptions {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("SessionOptions")
            .field("id", &self.id)
            .field("interval", &self.interval)
            .finish_non_exhaustive()
    }
}
