//! Where a tree keeps its nodes: in a row that is never empty and can be shared as it is.

use std::sync::Arc;

use crate::tree::node::ThreadNode;

/// At least one node. Cloning shares all of them; changing one copies that one first if it is shared.
#[derive(Debug, Clone)]
pub(super) struct Nodes {
    first: Arc<ThreadNode>,
    rest: imbl::Vector<Arc<ThreadNode>>,
}

impl Nodes {
    pub(super) fn new(first: ThreadNode) -> Self {
        Self { first: Arc::new(first), rest: imbl::Vector::new() }
    }

    /// The nodes in a row; `None` when there are none.
    pub(super) fn from_all(nodes: Vec<ThreadNode>) -> Option<Self> {
        let mut nodes = nodes.into_iter();
        let first = Arc::new(nodes.next()?);
        Some(Self { first, rest: nodes.map(Arc::new).collect() })
    }

    /// The node at a place that this row gave out.
    pub(super) fn at(&self, place: usize) -> &Arc<ThreadNode> {
        place.checked_sub(1).and_then(|place| self.rest.get(place)).unwrap_or(&self.first)
    }

    /// As [`Self::at`], to be changed.
    pub(super) fn change(&mut self, place: usize) -> &mut ThreadNode {
        let found = place.checked_sub(1).and_then(|place| self.rest.get_mut(place));
        Arc::make_mut(found.unwrap_or(&mut self.first))
    }

    /// Adds a node; gives its place.
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
