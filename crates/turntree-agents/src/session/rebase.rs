//! Puts the changes of one copy of a session on branches of another copy.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use crate::session::checkpoint::Checkpoint;
use crate::session::json::SessionSnapshot;
use crate::session::unfinished_run::UnfinishedRun;
use crate::tree::node::{NodeId, ThreadNode};
use crate::tree::position::TreePosition;
use crate::tree::thread_tree::{ThreadTree, TreeError};
use turntree_core::ids::IdSource;
use turntree_core::json::RawObject;
use turntree_core::message::Thread;
use turntree_core::time::Clock;

/// The name of the branch that receives the messages of a rebased session.
const REBASED: &str = "rebased";

/// A node's messages after `start` are now in the node `branch`.
struct Moved {
    start: usize,
    branch: NodeId,
}

/// Returns `theirs` with the changes that `ours` has in addition to `base`, the state that both have started from: `None` if
/// the two were created independently. Messages that were added to a node follow the node's messages, or are on a branch of
/// it if `theirs` has other messages there. New nodes, new checkpoints, changed metadata and the unfinished run of `ours` are
/// taken over, and a run that `ours` has ended is not unfinished any more. Nodes that only `theirs` has removed stay removed
/// if nothing new of `ours` follows them.
///
/// # Errors
/// [`TreeError`] if a tree is inconsistent.
pub(super) fn rebase(
    base: Option<&SessionSnapshot>,
    ours: &SessionSnapshot,
    theirs: SessionSnapshot,
    ids: &dyn IdSource,
    clock: &dyn Clock,
) -> Result<SessionSnapshot, TreeError> {
    let mut merged = theirs;
    let known = base.iter().flat_map(|base| &base.checkpoints).chain(&merged.checkpoints);
    let known: HashSet<_> = known.map(|known| Arc::clone(&known.id)).collect();
    let new: Vec<_> = ours.checkpoints.iter().filter(|checkpoint| !known.contains(&checkpoint.id)).collect();
    let unfinished = merged_run(base, ours, &merged);

    let positions = new.iter().map(|checkpoint| &checkpoint.position);
    let positions = positions.chain(unfinished.from_ours.iter().map(|run| &run.position));
    let needed = needed_messages(base.map(|base| &base.tree), &ours.tree, positions);
    let moved = add_nodes(&mut merged.tree, &ours.tree, &needed, ids, clock)?;

    let current = new_position(&ours.tree.current_position(), &moved);
    if merged.tree.node(current.node.as_str()).is_some() {
        merged.tree.checkout(current.node.as_str())?;
    }
    for checkpoint in new {
        let position = new_position(&checkpoint.position, &moved);
        merged.checkpoints.push_back(Arc::new(Checkpoint { position, ..Checkpoint::clone(checkpoint) }));
    }
    let current = ours.current.and_then(|current| ours.checkpoints.get(current));
    let position = current.and_then(|ours| merged.checkpoints.iter().position(|known| known.id == ours.id));
    merged.current = position.or(merged.current);
    if let Some(run) = unfinished.from_ours {
        let position = new_position(&run.position, &moved);
        merged.unfinished = Some(UnfinishedRun { position, ..run.clone() });
    } else if unfinished.is_over {
        merged.unfinished = None;
    }
    merge_members(base.map(|base| &base.middleware), &ours.middleware, &mut merged.middleware);
    merge_members(base.map(|base| &base.metadata), &ours.metadata, &mut merged.metadata);
    merged.updated_at = clock.now();
    Ok(merged)
}

/// What becomes of the unfinished run. If neither is set, that of the other writer stays.
struct MergedRun<'a> {
    /// The run of our copy, if it has one that was started, continued or decided on here.
    from_ours: Option<&'a UnfinishedRun>,
    /// True if our copy has ended the run that the other writer's copy still has.
    is_over: bool,
}

fn merged_run<'a>(
    base: Option<&SessionSnapshot>,
    ours: &'a SessionSnapshot,
    theirs: &SessionSnapshot,
) -> MergedRun<'a> {
    let before = base.and_then(|base| base.unfinished.as_ref());
    let Some(run) = &ours.unfinished else {
        let is_over = before.is_some_and(|before| {
            theirs.unfinished.as_ref().is_some_and(|theirs| input_of(theirs) == input_of(before))
        });
        return MergedRun { from_ours: None, is_over };
    };
    let is_changed = before.is_none_or(|before| !is_same_run(before, run));
    MergedRun { from_ours: is_changed.then_some(run), is_over: false }
}

/// The id of the message that a run was started with.
fn input_of(run: &UnfinishedRun) -> Option<String> {
    run.run.as_ref().and_then(|run| run.messages().front()).map(|message| message.id.clone())
}

/// True if two copies of a run are in the same state.
pub(super) fn is_same_run(one: &UnfinishedRun, other: &UnfinishedRun) -> bool {
    let text = |run| serde_json::to_string(run).ok();
    text(one).is_some_and(|one| text(other) == Some(one))
}

/// Returns the number of messages of each of our nodes that the merged tree must have. A node without new messages, and
/// without a position or a new branch after it, is missing.
fn needed_messages<'a>(
    base: Option<&ThreadTree>,
    ours: &ThreadTree,
    positions: impl Iterator<Item = &'a TreePosition>,
) -> HashMap<NodeId, usize> {
    let mut needed: HashMap<NodeId, usize> = HashMap::new();
    let mut need = |node: &NodeId, length: usize| {
        needed.entry(node.clone()).and_modify(|needed| *needed = length.max(*needed)).or_insert(length);
    };
    for node in ours.nodes() {
        let length = node.thread.messages.len();
        let is_new = match base.and_then(|base| base.node(node.id.as_str())) {
            Some(old) => shared_messages(&old.thread, &node.thread) < length,
            None => length > 0 || node.parent_id.is_some(),
        };
        if is_new {
            need(&node.id, length);
        }
    }
    for position in positions {
        let length =
            ours.node(position.node.as_str()).map(|node| node.thread.messages.len()).unwrap_or_default();
        need(&position.node, position.length.unwrap_or(length).min(length));
    }
    for node in parents_first(ours).into_iter().rev() {
        if let (Some(parent), Some(point), true) =
            (&node.parent_id, node.branch_point, needed.contains_key(&node.id))
        {
            needed.entry(parent.clone()).and_modify(|needed| *needed = point.max(*needed)).or_insert(point);
        }
    }
    needed
}

/// Adds our nodes and messages that are needed and that the tree does not have. Returns the nodes whose messages are on
/// branches.
fn add_nodes(
    tree: &mut ThreadTree,
    ours: &ThreadTree,
    needed: &HashMap<NodeId, usize>,
    ids: &dyn IdSource,
    clock: &dyn Clock,
) -> Result<HashMap<NodeId, Moved>, TreeError> {
    let mut moved: HashMap<NodeId, Moved> = HashMap::new();
    for node in parents_first(ours) {
        let Some(length) = needed.get(&node.id) else { continue };
        let Some(theirs) = tree.node(node.id.as_str()) else {
            add_node(tree, node, &moved)?;
            continue;
        };
        let start = shared_messages(&theirs.thread, &node.thread);
        if *length <= start {
            continue;
        }
        let added = node.thread.messages.skip(start);
        if theirs.thread.messages.len() == start {
            tree.push_to(node.id.as_str(), added, clock)?;
            continue;
        }
        let thread = Thread::new(added, ids, clock);
        let name = Some(REBASED.to_owned());
        let branch = tree.branch_at(node.id.as_str(), start, name, thread, NodeId::new(ids))?;
        tree.mark_changed(clock);
        moved.insert(node.id.clone(), Moved { start, branch });
    }
    Ok(moved)
}

/// Adds a node that only our copy has. A root becomes a branch before the first message of the other root.
fn add_node(
    tree: &mut ThreadTree,
    node: &ThreadNode,
    moved: &HashMap<NodeId, Moved>,
) -> Result<(), TreeError> {
    let (parent, name) = if let Some(parent) = &node.parent_id {
        let parent = TreePosition { node: parent.clone(), length: node.branch_point };
        (new_position(&parent, moved), node.name.clone())
    } else {
        let root = TreePosition { node: tree.root().id.clone(), length: None };
        (root, node.name.clone().or_else(|| Some(REBASED.to_owned())))
    };
    let point = parent.length.unwrap_or_default();
    let id = tree.branch_at(parent.node.as_str(), point, name, node.thread.clone(), node.id.clone())?;
    tree.set_metadata(id.as_str(), node.metadata.clone())
}

/// The nodes of a tree, each after its parent.
fn parents_first(tree: &ThreadTree) -> Vec<&Arc<ThreadNode>> {
    let mut nodes = Vec::with_capacity(tree.node_count());
    let mut next = VecDeque::from([tree.root()]);
    while let Some(node) = next.pop_front() {
        next.extend(node.children.iter().filter_map(|child| tree.node(child.as_str())));
        nodes.push(node);
    }
    nodes
}

/// The number of messages that two threads have in common at their start.
fn shared_messages(one: &Thread, other: &Thread) -> usize {
    let pairs = one.messages.iter().zip(&other.messages);
    pairs.take_while(|(one, other)| Arc::ptr_eq(one, other) || one.id == other.id).count()
}

/// Applies the changes between `base` and `ours` to the members of an object.
fn merge_members(base: Option<&RawObject>, ours: &RawObject, theirs: &mut RawObject) {
    let before = |key: &str| base.and_then(|base| base.get(key));
    for (key, value) in ours.iter().filter(|(key, value)| before(key) != Some(value)) {
        theirs.insert(key, value.clone());
    }
    theirs.retain(|key| ours.get(key).is_some() || before(key).is_none());
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
