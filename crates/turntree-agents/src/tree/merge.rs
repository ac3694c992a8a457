//! Merging: what one branch has and another lacks. UAP-1.0 §7.1.

use std::collections::HashSet;

use crate::tree::node::NodeId;
use crate::tree::thread_tree::{ThreadTree, TreeError};
use turntree_core::json::RawJson;
use turntree_core::time::Clock;

/// The member of a node's metadata that lists the nodes that were merged into it.
pub const MERGED_FROM: &str = "mergedFrom";

impl ThreadTree {
    /// Appends to `target` the messages of `source`'s history that `target`'s history lacks, by their ids and in order.
    /// Gives how many that were.
    ///
    /// `source` stays as it is; `target` lists it in its metadata under [`MERGED_FROM`]. Merging a second time adds only
    /// what is new since. A node, or an ancestor of it, merged into it changes nothing.
    ///
    /// # Errors
    /// [`TreeError::UnknownNode`].
    pub fn merge(&mut self, source: &str, target: &str, clock: &dyn Clock) -> Result<usize, TreeError> {
        let (source, target) = (self.place(source)?, self.place(target)?);
        if self.common_place(source, target) == source {
            return Ok(0);
        }
        let known = self.history_at(target);
        let known: HashSet<&str> = known.iter().map(|message| message.id.as_str()).collect();
        let given = self.history_at(source);
        let lacking: Vec<_> =
            given.iter().filter(|message| !known.contains(message.id.as_str())).cloned().collect();
        self.record(source, target);
        let count = lacking.len();
        if count > 0 {
            self.change(target).thread.push(lacking, clock);
        }
        Ok(count)
    }

    fn record(&mut self, source: usize, target: usize) {
        let source = self.at(source).id.clone();
        let recorded = self.at(target).metadata.get(MERGED_FROM);
        let mut merged: Vec<String> = recorded.and_then(|list| list.to().ok()).unwrap_or_default();
        if merged.iter().any(|id| id == source.as_str()) {
            return;
        }
        merged.push(source.to_string());
        let list = RawJson::from_value(&merged).unwrap_or_default();
        self.change(target).metadata.insert(MERGED_FROM, list);
    }

    /// The nearest node that two nodes have above them, or are.
    ///
    /// # Errors
    /// [`TreeError::UnknownNode`].
    pub fn common_ancestor(&self, one: &str, other: &str) -> Result<&NodeId, TreeError> {
        Ok(&self.at(self.common_place(self.place(one)?, self.place(other)?)).id)
    }

    pub(super) fn common_place(&self, one: usize, other: usize) -> usize {
        let above: HashSet<usize> = self.line(one).collect();
        self.line(other).find(|place| above.contains(place)).unwrap_or_else(|| self.root_place())
    }

    /// A node and its ancestors, up to the root.
    fn line(&self, place: usize) -> impl Iterator<Item = usize> {
        std::iter::successors(Some(place), |place| (*place != self.root_place()).then(|| self.parent(*place)))
    }
}
