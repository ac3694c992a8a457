//! A tree that several owners hold: handles of an application, a session that runs.

use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::tree::thread_tree::ThreadTree;
use turntree_core::json::schema::{Definitions, JsonSchema};

/// A tree behind a lock that is held for single operations only.
///
/// ```
/// use turntree_agents::tree::{SharedTree, ThreadTree};
/// use turntree_core::{ids::RandomIds, time::SystemClock};
///
/// let tree = SharedTree::new(ThreadTree::empty(&RandomIds, &SystemClock));
/// let before = tree.snapshot();
/// tree.lock().rename(before.root().id.as_str(), None).unwrap();
/// assert_eq!(before.root().name.as_deref(), Some("main"));
/// ```
#[derive(Debug)]
pub struct SharedTree(Mutex<ThreadTree>);

impl SharedTree {
    /// Shares a tree.
    pub const fn new(tree: ThreadTree) -> Self {
        Self(Mutex::new(tree))
    }

    /// The tree, for one operation. Never hold it over an `await` or a call of the application.
    pub fn lock(&self) -> MutexGuard<'_, ThreadTree> {
        // A tree is whole after every single operation, so one that panicked left nothing half done.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The tree as it is now; shares everything.
    pub fn snapshot(&self) -> ThreadTree {
        self.lock().clone()
    }
}

impl PartialEq for SharedTree {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other) || self.snapshot() == other.snapshot()
    }
}

impl Serialize for SharedTree {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.snapshot().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for SharedTree {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        ThreadTree::deserialize(deserializer).map(Self::new)
    }
}

impl JsonSchema for SharedTree {
    fn schema(definitions: &mut Definitions) -> serde_json::Value {
        ThreadTree::schema(definitions)
    }
}
