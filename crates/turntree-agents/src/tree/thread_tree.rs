//! The tree: nodes, the current node, appending messages, and histories.
//!
//! Spec: UAP-1.0 §7.

use std::sync::Arc;

use crate::tree::node::{NodeId, ThreadNode};
use crate::tree::nodes::Nodes;
use turntree_core::ids::IdSource;
use turntree_core::json::{Extra, RawObject};
use turntree_core::message::message::History;
use turntree_core::message::{Message, Thread, Turn};
use turntree_core::time::{Clock, Timestamp};

/// The name of a new tree's root.
pub const ROOT_NAME: &str = "main";

/// Up to this many messages are appended one by one: joining two persistent vectors costs as much as 2 000 appends (75 µs).
const MAX_PUSHED: usize = 2_000;

/// Why an operation on a tree failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TreeError {
    /// No node has this id.
    #[error("no node has the id \"{id}\"; `nodes` lists the ids")]
    UnknownNode {
        /// The id that was given.
        id: String,
    },
    /// Messages that belong to the history of a branch cannot be removed.
    #[error(
        "{branches} branch(es) start after messages of node \"{id}\"; branch from before them instead of clearing it"
    )]
    InUse {
        /// The node.
        id: NodeId,
        /// The number of branches that need the messages.
        branches: usize,
    },
    /// A branch cannot start after more messages than the node has.
    #[error("node \"{id}\" has {found} messages; `after` must be at most {found}, not {after}")]
    TooFew {
        /// The node.
        id: NodeId,
        /// The number of its messages.
        found: usize,
        /// The number that was given.
        after: usize,
    },
    /// The metadata of a node has a key that the tree writes.
    #[error("the key \"{key}\" of a node's metadata is reserved for the tree; remove it")]
    Reserved {
        /// The key.
        key: &'static str,
    },
}

/// A conversation with branches. It always has a root and a current node. Cloning shares everything.
///
/// ```
/// use turntree_agents::tree::ThreadTree;
/// use turntree_core::{ids::RandomIds, time::SystemClock};
/// use turntree_core::message::Message;
/// # fn main() -> Result<(), turntree_agents::tree::TreeError> {
/// let say = |text: &str| [std::sync::Arc::new(Message::user(text, &RandomIds, &SystemClock))];
/// let mut tree = ThreadTree::empty(&RandomIds, &SystemClock);
/// tree.push(say("Create a web server"), &SystemClock);
/// let root = tree.root().id.clone();
///
/// let other = tree.branch(root.as_str(), Some("express".to_owned()), &RandomIds, &SystemClock)?;
/// tree.push(say("Add middleware"), &SystemClock);
/// tree.checkout(other.as_str())?;
/// tree.push(say("Use Express instead"), &SystemClock);
///
/// let said: Vec<_> = tree.history().iter().map(|message| message.text()).collect();
/// assert_eq!(said, ["Create a web server", "Use Express instead"]);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct ThreadTree {
    /// In order of creation.
    nodes: Nodes,
    /// For each node the index of its parent; for the root its own index.
    parents: imbl::Vector<usize>,
    indexes: imbl::HashMap<NodeId, usize>,
    root: usize,
    current: usize,
    /// When an operation last changed the tree; `None` for a tree that was created or read and not changed. Not part of
    /// the document.
    changed_at: Option<Timestamp>,
    /// Members of the document that this version does not know.
    pub extra: Extra,
}

/// Compares the order of children, but not the order of nodes.
impl PartialEq for ThreadTree {
    fn eq(&self, other: &Self) -> bool {
        self.root().id == other.root().id
            && self.current().id == other.current().id
            && self.extra == other.extra
            && self.nodes.len() == other.nodes.len()
            && self.nodes.iter().all(|node| other.node(node.id.as_str()).is_some_and(|twin| twin == node))
    }
}

impl ThreadTree {
    /// Creates a tree with an empty root, which is the current node.
    pub fn empty(ids: &dyn IdSource, clock: &dyn Clock) -> Self {
        Self::new(Thread::new(History::new(), ids, clock), ids)
    }

    /// Creates a tree whose root has this thread and is the current node.
    pub fn new(thread: Thread, ids: &dyn IdSource) -> Self {
        let id = NodeId::new(ids);
        let root = ThreadNode::new(id.clone(), None, Some(ROOT_NAME.to_owned()), thread, imbl::Vector::new());
        Self {
            nodes: Nodes::new(root),
            parents: imbl::Vector::unit(0),
            indexes: imbl::HashMap::unit(id, 0),
            root: 0,
            current: 0,
            changed_at: None,
            extra: Extra::new(),
        }
    }

    /// Creates a tree from parts that [`super::json`] has validated.
    pub(super) const fn from_parts(
        nodes: Nodes,
        parents: imbl::Vector<usize>,
        indexes: imbl::HashMap<NodeId, usize>,
        root: usize,
        current: usize,
        extra: Extra,
    ) -> Self {
        Self { nodes, parents, indexes, root, current, changed_at: None, extra }
    }

    /// Returns the node without a parent.
    pub fn root(&self) -> &Arc<ThreadNode> {
        self.at(self.root)
    }

    /// Returns the node that new messages are appended to.
    pub fn current(&self) -> &Arc<ThreadNode> {
        self.at(self.current)
    }

    /// Returns all nodes in order of creation.
    pub fn nodes(&self) -> impl Iterator<Item = &Arc<ThreadNode>> {
        self.nodes.iter()
    }

    /// Returns the number of nodes, which is at least 1.
    pub fn node_count(&self) -> usize {
        self.nodes.len()
    }

    /// Returns the nodes without branches, in order of creation.
    pub fn leaves(&self) -> impl Iterator<Item = &Arc<ThreadNode>> {
        self.nodes.iter().filter(|node| node.children.is_empty())
    }

    /// Returns the node with this id.
    pub fn node(&self, id: &str) -> Option<&Arc<ThreadNode>> {
        self.indexes.get(id).map(|index| self.at(*index))
    }

    /// Returns the node with this id, which must exist.
    ///
    /// # Errors
    /// [`TreeError::UnknownNode`].
    pub fn require_node(&self, id: &str) -> Result<&Arc<ThreadNode>, TreeError> {
        Ok(self.at(self.index_of(id)?))
    }

    /// Returns the number of messages of all nodes.
    pub fn message_count(&self) -> usize {
        self.nodes.iter().map(|node| node.thread.messages.len()).sum()
    }

    /// About the size of the JSON of all messages in bytes.
    pub fn size_hint(&self) -> usize {
        let messages = self.nodes.iter().flat_map(|node| node.thread.messages.iter());
        messages.map(|message| message.size_hint()).fold(0, usize::saturating_add)
    }

    /// True if this is a clone of another tree, and neither was changed since.
    pub(crate) fn is_unchanged_clone_of(&self, other: &Self) -> bool {
        self.current == other.current
            && self.nodes.len() == other.nodes.len()
            && self.nodes.iter().zip(other.nodes.iter()).all(|(one, other)| Arc::ptr_eq(one, other))
    }

    /// Makes a node the current node.
    ///
    /// # Errors
    /// [`TreeError::UnknownNode`].
    pub fn checkout(&mut self, id: &str) -> Result<(), TreeError> {
        self.current = self.index_of(id)?;
        Ok(())
    }

    /// Appends all messages of a turn to the current node.
    pub fn append(&mut self, turn: &Turn, clock: &dyn Clock) {
        self.push(turn.messages.iter().map(Arc::clone), clock);
    }

    /// Appends messages to the current node.
    pub fn push(&mut self, messages: impl IntoIterator<Item = Arc<Message>>, clock: &dyn Clock) {
        self.push_at(self.current, messages, clock);
    }

    /// Appends messages to the node at an index.
    pub(super) fn push_at(
        &mut self,
        index: usize,
        messages: impl IntoIterator<Item = Arc<Message>>,
        clock: &dyn Clock,
    ) {
        self.node_mut(index).thread.push(messages, clock);
        self.mark_changed(clock);
    }

    /// Stores the time of a change.
    pub(crate) fn mark_changed(&mut self, clock: &dyn Clock) {
        self.changed_at = Some(clock.now());
    }

    /// Returns when the tree last changed: by a branch, new or removed messages, a split or a merge. `None` for a tree
    /// that was created or read and not changed since.
    pub const fn changed_at(&self) -> Option<Timestamp> {
        self.changed_at
    }

    /// Appends messages to a node. They do not become part of the histories of existing branches.
    ///
    /// # Errors
    /// [`TreeError::UnknownNode`].
    pub fn push_to(
        &mut self,
        id: &str,
        messages: impl IntoIterator<Item = Arc<Message>>,
        clock: &dyn Clock,
    ) -> Result<(), TreeError> {
        let index = self.index_of(id)?;
        self.push_at(index, messages, clock);
        Ok(())
    }

    /// Removes all messages of a node.
    ///
    /// # Errors
    /// [`TreeError::UnknownNode`]; [`TreeError::InUse`] if a branch starts after one of them.
    pub fn clear(&mut self, id: &str, clock: &dyn Clock) -> Result<(), TreeError> {
        let index = self.index_of(id)?;
        let node = self.at(index);
        let needs_messages = |child: &&NodeId| {
            self.node(child.as_str()).and_then(|child| child.branch_point).is_some_and(|point| point > 0)
        };
        let branches = node.children.iter().filter(needs_messages).count();
        if branches > 0 {
            return Err(TreeError::InUse { id: node.id.clone(), branches });
        }
        let node = self.node_mut(index);
        node.removals.add();
        node.thread.clear(clock);
        self.mark_changed(clock);
        Ok(())
    }

    /// Sets or removes the name of a node.
    ///
    /// # Errors
    /// [`TreeError::UnknownNode`].
    pub fn rename(&mut self, id: &str, name: Option<String>) -> Result<(), TreeError> {
        let index = self.index_of(id)?;
        self.node_mut(index).name = name;
        Ok(())
    }

    /// Replaces the metadata of a node.
    ///
    /// # Errors
    /// [`TreeError::UnknownNode`]; [`TreeError::Reserved`] if the metadata has the key of the branch point.
    pub fn set_metadata(&mut self, id: &str, metadata: RawObject) -> Result<(), TreeError> {
        let index = self.index_of(id)?;
        self.node_mut(index).set_metadata(metadata)
    }

    /// Returns all messages from the root to the current node, oldest first.
    pub fn history(&self) -> History {
        self.history_at(self.current)
    }

    /// Returns all messages from the root to a node, oldest first.
    ///
    /// # Errors
    /// [`TreeError::UnknownNode`].
    pub fn history_of(&self, id: &str) -> Result<History, TreeError> {
        self.index_of(id).map(|index| self.history_at(index))
    }

    /// Returns the number of messages of a node's history, without reading the messages.
    ///
    /// # Errors
    /// [`TreeError::UnknownNode`].
    pub fn history_len(&self, id: &str) -> Result<usize, TreeError> {
        let index = self.index_of(id)?;
        Ok(self.segments(index).iter().map(|(_, length)| length).sum())
    }

    pub(super) fn history_at(&self, index: usize) -> History {
        let mut history = History::new();
        for (index, length) in self.segments(index).into_iter().rev() {
            let messages = &self.at(index).thread.messages;
            if history.is_empty() || length > MAX_PUSHED {
                history.append(if length < messages.len() {
                    messages.take(length)
                } else {
                    messages.clone()
                });
            } else {
                messages.iter().take(length).for_each(|message| history.push_back(Arc::clone(message)));
            }
        }
        history
    }

    /// Returns the nodes from `index` up to the root, each with the number of its messages that belong to the history of
    /// `index`.
    pub(super) fn segments(&self, index: usize) -> Vec<(usize, usize)> {
        let mut segments = Vec::new();
        let mut length = usize::MAX;
        let mut index = index;
        loop {
            let node = self.at(index);
            segments.push((index, node.thread.messages.len().min(length)));
            if index == self.root {
                return segments;
            }
            length = node.branch_point.unwrap_or(usize::MAX);
            index = self.parent(index);
        }
    }

    /// Returns the index of a node.
    ///
    /// # Errors
    /// [`TreeError::UnknownNode`].
    pub(super) fn index_of(&self, id: &str) -> Result<usize, TreeError> {
        self.indexes
            .get(id)
            .copied()
            .ok_or_else(|| TreeError::UnknownNode { id: id.chars().take(100).collect() })
    }

    pub(super) fn parent(&self, index: usize) -> usize {
        self.parents.get(index).copied().unwrap_or(self.root)
    }

    pub(super) const fn root_index(&self) -> usize {
        self.root
    }

    /// Returns the node at an index of this tree.
    pub(super) fn at(&self, index: usize) -> &Arc<ThreadNode> {
        self.nodes.at(index)
    }

    /// Returns the node at an index of this tree for changing it. Copies the node first if it is shared; its messages stay
    /// shared.
    pub(super) fn node_mut(&mut self, index: usize) -> &mut ThreadNode {
        self.nodes.at_mut(index)
    }

    /// Returns the index of a node in the order of creation.
    pub(crate) fn position_of_node(&self, id: &str) -> Option<usize> {
        self.indexes.get(id).copied()
    }

    /// Returns the node at an index in the order of creation.
    pub(crate) fn node_at(&self, index: usize) -> Option<&Arc<ThreadNode>> {
        (index < self.nodes.len()).then(|| self.at(index))
    }

    /// Adds a node as the last child of the node at `parent`.
    pub(super) fn add(&mut self, node: ThreadNode, parent: usize) {
        let id = node.id.clone();
        self.node_mut(parent).children.push_back(id.clone());
        self.indexes.insert(id, self.nodes.push(node));
        self.parents.push_back(parent);
    }

    /// Moves a node under another parent, whose thread starts `offset` messages later than that of its current parent.
    pub(super) fn reparent(&mut self, index: usize, parent_id: &NodeId, parent: usize, offset: usize) {
        self.parents.set(index, parent);
        let node = self.node_mut(index);
        node.parent_id = Some(parent_id.clone());
        node.branch_point = node.branch_point.map(|point| point.saturating_sub(offset));
    }
}
