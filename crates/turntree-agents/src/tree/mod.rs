//! A conversation with branches: a tree of threads.
//!
//! A [`ThreadNode`] contains a thread with its own messages only. A branch starts at a *branch point*: the number of
//! messages of the parent's thread that belong to the branch's history. The history of a node consists of the messages of
//! its ancestors up to the branch points, followed by its own messages.
//!
//! ```text
//! main      m1 m2 m3 m4            history: m1 m2 m3 m4
//!                └─ other  m5 m6   history: m1 m2 m5 m6      (branch point 2)
//! ```
//!
//! Trees share their nodes and messages: the cost of cloning a tree, starting a branch or checking out a node does not
//! depend on the length of the conversation, and messages are never copied.
//!
//! | module | content |
//! |---|---|
//! | [`thread_tree`] | [`ThreadTree`]: lookup, appending, histories |
//! | [`node`] | [`ThreadNode`] and [`NodeId`] |
//! | [`branch`] | starts and splits branches |
//! | [`current_branch`](self) | the history of the current node as a tree |
//! | [`merge`], [`diff`] | merges and compares branches |
//! | [`position`] | positions in a tree |
//! | [`drawing`] | the tree as text and HTML |
//! | [`json`] | the JSON of trees, and its validation |
//! | [`shared_tree`] | a tree with several owners |
//! | [`node_handle`] | a handle to a node of a shared tree |
//!
//! Spec: UAP-1.0 §7, §13.2.

pub mod branch;
mod current_branch;
pub mod diff;
pub mod drawing;
pub mod json;
pub mod merge;
pub mod node;
pub mod node_handle;
mod nodes;
pub(crate) mod part_depth;
pub mod position;
pub mod shared_tree;
pub mod thread_tree;
mod transcript;

pub use diff::ThreadDiff;
pub use drawing::Drawing;
pub use json::{ThreadNodeJson, ThreadTreeJson};
pub use node::{NodeId, ThreadNode};
pub use node_handle::NodeHandle;
pub use position::TreePosition;
pub use shared_tree::SharedTree;
pub use thread_tree::{ThreadTree, TreeError};
