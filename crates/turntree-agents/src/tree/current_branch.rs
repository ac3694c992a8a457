//! The history of the current node as a tree of its own.

use crate::tree::node::ThreadNode;
use crate::tree::nodes::Nodes;
use crate::tree::thread_tree::ThreadTree;

impl ThreadTree {
    /// Returns a tree with the nodes from the root to the current node, each with the messages that belong to the history
    /// of the current node. The history is the same; other branches are gone.
    #[must_use]
    pub fn current_branch(&self) -> Self {
        let Some(current) = self.position_of_node(self.current().id.as_str()) else { return self.clone() };
        let mut segments = self.segments(current);
        segments.reverse();
        let mut nodes = Vec::with_capacity(segments.len());
        let mut indexes = imbl::HashMap::new();
        for (position, (index, length)) in segments.iter().enumerate() {
            let mut node = ThreadNode::clone(self.at(*index));
            if *length < node.thread.messages.len() {
                node.thread.messages = node.thread.messages.take(*length);
                node.removals.add();
            }
            let next = segments.get(position + 1);
            node.children = next.map(|(next, _)| self.at(*next).id.clone()).into_iter().collect();
            indexes.insert(node.id.clone(), position);
            nodes.push(node);
        }
        let last = nodes.len().saturating_sub(1);
        let parents = (0..nodes.len()).map(|position| position.saturating_sub(1)).collect();
        match Nodes::from_all(nodes) {
            Some(nodes) => Self::from_parts(nodes, parents, indexes, 0, last, self.extra.clone()),
            None => self.clone(),
        }
    }
}
