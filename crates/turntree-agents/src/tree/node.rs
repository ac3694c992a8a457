//! One node of a tree: a thread and its place among the others. UAP-1.0 §7.1.

use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;

use crate::tree::json::BRANCH_POINT;
use crate::tree::thread_tree::TreeError;
use turntree_core::ids::IdSource;
use turntree_core::json::{Extra, RawObject};
use turntree_core::message::Thread;

/// The id of a node: a UUIDv4 where it is made here, any text that is not empty where it was read. Cloning shares it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(Arc<str>);

impl NodeId {
    /// A fresh id.
    pub fn new(ids: &dyn IdSource) -> Self {
        Self(ids.string().into())
    }

    /// Its text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&str> for NodeId {
    fn from(text: &str) -> Self {
        Self(text.into())
    }
}

impl From<String> for NodeId {
    fn from(text: String) -> Self {
        Self(text.into())
    }
}

/// So that a map of ids can be asked with a text.
impl Borrow<str> for NodeId {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl AsRef<str> for NodeId {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// A node as it is at one moment; a tree changes its nodes only through its own methods.
#[derive(Debug, Clone, PartialEq)]
pub struct ThreadNode {
    /// Unique in its tree.
    pub id: NodeId,
    /// Where it branches from; none for the root.
    pub parent_id: Option<NodeId>,
    /// How many messages of the parent's thread belong to its history; none for the root.
    pub branch_point: Option<usize>,
    /// For people.
    pub name: Option<String>,
    /// Its own messages, none of its parent's.
    pub thread: Thread,
    /// Branches that start here, oldest first.
    pub children: imbl::Vector<NodeId>,
    /// Facts about the node. [`BRANCH_POINT`] is not among them, it has a field.
    pub metadata: RawObject,
    /// Members this version does not know.
    pub extra: Extra,
}

impl ThreadNode {
    pub(super) fn new(
        id: NodeId,
        parent: Option<(NodeId, usize)>,
        name: Option<String>,
        thread: Thread,
        children: imbl::Vector<NodeId>,
    ) -> Self {
        let (parent_id, branch_point) = parent.unzip();
        Self {
            id,
            parent_id,
            branch_point,
            name,
            thread,
            children,
            metadata: RawObject::new(),
            extra: Extra::new(),
        }
    }

    /// Gives it other metadata.
    ///
    /// # Errors
    /// [`TreeError::Reserved`] when the metadata holds a branch point.
    pub fn set_metadata(&mut self, metadata: RawObject) -> Result<(), TreeError> {
        if metadata.get(BRANCH_POINT).is_some() {
            return Err(TreeError::Reserved { key: BRANCH_POINT });
        }
        self.metadata = metadata;
        Ok(())
    }
}
