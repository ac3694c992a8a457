//! A tree with several owners, such as an application's handles and a running session.

use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::tree::thread_tree::ThreadTree;
use turntree_core::json::schema::{Definitions, JsonSchema};

/// A tree behind a lock.
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

    /// Locks the tree for one operation. Never hold the guard across an `await` or a call into the application.
    pub fn lock(&self) -> MutexGuard<'_, ThreadTree> {
        // Each operation leaves the tree consistent before it can panic.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the tree at this moment. Shares everything with it.
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
