//! Handles to nodes: of a shared tree, and separate.

use std::sync::Arc;

use turntree::agents::tree::{NodeHandle, NodeId, SharedTree, ThreadNode, ThreadTree, TreeError};
use turntree::core::ids::CountingIds;
use turntree::core::json::{RawJson, RawObject};

use super::message;
use crate::support::agents::clock;

fn shared() -> (Arc<SharedTree>, ThreadNode) {
    let mut tree = ThreadTree::empty(&CountingIds::default(), &clock());
    tree.push([message("first")], &clock());
    let root = ThreadNode::clone(tree.root());
    (Arc::new(SharedTree::new(tree)), root)
}

fn change(handle: &NodeHandle) {
    handle.rename(Some("draft".to_owned())).unwrap();
    handle
        .set_metadata([("key".to_owned(), RawJson::from_value(&1).unwrap())].into_iter().collect())
        .unwrap();
    handle.push([message("second")], &clock()).unwrap();
}

#[test]
fn a_handle_changes_the_node_of_its_tree() {
    let (tree, root) = shared();
    let handle = NodeHandle::InTree(Arc::clone(&tree), root.id.clone());

    change(&handle);

    let node = handle.node().unwrap();
    assert!(Arc::ptr_eq(&node, tree.lock().root()));
    assert_eq!((node.name.as_deref(), node.thread.messages.len()), (Some("draft"), 2));
    handle.clear(&clock()).unwrap();
    assert_eq!(tree.snapshot().message_count(), 0);
}

#[test]
fn a_separate_handle_changes_only_its_own_node() {
    let (tree, root) = shared();
    let handle = NodeHandle::from(root.clone());
    assert_eq!(handle, NodeHandle::InTree(Arc::clone(&tree), root.id.clone()));

    change(&handle);

    assert_ne!(handle, NodeHandle::InTree(Arc::clone(&tree), root.id));
    assert_eq!(handle.node().unwrap().thread.messages.len(), 2);
    handle.clear(&clock()).unwrap();
    assert_eq!(handle.node().unwrap().thread.messages.len(), 0);
    assert_eq!(tree.snapshot().message_count(), 1);
}

#[test]
fn a_handle_to_a_missing_node_fails() {
    let (tree, _) = shared();
    let handle = NodeHandle::InTree(tree, NodeId::from("missing"));
    let unknown = TreeError::UnknownNode { id: "missing".to_owned() };

    assert_eq!(handle.node().unwrap_err(), unknown);
    assert_eq!(handle.rename(None).unwrap_err(), unknown);
    assert_eq!(handle.set_metadata(RawObject::new()).unwrap_err(), unknown);
    assert_eq!(handle.push([message("lost")], &clock()).unwrap_err(), unknown);
    assert_eq!(handle.clear(&clock()).unwrap_err(), unknown);
}
