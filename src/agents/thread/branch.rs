//! Branches: a new node under an old one. UAP-1.0 §7.1.

use super::node::{NodeId, ThreadNode};
use super::tree::{ThreadTree, TreeError};
use crate::core::ids::IdSource;
use crate::core::time::Clock;
use crate::message::Thread;
use crate::message::message::History;

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
}
