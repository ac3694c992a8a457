//! Branches: a new node under an old one. UAP-1.0 §7.1.

use std::sync::Arc;

use crate::tree::node::{NodeId, ThreadNode};
use crate::tree::thread_tree::{ThreadTree, TreeError};
use turntree_core::ids::IdSource;
use turntree_core::json::RawObject;
use turntree_core::message::Thread;
use turntree_core::message::message::History;
use turntree_core::time::Clock;

impl ThreadTree {
    /// Starts a branch after the last message that a node has now; the current node stays current.
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
        let parent = self.place(from)?;
        let point = self.at(parent).thread.messages.len();
        let parent_id = self.at(parent).id.clone();
        let thread = Thread::new(History::new(), ids, clock);
        let id = NodeId::new(ids);
        let node = ThreadNode::new(id.clone(), Some((parent_id, point)), name, thread, imbl::Vector::new());
        self.add(node, parent);
        Ok(id)
    }

    /// Hangs a thread of its own under the root, with nothing of the root in its history; the current node stays current.
    ///
    /// This is how a side conversation is kept with the one it was asked from (UAP-1.0 §9.2, decision A99).
    ///
    /// # Errors
    /// [`TreeError::Reserved`] when the metadata holds a branch point.
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
        self.add(node, self.root_place());
        Ok(id)
    }

    /// Cuts a node's thread after `at` messages. What came after becomes the thread of a new branch there, whose history
    /// is what the node's was; branches from after the cut hang under it. No other history changes, and the current
    /// node stays current. Gives the new node; none when there is nothing after the cut.
    ///
    /// This is how a session goes back and keeps what it leaves.
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
        let place = self.place(id)?;
        let node = Arc::clone(self.at(place));
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
            let child = self.place(child.as_str())?;
            self.hang(child, &tail_id, self.node_count(), at);
        }
        let head = self.change(place);
        head.children = before.into();
        head.thread.messages = messages.take(at);
        head.thread.updated_at = clock.now();
        let thread = Thread::new(messages.skip(at), ids, clock);
        let tail = ThreadNode::new(tail_id.clone(), Some((node.id.clone(), at)), name, thread, after.into());
        self.add(tail, place);
        Ok(Some(tail_id))
    }
}
