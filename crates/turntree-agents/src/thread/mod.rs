//! A conversation as a tree of threads. UAP-1.0 §7 and §13.2.
//!
//! A [`ThreadNode`] holds a thread with its own messages only. A branch starts at a *branch point*: the number of messages
//! that its parent had at that moment, and no more of the parent is part of its history. The history of a node is the
//! beginnings of its ancestors' threads up to their branch points, then its own thread.
//!
//! ```text
//! main      m1 m2 m3 m4            history: m1 m2 m3 m4
//!                └─ other  m5 m6   history: m1 m2 m5 m6      (branch point 2)
//! ```
//!
//! Nodes and messages are shared: cloning a tree, branching and checking out cost the same however long the
//! conversation is, and no message is copied anywhere.
//!
//! [`tree`] grows and reads, [`branch`] starts branches, [`merge`] and [`diff`] compare them, [`draw`] shows them,
//! [`saved`] is the JSON, [`shared`] a tree that several owners hold.

pub mod branch;
pub mod diff;
pub mod draw;
pub mod merge;
pub mod node;
mod nodes;
pub mod saved;
pub mod shared;
mod transcript;
pub mod tree;

pub use diff::ThreadDiff;
pub use draw::Drawing;
pub use node::{NodeId, ThreadNode};
pub use saved::{ThreadNodeJson, ThreadTreeJson};
pub use shared::SharedTree;
pub use tree::{ThreadTree, TreeError};
