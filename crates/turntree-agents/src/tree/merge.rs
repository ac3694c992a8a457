//! Merges the messages of one branch into another.
//!
//! Spec: UAP-1.0 §7.1.

use std::collections::HashSet;

use crate::tree::node::NodeId;
use crate::tree::thread_tree::{ThreadTree, TreeError};
use turntree_core::json::RawJson;
use turntree_core::time::Clock;

/// The member of a node's metadata that lists the ids of the nodes that were merged into it.
pub const MERGED_FROM: &str = "mergedFrom";

impl ThreadTree {
    /// Appends to `target` the messages of `source`'s history that `target`'s history does not have, compared by id and in
    /// order. Returns the number of appended messages.
    ///
    /// `source` does not change. The id of `source` is added to the metadata of `target` under [`MERGED_FROM`]. A second
    /// merge appends only messages that are new since the first. Merging a node or one of its ancestors into the node
    /// changes nothing.
    ///
    /// # Errors
    /// [`TreeError::UnknownNode`].
    pub fn merge(&mut self, source: &str, target: &str, clock: &dyn Clock) -> Result<usize, TreeError> {
        let (source, target) = (self.index_of(source)?, self.index_of(target)?);
        if self.common_ancestor_index(source, target) == source {
            return Ok(0);
        }
        let known = self.history_at(target);
        let known: HashSet<&str> = known.iter().map(|message| message.id.as_str()).collect();
        let messages = self.history_at(source);
        let missing: Vec<_> =
            messages.iter().filter(|message| !known.contains(message.id.as_str())).cloned().collect();
        self.record_merge(source, target);
        let count = missing.len();
        if count > 0 {
            self.push_at(target, missing, clock);
        } else {
            self.mark_changed(clock);
        }
        Ok(count)
    }

    fn record_merge(&mut self, source: usize, target: usize) {
        let source = self.at(source).id.clone();
        let recorded = self.at(target).metadata.get(MERGED_FROM);
        let mut merged: Vec<String> = recorded.and_then(|list| list.to().ok()).unwrap_or_default();
        if merged.iter().any(|id| id == source.as_str()) {
            return;
        }
        merged.push(source.to_string());
        let list = RawJson::from_value(&merged).unwrap_or_default();
        self.node_mut(target).metadata.insert(MERGED_FROM, list);
    }

    /// Returns the nearest common ancestor of two nodes; one of them if it is an ancestor of the other.
    ///
    /// # Errors
    /// [`TreeError::UnknownNode`].
    pub fn common_ancestor(&self, one: &str, other: &str) -> Result<&NodeId, TreeError> {
        Ok(&self.at(self.common_ancestor_index(self.index_of(one)?, self.index_of(other)?)).id)
    }

    pub(super) fn common_ancestor_index(&self, one: usize, other: usize) -> usize {
        let above: HashSet<usize> = self.ancestors(one).collect();
        self.ancestors(other).find(|index| above.contains(index)).unwrap_or_else(|| self.root_index())
    }

    /// Returns a node and its ancestors, up to the root.
    fn ancestors(&self, index: usize) -> impl Iterator<Item = usize> {
        std::iter::successors(Some(index), |index| (*index != self.root_index()).then(|| self.parent(*index)))
    }
}
