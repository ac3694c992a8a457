//! Options of a session: id, checkpoint and save intervals, persistence, metadata.

use std::fmt;
use std::sync::{Arc, Mutex};

use serde::{Deserialize, Serialize};

use crate::session::metadata::SessionMetadata;
use turntree_core::ids::{IdSource, RandomIds};
use turntree_core::json::RawObject;
use turntree_core::persistence::PersistenceAdapter;
use turntree_core::time::{Clock, SystemClock};

/// When a session creates checkpoints.
///
/// Spec: UAP-1.0 §6.1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CheckpointInterval {
    /// After every step.
    #[default]
    Step,
    /// After every successful run.
    Turn,
    /// Never. Such a session cannot be restored to an earlier point.
    Off,
}

/// When a session with persistence is saved during a run. It is always saved at the end of a run.
///
/// With every interval the session is saved before approved or denied calls are executed, and again after each approved
/// call: neither a decision nor its effect is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SaveInterval {
    /// Only at the end of the run.
    #[default]
    Turn,
    /// At the start of the run and after every step.
    Step,
    /// At the start of the run, after every model response with tool calls, after every tool and after every step.
    Tool,
}

/// Options of a session. Each has a default.
pub struct SessionOptions {
    /// The id, a UUIDv4. Default: a new one.
    pub id: Option<Arc<str>>,
    /// When checkpoints are created.
    pub interval: CheckpointInterval,
    /// The store that the session is saved to. Default: it is not saved.
    pub persistence: Option<Arc<dyn PersistenceAdapter>>,
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
