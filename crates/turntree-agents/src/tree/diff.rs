//! Compares the histories of two nodes.

use std::collections::HashSet;
use std::sync::Arc;

use crate::tree::thread_tree::{ThreadTree, TreeError};
use turntree_core::json::{Extra, json_object};
use turntree_core::message::Message;
use turntree_core::message::message::History;

json_object! {
    /// The difference between the histories of two nodes.
    #[derive(Debug, Clone, PartialEq)]
    pub struct ThreadDiff {
        /// The nearest common ancestor; one of the two nodes if it is an ancestor of the other.
        pub ancestor_id: String = "ancestorId",
        /// The number of messages at the start that both histories have.
        pub common: u64 = "common",
        /// The id of the first node.
        pub id_a: Option<String> = "idA",
        /// The id of the second node.
        pub id_b: Option<String> = "idB",
        /// The name of the first node, if it has one.
        pub name_a: Option<String> = "nameA",
        /// The name of the second node, if it has one.
        pub name_b: Option<String> = "nameB",
        /// Messages that only the first history has, compared by id.
        pub only_a: Vec<Arc<Message>> = "onlyA",
        /// Messages that only the second history has, compared by id.
        pub only_b: Vec<Arc<Message>> = "onlyB",
    }
}

impl ThreadTree {
    /// Compares the histories of two nodes.
    ///
    /// # Errors
    /// [`TreeError::UnknownNode`].
    pub fn diff(&self, a: &str, b: &str) -> Result<ThreadDiff, TreeError> {
        let (a, b) = (self.index_of(a)?, self.index_of(b)?);
        let ancestor = self.at(self.common_ancestor_index(a, b));
        let (node_a, node_b) = (self.at(a), self.at(b));
        let (a, b) = (self.history_at(a), self.history_at(b));
        let common = a.iter().zip(&b).take_while(|(one, two)| one.id == two.id).count();
        Ok(ThreadDiff {
            ancestor_id: ancestor.id.to_string(),
            common: common as u64,
            id_a: Some(node_a.id.to_string()),
            id_b: Some(node_b.id.to_string()),
            name_a: node_a.name.clone(),
            name_b: node_b.name.clone(),
            only_a: without(&a, &b),
            only_b: without(&b, &a),
            extra: Extra::new(),
        })
    }
}

/// Returns the messages of one history that the other does not have.
fn without(history: &History, other: &History) -> Vec<Arc<Message>> {
    let known: HashSet<&str> = other.iter().map(|message| message.id.as_str()).collect();
    history.iter().filter(|message| !known.contains(message.id.as_str())).cloned().collect()
}
