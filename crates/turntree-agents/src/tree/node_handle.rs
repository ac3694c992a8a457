//! A handle to a node that reads and changes the node's current state.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::{Serialize, Serializer};

use crate::tree::node::{NodeId, ThreadNode};
use crate::tree::shared_tree::SharedTree;
use crate::tree::thread_tree::TreeError;
use turntree_core::json::RawObject;
use turntree_core::json::schema::{Definitions, JsonSchema};
use turntree_core::message::Message;
use turntree_core::time::Clock;

/// A node of a shared tree, or a separate node that was read or copied.
///
/// Two handles are equal if their nodes are equal at this moment.
///
/// ```
/// use std::sync::Arc;
/// use turntree_agents::tree::{NodeHandle, SharedTree, ThreadTree};
/// use turntree_core::{ids::RandomIds, time::SystemClock};
///
/// let tree = Arc::new(SharedTree::new(ThreadTree::empty(&RandomIds, &SystemClock)));
/// let root = tree.lock().root().id.clone();
/// let handle = NodeHandle::InTree(Arc::clone(&tree), root);
/// handle.rename(Some("draft".to_owned())).unwrap();
/// assert_eq!(tree.lock().root().name.as_deref(), Some("draft"));
/// ```
#[derive(Debug)]
pub enum NodeHandle {
    /// The node of a tree with this id.
    InTree(Arc<SharedTree>, NodeId),
    /// A node without a tree.
    Separate(Mutex<Arc<ThreadNode>>),
}

impl NodeHandle {
    /// Returns the node at this moment.
    ///
    /// # Errors
    /// [`TreeError::UnknownNode`].
    pub fn node(&self) -> Result<Arc<ThreadNode>, TreeError> {
        match self {
            Self::InTree(tree, id) => tree.lock().require_node(id.as_str()).map(Arc::clone),
            Self::Separate(node) => Ok(Arc::clone(&lock(node))),
        }
    }

    /// Sets or removes the name.
    ///
    /// # Errors
    /// [`TreeError::UnknownNode`].
    pub fn rename(&self, name: Option<String>) -> Result<(), TreeError> {
        match self {
            Self::InTree(tree, id) => tree.lock().rename(id.as_str(), name)?,
            Self::Separate(node) => Arc::make_mut(&mut lock(node)).name = name,
        }
        Ok(())
    }

    /// Replaces the metadata.
    ///
    /// # Errors
    /// [`TreeError::UnknownNode`]; [`TreeError::Reserved`] if the metadata has the key of the branch point.
    pub fn set_metadata(&self, metadata: RawObject) -> Result<(), TreeError> {
        match self {
            Self::InTree(tree, id) => tree.lock().set_metadata(id.as_str(), metadata),
            Self::Separate(node) => Arc::make_mut(&mut lock(node)).set_metadata(metadata),
        }
    }

    /// Appends messages. They do not become part of the histories of existing branches.
    ///
    /// # Errors
    /// [`TreeError::UnknownNode`].
    pub fn push(
        &self,
        messages: impl IntoIterator<Item = Arc<Message>>,
        clock: &dyn Clock,
    ) -> Result<(), TreeError> {
        match self {
            Self::InTree(tree, id) => tree.lock().push_to(id.as_str(), messages, clock)?,
            Self::Separate(node) => Arc::make_mut(&mut lock(node)).thread.push(messages, clock),
        }
        Ok(())
    }

    /// Removes all messages.
    ///
    /// # Errors
    /// [`TreeError::UnknownNode`]; [`TreeError::InUse`] if a branch starts after one of them.
    pub fn clear(&self, clock: &dyn Clock) -> Result<(), TreeError> {
        match self {
            Self::InTree(tree, id) => tree.lock().clear(id.as_str(), clock)?,
            Self::Separate(node) => Arc::make_mut(&mut lock(node)).thread.clear(clock),
        }
        Ok(())
    }
}

fn lock(node: &Mutex<Arc<ThreadNode>>) -> MutexGuard<'_, Arc<ThreadNode>> {
    // Each operation leaves the node consistent before it can panic.
    node.lock().unwrap_or_else(PoisonError::into_inner)
}

impl From<ThreadNode> for NodeHandle {
    fn from(node: ThreadNode) -> Self {
        Self::Separate(Mutex::new(Arc::new(node)))
    }
}

impl PartialEq for NodeHandle {
    fn eq(&self, other: &Self) -> bool {
        self.node() == other.node()
    }
}

impl Serialize for NodeHandle {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.node().map_err(serde::ser::Error::custom)?.serialize(serializer)
    }
}

impl JsonSchema for NodeHandle {
    fn schema(definitions: &mut Definitions) -> serde_json::Value {
        ThreadNode::schema(definitions)
    }
}
