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
//! [`thread_tree`] grows and reads, [`branch`] starts branches, [`merge`] and [`diff`] compare them, [`drawing`] shows them,
//! [`json`] is the JSON, [`shared_tree`] a tree that several owners hold.

pub mod branch;
pub mod diff;
pub mod drawing;
pub mod json;
pub mod merge;
pub mod node;
mod nodes;
pub mod position;
pub mod shared_tree;
pub mod thread_tree;
mod transcript;

pub use diff::ThreadDiff;
pub use drawing::Drawing;
pub use json::{ThreadNodeJson, ThreadTreeJson};
pub use node::{NodeId, ThreadNode};
pub use position::TreePosition;
pub use shared_tree::SharedTree;
pub use thread_tree::{ThreadTree, TreeError};
