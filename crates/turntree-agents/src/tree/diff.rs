//! What two branches share and what each has alone.

use std::collections::HashSet;
use std::sync::Arc;

use crate::tree::thread_tree::{ThreadTree, TreeError};
use turntree_core::json::{Extra, json_object};
use turntree_core::message::Message;
use turntree_core::message::message::History;

json_object! {
    /// Two nodes side by side.
    #[derive(Debug, Clone, PartialEq)]
    pub struct ThreadDiff {
        /// The nearest node that both have above them, or are.
        pub ancestor_id: String = "ancestorId",
        /// How many messages both histories begin with.
        pub common: u64 = "common",
        /// Messages of the first history that the second lacks, by their ids.
        pub only_a: Vec<Arc<Message>> = "onlyA",
        /// Messages of the second history that the first lacks, by their ids.
        pub only_b: Vec<Arc<Message>> = "onlyB",
    }
}

impl ThreadTree {
    /// Compares the histories of two nodes.
    ///
    /// # Errors
    /// [`TreeError::UnknownNode`].
    pub fn diff(&self, a: &str, b: &str) -> Result<ThreadDiff, TreeError> {
        let (a, b) = (self.place(a)?, self.place(b)?);
        let ancestor = self.at(self.common_place(a, b));
        let (a, b) = (self.history_at(a), self.history_at(b));
        let common = a.iter().zip(&b).take_while(|(one, two)| one.id == two.id).count();
        Ok(ThreadDiff {
            ancestor_id: ancestor.id.to_string(),
            common: common as u64,
            only_a: without(&a, &b),
            only_b: without(&b, &a),
            extra: Extra::new(),
        })
    }
}

/// Messages of one history that the other lacks.
fn without(history: &History, other: &History) -> Vec<Arc<Message>> {
    let known: HashSet<&str> = other.iter().map(|message| message.id.as_str()).collect();
    history.iter().filter(|message| !known.contains(message.id.as_str())).cloned().collect()
}
