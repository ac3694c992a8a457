//! The list of a tree's nodes: never empty, and cheap to clone.

use std::sync::Arc;

use crate::tree::node::ThreadNode;

/// A list of at least one node. Cloning shares the nodes; changing a shared node copies that node first.
#[derive(Debug, Clone)]
pub(super) struct Nodes {
    first: Arc<ThreadNode>,
    rest: imbl::Vector<Arc<ThreadNode>>,
}

impl Nodes {
    pub(super) fn new(first: ThreadNode) -> Self {
        Self { first: Arc::new(first), rest: imbl::Vector::new() }
    }

    /// Creates a list; `None` if there are no nodes.
    pub(super) fn from_all(nodes: Vec<ThreadNode>) -> Option<Self> {
        let mut nodes = nodes.into_iter();
        let first = Arc::new(nodes.next()?);
        Some(Self { first, rest: nodes.map(Arc::new).collect() })
    }

    /// Returns the node at an index of this list.
    pub(super) fn at(&self, index: usize) -> &Arc<ThreadNode> {
        index.checked_sub(1).and_then(|index| self.rest.get(index)).unwrap_or(&self.first)
    }

    /// Returns the node at an index of this list for changing it.
    pub(super) fn at_mut(&mut self, index: usize) -> &mut ThreadNode {
        let node = index.checked_sub(1).and_then(|index| self.rest.get_mut(index));
        Arc::make_mut(node.unwrap_or(&mut self.first))
    }

    /// Adds a node and returns its index.
    pub(super) fn push(&mut self, node: ThreadNode) -> usize {
        self.rest.push_back(Arc::new(node));
        self.rest.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Arc<ThreadNode>> {
        std::iter::once(&self.first).chain(&self.rest)
    }

    pub(super) fn len(&self) -> usize {
        self.rest.len() + 1
    }
}
