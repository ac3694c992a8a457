//! One node of a tree: a thread, its parent and its children.
//!
//! Spec: UAP-1.0 §7.1.

use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;

use crate::tree::json::BRANCH_POINT;
use crate::tree::thread_tree::TreeError;
use turntree_core::ids::IdSource;
use turntree_core::json::{Extra, RawObject};
use turntree_core::message::Thread;

/// The id of a node: a UUIDv4 if turntree created it, any non-empty text if it was read. Cloning shares the text.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(Arc<str>);

impl NodeId {
    /// Creates a new id.
    pub fn new(ids: &dyn IdSource) -> Self {
        Self(ids.string().into())
    }

    /// Returns the text of the id.
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

/// Allows lookups by text in maps of ids.
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

/// The state of a node at one moment. The methods of the tree change its nodes.
#[derive(Debug, Clone, PartialEq)]
pub struct ThreadNode {
    /// Unique in its tree.
    pub id: NodeId,
    /// The node that it branches from; `None` for the root.
    pub parent_id: Option<NodeId>,
    /// The number of messages of the parent's thread that belong to its history; `None` for the root.
    pub branch_point: Option<usize>,
    /// A name for display.
    pub name: Option<String>,
    /// Its own messages, without those of its parent.
    pub thread: Thread,
    /// Branches that start here, oldest first.
    pub children: imbl::Vector<NodeId>,
    /// The application's metadata, without [`BRANCH_POINT`], which is a field.
    pub metadata: RawObject,
    /// Members that this version does not know.
    pub extra: Extra,
    pub(crate) removals: Removals,
}

/// How often messages were removed from a node. Not part of the document: all counts are equal.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Removals(u64);

impl Removals {
    /// Counts a removal.
    pub(super) const fn add(&mut self) {
        self.0 = self.0.wrapping_add(1);
    }

    /// Returns true if no messages were removed between two states of a node.
    pub(crate) const fn is_same(self, other: Self) -> bool {
        self.0 == other.0
    }
}

impl PartialEq for Removals {
    fn eq(&self, _other: &Self) -> bool {
        true
    }
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
            removals: Removals::default(),
        }
    }

    /// Replaces the metadata.
    ///
    /// # Errors
    /// [`TreeError::Reserved`] if the metadata has the key of the branch point.
    pub fn set_metadata(&mut self, metadata: RawObject) -> Result<(), TreeError> {
        if metadata.get(BRANCH_POINT).is_some() {
            return Err(TreeError::Reserved { key: BRANCH_POINT });
        }
        self.metadata = metadata;
        Ok(())
    }
}
