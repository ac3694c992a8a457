//! Puts the changes of one copy of a session on branches of another copy.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::session::checkpoint::Checkpoint;
use crate::session::json::SessionSnapshot;
use crate::tree::node::{NodeId, ThreadNode};
use crate::tree::position::TreePosition;
use crate::tree::thread_tree::{ThreadTree, TreeError};
use turntree_core::ids::IdSource;
use turntree_core::message::Thread;
use turntree_core::time::Clock;

/// The name of the branch that receives the messages of a rebased session.
const REBASED: &str = "rebased";

/// A node's messages after `start` are now in the node `branch`.
struct Moved {
    start: usize,
    branch: NodeId,
}

/// Returns `theirs` with the changes that `ours` has in addition to `base`: messages that were added to a node follow the
/// node's messages, or are on a branch of it if `theirs` has other messages there. New nodes, new checkpoints and the
/// unfinished run of `ours` are taken over.
///
/// # Errors
/// [`TreeError`] if a node of `base` is not in `theirs`.
pub(super) fn rebase(
    base: &SessionSnapshot,
    ours: &SessionSnapshot,
    theirs: SessionSnapshot,
    ids: &dyn IdSource,
    clock: &dyn Clock,
) -> Result<SessionSnapshot, TreeError> {
    let mut merged = theirs;
    let mut moved: HashMap<NodeId, Moved> = HashMap::new();
    for node in ours.tree.nodes() {
        match base.tree.node(node.id.as_str()) {
            Some(old) => {
                if let Some(branch) = add_messages(&mut merged.tree, old, node, ids, clock)? {
                    moved.insert(node.id.clone(), branch);
                }
            }
            None => add_node(&mut merged.tree, node, &moved)?,
        }
    }
    let current = ours.tree.current_position();
    merged.tree.checkout(new_position(&current, &moved).node.as_str())?;
    let known: HashSet<_> = merged.checkpoints.iter().map(|known| Arc::clone(&known.id)).collect();
    for checkpoint in ours.checkpoints.iter().filter(|checkpoint| !known.contains(&checkpoint.id)) {
        let position = new_position(&checkpoint.position, &moved);
        merged.checkpoints.push_back(Arc::new(Checkpoint { position, ..Checkpoint::clone(checkpoint) }));
    }
    let current = ours.current.and_then(|current| ours.checkpoints.get(current));
    let position = current.and_then(|ours| merged.checkpoints.iter().position(|known| known.id == ours.id));
    merged.current = position.or(merged.current);
    if let Some(unfinished) = &ours.unfinished {
        let mut unfinished = unfinished.clone();
        unfinished.position = new_position(&unfinished.position, &moved);
        merged.unfinished = Some(unfinished);
    }
    merged.middleware = ours.middleware.clone();
    merged.metadata = ours.metadata.clone();
    merged.updated_at = clock.now();
    Ok(merged)
}

/// Adds the messages that a node has in addition to `old`. Returns the branch that has them, if they are on one.
fn add_messages(
    tree: &mut ThreadTree,
    old: &ThreadNode,
    node: &ThreadNode,
    ids: &dyn IdSource,
    clock: &dyn Clock,
) -> Result<Option<Moved>, TreeError> {
    let start = old.thread.messages.len();
    let added = node.thread.messages.skip(start.min(node.thread.messages.len()));
    if added.is_empty() {
        return Ok(None);
    }
    let theirs = tree.require_node(node.id.as_str())?;
    if theirs.thread.messages.len() == start {
        tree.push_to(node.id.as_str(), added, clock)?;
        return Ok(None);
    }
    let point = start.min(theirs.thread.messages.len());
    let thread = Thread::new(added, ids, clock);
    let name = Some(REBASED.to_owned());
    let branch = tree.branch_at(node.id.as_str(), point, name, thread, NodeId::new(ids))?;
    tree.mark_changed(clock);
    Ok(Some(Moved { start, branch }))
}

/// Adds a node that only our copy has.
fn add_node(
    tree: &mut ThreadTree,
    node: &ThreadNode,
    moved: &HashMap<NodeId, Moved>,
) -> Result<(), TreeError> {
    let Some(parent) = &node.parent_id else { return Ok(()) };
    if tree.node(node.id.as_str()).is_some() {
        return Ok(());
    }
    let parent = TreePosition { node: parent.clone(), length: node.branch_point };
    let parent = new_position(&parent, moved);
    let point = parent.length.unwrap_or_default();
    let thread = node.thread.clone();
    let id = tree.branch_at(parent.node.as_str(), point, node.name.clone(), thread, node.id.clone())?;
    tree.set_metadata(id.as_str(), node.metadata.clone())
}

/// Returns where a position of our copy is in the merged tree.
fn new_position(position: &TreePosition, moved: &HashMap<NodeId, Moved>) -> TreePosition {
    let found = moved.get(&position.node).zip(position.length);
    match found.filter(|(moved, length)| *length > moved.start) {
        Some((moved, length)) => {
            TreePosition { node: moved.branch.clone(), length: Some(length - moved.start) }
        }
        None => position.clone(),
    }
}
