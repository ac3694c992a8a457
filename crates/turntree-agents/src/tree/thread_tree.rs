//! The tree: what it holds, where it stands, how it grows, and what was said up to a node. UAP-1.0 §7.

use std::sync::Arc;

use crate::tree::node::{NodeId, ThreadNode};
use crate::tree::nodes::Nodes;
use turntree_core::ids::IdSource;
use turntree_core::json::{Extra, RawObject};
use turntree_core::message::message::History;
use turntree_core::message::{Message, Thread, Turn};
use turntree_core::time::Clock;

/// The name of a new tree's root.
pub const ROOT_NAME: &str = "main";

/// Up to this many messages are pushed one by one: joining two persistent vectors costs as much as 2 000 pushes (75 µs).
const FEW: usize = 2_000;

/// What cannot be done to a tree.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TreeError {
    /// No node has this id.
    #[error("no node \"{id}\" in the tree; `nodes` has the ids")]
    UnknownNode {
        /// What was asked for.
        id: String,
    },
    /// Messages that belong to the history of a branch cannot be taken away.
    #[error(
        "{branches} branch(es) start after messages of node \"{id}\"; branch from before them instead of clearing it"
    )]
    InUse {
        /// Whose messages.
        id: NodeId,
        /// How many branches need them.
        branches: usize,
    },
    /// A key of a node's metadata that the tree itself writes.
    #[error("\"{key}\" in a node's metadata is kept by the tree; take it out")]
    Reserved {
        /// The key.
        key: &'static str,
    },
}

/// A conversation with branches. Always has a root and a current node. Cloning it shares everything.
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
    /// In the order they were made.
    nodes: Nodes,
    /// For each node the place of its parent; the root's is its own.
    parents: imbl::Vector<usize>,
    places: imbl::HashMap<NodeId, usize>,
    root: usize,
    current: usize,
    /// Members of the document that this version does not know.
    pub extra: Extra,
}

/// The order of nodes does not count, that of children does.
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
    /// A tree with an empty root, which is current.
    pub fn empty(ids: &dyn IdSource, clock: &dyn Clock) -> Self {
        Self::new(Thread::new(History::new(), ids, clock), ids)
    }

    /// A tree whose root holds a thread, and is current.
    pub fn new(thread: Thread, ids: &dyn IdSource) -> Self {
        let id = NodeId::new(ids);
        let root = ThreadNode::new(id.clone(), None, Some(ROOT_NAME.to_owned()), thread, imbl::Vector::new());
        Self {
            nodes: Nodes::new(root),
            parents: imbl::Vector::unit(0),
            places: imbl::HashMap::unit(id, 0),
            root: 0,
            current: 0,
            extra: Extra::new(),
        }
    }

    /// From parts that fit together; `saved` has checked them.
    pub(super) const fn assemble(
        nodes: Nodes,
        parents: imbl::Vector<usize>,
        places: imbl::HashMap<NodeId, usize>,
        root: usize,
        current: usize,
        extra: Extra,
    ) -> Self {
        Self { nodes, parents, places, root, current, extra }
    }

    /// The node without a parent.
    pub fn root(&self) -> &Arc<ThreadNode> {
        self.at(self.root)
    }

    /// The node that grows.
    pub fn current(&self) -> &Arc<ThreadNode> {
        self.at(self.current)
    }

    /// All nodes in the order they were made.
    pub fn nodes(&self) -> impl Iterator<Item = &Arc<ThreadNode>> {
        self.nodes.iter()
    }

    /// How many nodes it has; never 0.
    pub fn node_count(&self) -> usize {
        self.nodes.len()
    }

    /// Nodes without branches, in the order they were made.
    pub fn leaves(&self) -> impl Iterator<Item = &Arc<ThreadNode>> {
        self.nodes.iter().filter(|node| node.children.is_empty())
    }

    /// A node by its id.
    pub fn node(&self, id: &str) -> Option<&Arc<ThreadNode>> {
        self.places.get(id).map(|place| self.at(*place))
    }

    /// How many messages all nodes hold together.
    pub fn message_count(&self) -> usize {
        self.nodes.iter().map(|node| node.thread.messages.len()).sum()
    }

    /// Makes a node current.
    ///
    /// # Errors
    /// [`TreeError::UnknownNode`].
    pub fn checkout(&mut self, id: &str) -> Result<(), TreeError> {
        self.current = self.place(id)?;
        Ok(())
    }

    /// Adds all messages of a turn to the current node.
    pub fn append(&mut self, turn: &Turn, clock: &dyn Clock) {
        self.push(turn.messages.iter().map(Arc::clone), clock);
    }

    /// Adds messages to the current node.
    pub fn push(&mut self, messages: impl IntoIterator<Item = Arc<Message>>, clock: &dyn Clock) {
        self.change(self.current).thread.push(messages, clock);
    }

    /// Adds messages to a node. Branches that start there already do not see them.
    ///
    /// # Errors
    /// [`TreeError::UnknownNode`].
    pub fn push_to(
        &mut self,
        id: &str,
        messages: impl IntoIterator<Item = Arc<Message>>,
        clock: &dyn Clock,
    ) -> Result<(), TreeError> {
        let place = self.place(id)?;
        self.change(place).thread.push(messages, clock);
        Ok(())
    }

    /// Takes all messages of a node away.
    ///
    /// # Errors
    /// [`TreeError::UnknownNode`]; [`TreeError::InUse`] when a branch starts after one of them.
    pub fn clear(&mut self, id: &str, clock: &dyn Clock) -> Result<(), TreeError> {
        let place = self.place(id)?;
        let node = self.at(place);
        let needs = |child: &&NodeId| {
            self.node(child.as_str()).and_then(|child| child.branch_point).is_some_and(|point| point > 0)
        };
        let branches = node.children.iter().filter(needs).count();
        if branches > 0 {
            return Err(TreeError::InUse { id: node.id.clone(), branches });
        }
        self.change(place).thread.clear(clock);
        Ok(())
    }

    /// Gives a node another name, or none.
    ///
    /// # Errors
    /// [`TreeError::UnknownNode`].
    pub fn rename(&mut self, id: &str, name: Option<String>) -> Result<(), TreeError> {
        let place = self.place(id)?;
        self.change(place).name = name;
        Ok(())
    }

    /// Gives a node other metadata.
    ///
    /// # Errors
    /// [`TreeError::UnknownNode`]; [`TreeError::Reserved`] when the metadata holds a branch point.
    pub fn set_metadata(&mut self, id: &str, metadata: RawObject) -> Result<(), TreeError> {
        let place = self.place(id)?;
        self.change(place).set_metadata(metadata)
    }

    /// All messages from the root to the current node, oldest first.
    pub fn history(&self) -> History {
        self.history_at(self.current)
    }

    /// All messages from the root to a node, oldest first.
    ///
    /// # Errors
    /// [`TreeError::UnknownNode`].
    pub fn history_of(&self, id: &str) -> Result<History, TreeError> {
        self.place(id).map(|place| self.history_at(place))
    }

    /// How many messages a node's history has. Touches no message.
    ///
    /// # Errors
    /// [`TreeError::UnknownNode`].
    pub fn history_len(&self, id: &str) -> Result<usize, TreeError> {
        let place = self.place(id)?;
        Ok(self.pieces(place).iter().map(|(_, length)| length).sum())
    }

    pub(super) fn history_at(&self, place: usize) -> History {
        let mut history = History::new();
        for (place, length) in self.pieces(place).into_iter().rev() {
            let messages = &self.at(place).thread.messages;
            if history.is_empty() || length > FEW {
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

    /// The nodes from `place` up to the root, each with how many of its messages belong to the history of `place`.
    pub(super) fn pieces(&self, place: usize) -> Vec<(usize, usize)> {
        let mut pieces = Vec::new();
        let mut length = usize::MAX;
        let mut place = place;
        loop {
            let node = self.at(place);
            pieces.push((place, node.thread.messages.len().min(length)));
            if place == self.root {
                return pieces;
            }
            length = node.branch_point.unwrap_or(usize::MAX);
            place = self.parent(place);
        }
    }

    /// Where a node is.
    ///
    /// # Errors
    /// [`TreeError::UnknownNode`].
    pub(super) fn place(&self, id: &str) -> Result<usize, TreeError> {
        self.places
            .get(id)
            .copied()
            .ok_or_else(|| TreeError::UnknownNode { id: id.chars().take(100).collect() })
    }

    pub(super) fn parent(&self, place: usize) -> usize {
        self.parents.get(place).copied().unwrap_or(self.root)
    }

    pub(super) const fn root_place(&self) -> usize {
        self.root
    }

    /// A node at a place of this tree.
    pub(super) fn at(&self, place: usize) -> &Arc<ThreadNode> {
        self.nodes.at(place)
    }

    /// A node of this tree, to be changed. Copied first when somebody looks at it as it was; its messages are shared.
    pub(super) fn change(&mut self, place: usize) -> &mut ThreadNode {
        self.nodes.change(place)
    }

    /// Adds a node under the one at `parent`, and makes it that one's last child.
    pub(super) fn add(&mut self, node: ThreadNode, parent: usize) {
        let id = node.id.clone();
        self.change(parent).children.push_back(id.clone());
        self.places.insert(id, self.nodes.push(node));
        self.parents.push_back(parent);
    }

    /// Hangs a node under another one, whose thread begins `offset` messages later than that of its parent until now.
    pub(super) fn hang(&mut self, place: usize, parent_id: &NodeId, parent: usize, offset: usize) {
        self.parents.set(place, parent);
        let node = self.change(place);
        node.parent_id = Some(parent_id.clone());
        node.branch_point = node.branch_point.map(|point| point.saturating_sub(offset));
    }
}
