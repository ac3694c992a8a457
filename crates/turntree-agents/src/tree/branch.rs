//! Starts branches, adds side threads and splits nodes.
//!
//! Spec: UAP-1.0 §7.1.

use std::sync::Arc;

use crate::tree::node::{NodeId, ThreadNode};
use crate::tree::thread_tree::{ThreadTree, TreeError};
use turntree_core::ids::IdSource;
use turntree_core::json::RawObject;
use turntree_core::message::Thread;
use turntree_core::message::message::History;
use turntree_core::time::Clock;

impl ThreadTree {
    /// Starts a branch after the last message of a node and returns the new node. The current node does not change.
    ///
    /// # Errors
    /// [`TreeError::UnknownNode`].
    pub fn branch(
        &mut self,
        from: &str,
        name: Option<String>,
        ids: &dyn IdSource,
        clock: &dyn Clock,
    ) -> Result<NodeId, TreeError> {
        let point = self.at(self.index_of(from)?).thread.messages.len();
        self.branch_after(from, point, name, ids, clock)
    }

    /// Starts a branch after the first `after` messages of a node's own thread, as an edit of an earlier message does.
    ///
    /// # Errors
    /// [`TreeError::UnknownNode`]; [`TreeError::TooFew`] if the node has fewer messages.
    pub fn branch_after(
        &mut self,
        from: &str,
        after: usize,
        name: Option<String>,
        ids: &dyn IdSource,
        clock: &dyn Clock,
    ) -> Result<NodeId, TreeError> {
        let parent = self.index_of(from)?;
        let (parent_id, found) = (self.at(parent).id.clone(), self.at(parent).thread.messages.len());
        if after > found {
            return Err(TreeError::TooFew { id: parent_id, found, after });
        }
        let thread = Thread::new(History::new(), ids, clock);
        let id = NodeId::new(ids);
        let node = ThreadNode::new(id.clone(), Some((parent_id, after)), name, thread, imbl::Vector::new());
        self.add(node, parent);
        self.mark_changed(clock);
        Ok(id)
    }

    /// Adds a node under the root whose history is only its own thread, and returns it. The current node does not change.
    /// Used to store a side conversation with the conversation that started it.
    ///
    /// # Errors
    /// [`TreeError::Reserved`] if the metadata has the key of the branch point.
    ///
    /// Spec: UAP-1.0 §9.2, decision A99.
    pub fn add_side_thread(
        &mut self,
        thread: Thread,
        name: Option<String>,
        metadata: RawObject,
        ids: &dyn IdSource,
    ) -> Result<NodeId, TreeError> {
        let (id, root) = (NodeId::new(ids), self.root().id.clone());
        let mut node = ThreadNode::new(id.clone(), Some((root, 0)), name, thread, imbl::Vector::new());
        node.set_metadata(metadata)?;
        self.add(node, self.root_index());
        Ok(id)
    }

    /// Adds a node with a thread and an id under another node, after `point` of its messages. The current node does not
    /// change.
    ///
    /// # Errors
    /// [`TreeError::UnknownNode`].
    pub(crate) fn branch_at(
        &mut self,
        parent: &str,
        point: usize,
        name: Option<String>,
        thread: Thread,
        id: NodeId,
    ) -> Result<NodeId, TreeError> {
        let index = self.index_of(parent)?;
        let parent_id = self.at(index).id.clone();
        let node = ThreadNode::new(id.clone(), Some((parent_id, point)), name, thread, imbl::Vector::new());
        self.add(node, index);
        Ok(id)
    }

    /// Splits a node's thread after `at` messages. The messages after the cut become the thread of a new child node, whose
    /// history is the node's former history. Branches that start after the cut move under the new node. No other history
    /// changes, and the current node does not change. Returns the new node, or `None` if there are no messages after the
    /// cut.
    ///
    /// A session uses it to restore a checkpoint without losing the later messages.
    ///
    /// # Errors
    /// [`TreeError::UnknownNode`].
    pub fn split(
        &mut self,
        id: &str,
        at: usize,
        name: Option<String>,
        ids: &dyn IdSource,
        clock: &dyn Clock,
    ) -> Result<Option<NodeId>, TreeError> {
        let index = self.index_of(id)?;
        let node = Arc::clone(self.at(index));
        let messages = &node.thread.messages;
        if at >= messages.len() {
            return Ok(None);
        }
        let is_after = |child: &NodeId| {
            self.node(child.as_str()).and_then(|child| child.branch_point).is_some_and(|point| point > at)
        };
        let (after, before): (Vec<_>, Vec<_>) = node.children.iter().cloned().partition(is_after);
        let tail_id = NodeId::new(ids);
        for child in &after {
            let child = self.index_of(child.as_str())?;
            self.reparent(child, &tail_id, self.node_count(), at);
        }
        let head = self.node_mut(index);
        head.children = before.into();
        head.thread.messages = messages.take(at);
        head.removals.add();
        head.thread.updated_at = clock.now();
        let thread = Thread::new(messages.skip(at), ids, clock);
        let tail = ThreadNode::new(tail_id.clone(), Some((node.id.clone(), at)), name, thread, after.into());
        self.add(tail, index);
        self.mark_changed(clock);
        Ok(Some(tail_id))
    }
}
