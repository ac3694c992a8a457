//! Random operations on a tree, checked against a simple model.

use std::collections::HashMap;
use std::sync::Arc;

use proptest::prelude::*;
use turntree::agents::tree::ThreadTree;
use turntree::core::ids::{CountingIds, IdSource as _};
use turntree::core::limits::Limits;
use turntree::message::{Message, Thread};

use super::{ids_of, message, read, write};
use crate::support::agents::clock;

/// The model: every node has a copy of its history before its own messages.
#[derive(Default)]
struct ModelTree {
    before: Vec<Vec<String>>,
    own: Vec<Vec<String>>,
    parent: Vec<usize>,
    current: usize,
}

impl ModelTree {
    fn new() -> Self {
        Self { before: vec![vec![]], own: vec![vec![]], parent: vec![0], current: 0 }
    }

    fn history(&self, node: usize) -> Vec<String> {
        [self.before[node].clone(), self.own[node].clone()].concat()
    }

    fn branch(&mut self, from: usize) {
        self.before.push(self.history(from));
        self.own.push(vec![]);
        self.parent.push(from);
    }

    fn is_above(&self, node: usize, mut below: usize) -> bool {
        while below != node && below != 0 {
            below = self.parent[below];
        }
        below == node
    }

    fn missing(&self, source: usize, target: usize) -> Vec<String> {
        let known = self.history(target);
        self.history(source).into_iter().filter(|id| !known.contains(id)).collect()
    }

    fn merge(&mut self, source: usize, target: usize) {
        if !self.is_above(source, target) {
            let missing = self.missing(source, target);
            self.own[target].extend(missing);
        }
    }
}

/// Splits: the later messages become a branch, which takes over the children whose histories contain them.
impl ModelTree {
    fn children_after(&self, node: usize, at: usize) -> Vec<usize> {
        let reach = self.before[node].len() + at;
        (1..self.own.len())
            .filter(|child| self.parent[*child] == node && self.before[*child].len() > reach)
            .collect()
    }

    fn split(&mut self, node: usize, at: usize, children_after: &[usize]) -> bool {
        if at >= self.own[node].len() {
            return false;
        }
        let tail = self.own[node].split_off(at);
        self.before.push(self.history(node));
        self.own.push(tail);
        self.parent.push(node);
        for child in children_after {
            self.parent[*child] = self.own.len() - 1;
        }
        true
    }
}

/// An operation on a tree; the numbers choose nodes.
#[derive(Debug, Clone)]
enum Operation {
    Branch(usize),
    Push(u8),
    PushTo(usize, u8),
    Checkout(usize),
    Merge(usize, usize),
    Split(usize, usize),
    Reload,
}

fn operations() -> impl Strategy<Value = Vec<Operation>> {
    let node = || 0..1000_usize;
    let operation = prop_oneof![
        3 => node().prop_map(Operation::Branch),
        4 => (0..5_u8).prop_map(Operation::Push),
        2 => (node(), 0..5_u8).prop_map(|(node, count)| Operation::PushTo(node, count)),
        3 => node().prop_map(Operation::Checkout),
        2 => (node(), node()).prop_map(|(source, target)| Operation::Merge(source, target)),
        1 => (node(), 0..8_usize).prop_map(|(node, at)| Operation::Split(node, at)),
        1 => Just(Operation::Reload),
    ];
    proptest::collection::vec(operation, 0..60)
}

/// The tree and its model.
struct ModelTest {
    tree: ThreadTree,
    model: ModelTree,
    ids: CountingIds,
    nodes: Vec<String>,
}

impl ModelTest {
    fn after(operations: &[Operation]) -> Self {
        let ids = CountingIds::default();
        let tree = ThreadTree::new(Thread::new([].into_iter().collect(), &ids, &clock()), &ids);
        let nodes = vec![tree.root().id.to_string()];
        let mut test = Self { tree, model: ModelTree::new(), ids, nodes };
        for operation in operations {
            test.apply(operation);
        }
        test
    }

    fn messages(&self, count: u8) -> Vec<Arc<Message>> {
        (0..count).map(|_| message(&self.ids.string())).collect()
    }

    fn apply(&mut self, operation: &Operation) {
        let length = self.nodes.len();
        match *operation {
            Operation::Branch(from) => {
                let from = from % length;
                let id = self.tree.branch(&self.nodes[from], None, &self.ids, &clock()).unwrap();
                self.nodes.push(id.to_string());
                self.model.branch(from);
            }
            Operation::Push(count) => {
                let messages = self.messages(count);
                let ids = messages.iter().map(|message| message.id.clone());
                self.model.own[self.model.current].extend(ids);
                self.tree.push(messages, &clock());
            }
            Operation::PushTo(node, count) => {
                let (node, messages) = (node % length, self.messages(count));
                self.model.own[node].extend(messages.iter().map(|message| message.id.clone()));
                self.tree.push_to(&self.nodes[node], messages, &clock()).unwrap();
            }
            Operation::Checkout(node) => {
                self.model.current = node % length;
                self.tree.checkout(&self.nodes[node % length]).unwrap();
            }
            Operation::Merge(source, target) => {
                let (source, target) = (source % length, target % length);
                self.model.merge(source, target);
                self.tree.merge(&self.nodes[source], &self.nodes[target], &clock()).unwrap();
            }
            Operation::Split(node, at) => {
                let node = node % length;
                let split = self.tree.split(&self.nodes[node], at, None, &self.ids, &clock()).unwrap();
                let children = self.model.children_after(node, at);
                assert_eq!(split.is_some(), self.model.split(node, at, &children));
                self.nodes.extend(split.map(|id| id.to_string()));
            }
            Operation::Reload => self.tree = read(&write(&self.tree)),
        }
    }
}

proptest! {
    #[test]
    fn histories_match_the_model(operations in operations()) {
        let test = ModelTest::after(&operations);

        prop_assert_eq!(test.tree.current().id.as_str(), &test.nodes[test.model.current]);
        prop_assert_eq!(ids_of(&test.tree.history()), test.model.history(test.model.current));
        prop_assert_eq!(test.tree.node_count(), test.nodes.len());
        for (place, id) in test.nodes.iter().enumerate() {
            let history = test.tree.history_of(id).unwrap();
            prop_assert_eq!(test.tree.history_len(id), Ok(history.len()));
            prop_assert_eq!(ids_of(&history), test.model.history(place));
            let node = test.tree.node(id).unwrap();
            prop_assert_eq!(ids_of(&node.thread.messages), test.model.own[place].clone());
            let parent = node.parent_id.as_ref().map(ToString::to_string);
            prop_assert_eq!(parent, (place > 0).then(|| test.nodes[test.model.parent[place]].clone()));
        }
    }

    #[test]
    fn children_are_in_creation_order_and_leaves_have_none(operations in operations()) {
        let test = ModelTest::after(&operations);

        let mut children: HashMap<usize, Vec<String>> = HashMap::new();
        for place in 1..test.nodes.len() {
            children.entry(test.model.parent[place]).or_default().push(test.nodes[place].clone());
        }
        for (place, id) in test.nodes.iter().enumerate() {
            let actual: Vec<_> = test.tree.node(id).unwrap().children.iter().map(ToString::to_string).collect();
            prop_assert_eq!(actual, children.get(&place).cloned().unwrap_or_default());
        }
        let leaves: Vec<_> = test.tree.leaves().map(|node| node.id.to_string()).collect();
        let childless = test.nodes.iter().enumerate().filter(|(place, _)| !children.contains_key(place));
        prop_assert_eq!(leaves, childless.map(|(_, id)| id.clone()).collect::<Vec<_>>());
    }

    #[test]
    fn json_round_trips_to_the_same_tree_and_text(operations in operations()) {
        let tree = ModelTest::after(&operations).tree;
        let text = write(&tree);

        let again = read(&text);

        prop_assert_eq!(&again, &tree);
        prop_assert_eq!(write(&again), text);
    }

    #[test]
    fn the_order_of_nodes_in_a_document_is_irrelevant(operations in operations(), turn in 0..50_usize) {
        let tree = ModelTest::after(&operations).tree;
        let mut document: serde_json::Value = serde_json::from_str(&write(&tree)).unwrap();
        let nodes = document["nodes"].as_array_mut().unwrap();
        let turn = turn % nodes.len();
        nodes.rotate_left(turn);

        prop_assert_eq!(read(&document.to_string()), tree);
    }

    #[test]
    fn merging_changes_the_target_only_and_records_the_source(
        operations in operations(), source in 0..1000_usize, target in 0..1000_usize,
    ) {
        let mut test = ModelTest::after(&operations);
        let length = test.nodes.len();
        let (from, to) = (source % length, target % length);
        let is_above = test.model.is_above(from, to);
        let recorded = |test: &ModelTest| test.tree.node(&test.nodes[to]).unwrap().metadata.get("mergedFrom").cloned();
        let before = recorded(&test);

        test.apply(&Operation::Merge(source, target));

        for (place, id) in test.nodes.iter().enumerate() {
            let history = ids_of(&test.tree.history_of(id).unwrap());
            prop_assert_eq!(history, test.model.history(place), "node {}", place);
        }
        let merged: Vec<String> = recorded(&test).and_then(|list| list.to().ok()).unwrap_or_default();
        prop_assert_eq!(is_above || merged.contains(&test.nodes[from]), true);
        prop_assert_eq!(!is_above || recorded(&test) == before, true);
    }

    #[test]
    fn merging_is_idempotent(operations in operations(), source in 0..1000_usize, target in 0..1000_usize) {
        let mut test = ModelTest::after(&operations);
        let length = test.nodes.len();
        let (source, target) = (test.nodes[source % length].clone(), test.nodes[target % length].clone());
        test.tree.merge(&source, &target, &clock()).unwrap();
        let once = test.tree.clone();

        let added = test.tree.merge(&source, &target, &clock());

        prop_assert_eq!(added, Ok(0));
        prop_assert_eq!(test.tree, once);
    }

    #[test]
    fn diff_matches_the_messages_that_a_merge_in_either_direction_adds(operations in operations(), a in 0..1000_usize, b in 0..1000_usize) {
        let test = ModelTest::after(&operations);
        let (a, b) = (a % test.nodes.len(), b % test.nodes.len());

        let diff = test.tree.diff(&test.nodes[a], &test.nodes[b]).unwrap();
        let mirrored = test.tree.diff(&test.nodes[b], &test.nodes[a]).unwrap();

        prop_assert_eq!(ids_of(&diff.only_a), test.model.missing(a, b));
        prop_assert_eq!(ids_of(&diff.only_b), test.model.missing(b, a));
        prop_assert_eq!((&mirrored.only_a, &mirrored.only_b), (&diff.only_b, &diff.only_a));
        let ancestor = test.nodes.iter().position(|id| *id == diff.ancestor_id).unwrap();
        prop_assert!(test.model.is_above(ancestor, a) && test.model.is_above(ancestor, b));
        let below = (0..test.nodes.len()).filter(|node| test.model.parent[*node] == ancestor && *node != ancestor);
        prop_assert!(!below.into_iter().any(|node| test.model.is_above(node, a) && test.model.is_above(node, b)));
    }

    #[test]
    fn a_snapshot_does_not_change(before in operations(), after in operations()) {
        let mut test = ModelTest::after(&before);
        let snapshot = test.tree.clone();
        let text = write(&snapshot);

        for operation in &after {
            test.apply(operation);
        }

        prop_assert_eq!(write(&snapshot), text);
    }

    #[test]
    fn reading_damaged_documents_does_not_panic(mut operations in operations(), place in 0..4000_usize, junk in "[a-z0-9\"\\[\\]{},:]{0,3}") {
        operations.truncate(12);
        let text = write(&ModelTest::after(&operations).tree);
        let place = place % text.len();
        if let (Some(head), Some(tail)) = (text.get(..place), text.get(place + 1..)) {
            let damaged = format!("{head}{junk}{tail}");
            if let Ok(tree) = ThreadTree::from_json(&damaged, &Limits::default()) {
                prop_assert_eq!(read(&write(&tree)), tree);
            }
        }
    }
}
