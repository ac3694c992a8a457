//! The journal of a session: one entry for each save, with what changed since the entry before it.
//!
//! ```text
//!   SessionSnapshot ──> Journal::prepare ──> entry (JSON text) ──> store ──> Journal::commit
//!   entries of a log ──> Journal::read ──> SessionSnapshot + Journal
//! ```
//!
//! Messages and runs are written once and numbered in the order of their first appearance in the log. The sessions of
//! sub-agents have logs inside the log, and their versions are numbered. Nodes, checkpoints and the unfinished run refer
//! to them by number, so that a branch, a merge, a restored checkpoint or a committed turn costs a few bytes. The cost of
//! an entry depends on what is new, not on the length of the log; only pointers are compared with the entry before it.
//!
//! | module | content |
//! |---|---|
//! | [`entry`](self) | the JSON of an entry |
//! | [`writer`](self) | what changed between two snapshots |
//! | [`runs`](self) | which run of the log contains which data |
//! | [`sub_agents`](self) | the logs of sub-agents |
//! | [`reader`](self) | replays the entries of a log |
//!
//! Spec: UAP-1.0 §2.3, §13.

mod entry;
mod reader;
mod round;
mod runs;
mod sub_agents;
mod writer;

use std::collections::HashMap;
use std::sync::Arc;

use crate::session::json::SessionSnapshot;
use turntree_core::message::Message;

use runs::Runs;
use sub_agents::SubAgentLogs;

pub use reader::JournalError;
pub use writer::PreparedEntry;

/// The newest version of the entries' format. Older versions are read.
pub const VERSION: u32 = 1;

/// The state of a session's log: what its entries contain.
#[derive(Debug, Default)]
pub struct Journal {
    /// The session after the last entry; `None` for an empty log.
    snapshot: Option<SessionSnapshot>,
    messages: Numbered<Message>,
    sub_agents: SubAgentLogs,
    runs: Runs,
    /// The number of user messages of the tree.
    turns: u64,
}

impl Journal {
    /// Returns the session after the last entry; `None` for an empty log.
    pub const fn snapshot(&self) -> Option<&SessionSnapshot> {
        self.snapshot.as_ref()
    }

    /// Returns the number of user messages of the tree.
    pub const fn turns(&self) -> u64 {
        self.turns
    }
}

/// Objects in the order of their first appearance, with their numbers. Two objects are the same if they share memory.
#[derive(Debug)]
struct Numbered<T> {
    objects: Vec<Arc<T>>,
    /// The number of each object, by its address. The objects are alive, so the addresses are unique.
    numbers: HashMap<usize, u32>,
}

impl<T> Default for Numbered<T> {
    fn default() -> Self {
        Self { objects: Vec::new(), numbers: HashMap::new() }
    }
}

impl<T> Numbered<T> {
    fn len(&self) -> usize {
        self.objects.len()
    }

    fn get(&self, number: u32) -> Option<&Arc<T>> {
        self.objects.get(number as usize)
    }

    fn number_of(&self, object: &Arc<T>) -> Option<u32> {
        self.numbers.get(&Arc::as_ptr(object).addr()).copied()
    }

    /// Adds an object, which gets the next number.
    fn push(&mut self, object: Arc<T>) {
        let number = u32::try_from(self.objects.len()).unwrap_or(u32::MAX);
        self.numbers.insert(Arc::as_ptr(&object).addr(), number);
        self.objects.push(object);
    }
}
