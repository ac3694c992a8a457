//! A position in a tree: a node and a number of messages of its thread.

use super::node::NodeId;
use super::thread_tree::{ThreadTree, TreeError};
use turntree_core::message::message::History;

/// A position in a tree: after `length` messages of a node's own thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TreePosition {
    /// The node.
    pub node: NodeId,
    /// The number of messages of the node's thread. `None` only in a checkpoint that was read from JSON without this
    /// number; it then means all messages that the node has when the session is loaded.
    pub length: Option<usize>,
}

impl TreePosition {
    /// Returns the number of messages. It may be more than the node has, if messages were removed from it.
    ///
    /// # Errors
    /// The message for a node that does not exist.
    pub(crate) fn resolve(&self, tree: &ThreadTree) -> Result<usize, String> {
        let Some(node) = tree.node(self.node.as_str()) else {
            return Err(format!("no node has the id \"{}\"", self.node));
        };
        Ok(self.length.unwrap_or_else(|| node.thread.messages.len()))
    }
}

impl ThreadTree {
    /// Returns the position after the last message of the current node.
    pub fn current_position(&self) -> TreePosition {
        let node = self.current();
        TreePosition { node: node.id.clone(), length: Some(node.thread.messages.len()) }
    }

    /// Returns the messages from the root up to a position, oldest first.
    ///
    /// # Errors
    /// [`TreeError::UnknownNode`].
    pub fn history_up_to(&self, position: &TreePosition) -> Result<History, TreeError> {
        let id = position.node.as_str();
        let history = self.history_of(id)?;
        let own = self.node(id).map_or(0, |node| node.thread.messages.len());
        let after = own.saturating_sub(position.length.unwrap_or(own));
        Ok(history.take(history.len().saturating_sub(after)))
    }
}
