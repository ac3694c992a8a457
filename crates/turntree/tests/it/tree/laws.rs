//! A tree beside the plainest one there is, through any steps.

use std::collections::HashMap;
use std::sync::Arc;

use proptest::prelude::*;
use turntree::agents::tree::ThreadTree;
use turntree::core::ids::{CountingIds, IdSource as _};
use turntree::core::limits::Limits;
use turntree::message::{Message, Thread};

use super::{ids_of, message, read, write};
use crate::support::agents::clock;

/// The plainest tree there is: every node remembers a copy of what was said before it started.
#[derive(Default)]
struct Plain {
    before: Vec<Vec<String>>,
    own: Vec<Vec<String>>,
    parent: Vec<usize>,
    current: usize,
}

impl Plain {
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

    fn lacking(&self, source: usize, target: usize) -> Vec<String> {
        let known = self.history(target);
        self.history(source).into_iter().filter(|id| !known.contains(id)).collect()
    }

    fn merge(&mut self, source: usize, target: usize) {
        if !self.is_above(source, target) {
            let lacking = self.lacking(source, target);
            self.own[target].extend(lacking);
        }
    }
}

/// A cut: what is after it becomes a branch, with the branches that remember any of it.
impl Plain {
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

/// What is done to a tree; numbers choose nodes.
#[derive(Debug, Clone)]
enum Step {
    Branch(usize),
    Say(u8),
    SayTo(usize, u8),
    Checkout(usize),
    Merge(usize, usize),
    Split(usize, usize),
    Reload,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let node = || 0..1000_usize;
    let step = prop_oneof![
        3 => node().prop_map(Step::Branch),
        4 => (0..5_u8).prop_map(Step::Say),
        2 => (node(), 0..5_u8).prop_map(|(node, count)| Step::SayTo(node, count)),
        3 => node().prop_map(Step::Checkout),
        2 => (node(), node()).prop_map(|(source, target)| Step::Merge(source, target)),
        1 => (node(), 0..8_usize).prop_map(|(node, at)| Step::Split(node, at)),
        1 => Just(Step::Reload),
    ];
    proptest::collection::vec(step, 0..60)
}

/// The tree and its model side by side.
struct Pair {
    tree: ThreadTree,
    plain: Plain,
    ids: CountingIds,
    nodes: Vec<String>,
}

impl Pair {
    fn after(steps: &[Step]) -> Self {
        let ids = CountingIds::default();
        let tree = ThreadTree::new(Thread::new([].into_iter().collect(), &ids, &clock()), &ids);
        let nodes = vec![tree.root().id.to_string()];
        let mut pair = Self { tree, plain: Plain::new(), ids, nodes };
        for step in steps {
            pair.take(step);
        }
        pair
    }

    fn messages(&self, count: u8) -> Vec<Arc<Message>> {
        (0..count).map(|_| message(&self.ids.string())).collect()
    }

    fn take(&mut self, step: &Step) {
        let length = self.nodes.len();
        match *step {
            Step::Branch(from) => {
                let from = from % length;
                let id = self.tree.branch(&self.nodes[from], None, &self.ids, &clock()).unwrap();
                self.nodes.push(id.to_string());
                self.plain.branch(from);
            }
            Step::Say(count) => {
                let messages = self.messages(count);
                let said = messages.iter().map(|message| message.id.clone());
                self.plain.own[self.plain.current].extend(said);
                self.tree.push(messages, &clock());
            }
            Step::SayTo(node, count) => {
                let (node, messages) = (node % length, self.messages(count));
                self.plain.own[node].extend(messages.iter().map(|message| message.id.clone()));
                self.tree.push_to(&self.nodes[node], messages, &clock()).unwrap();
            }
            Step::Checkout(node) => {
                self.plain.current = node % length;
                self.tree.checkout(&self.nodes[node % length]).unwrap();
            }
            Step::Merge(source, target) => {
                let (source, target) = (source % length, target % length);
                self.plain.merge(source, target);
                self.tree.merge(&self.nodes[source], &self.nodes[target], &clock()).unwrap();
            }
            Step::Split(node, at) => {
                let node = node % length;
                let split = self.tree.split(&self.nodes[node], at, None, &self.ids, &clock()).unwrap();
                let children = self.plain.children_after(node, at);
                assert_eq!(split.is_some(), self.plain.split(node, at, &children));
                self.nodes.extend(split.map(|id| id.to_string()));
            }
            Step::Reload => self.tree = read(&write(&self.tree)),
        }
    }
}

proptest! {
    #[test]
    fn history_is_what_a_plain_copy_of_the_past_would_be(steps in steps()) {
        let pair = Pair::after(&steps);

        prop_assert_eq!(pair.tree.current().id.as_str(), &pair.nodes[pair.plain.current]);
        prop_assert_eq!(ids_of(&pair.tree.history()), pair.plain.history(pair.plain.current));
        prop_assert_eq!(pair.tree.node_count(), pair.nodes.len());
        for (place, id) in pair.nodes.iter().enumerate() {
            let history = pair.tree.history_of(id).unwrap();
            prop_assert_eq!(pair.tree.history_len(id), Ok(history.len()));
            prop_assert_eq!(ids_of(&history), pair.plain.history(place));
            let node = pair.tree.node(id).unwrap();
            prop_assert_eq!(ids_of(&node.thread.messages), pair.plain.own[place].clone());
            let parent = node.parent_id.as_ref().map(ToString::to_string);
            prop_assert_eq!(parent, (place > 0).then(|| pair.nodes[pair.plain.parent[place]].clone()));
        }
    }

    #[test]
    fn children_stand_in_the_order_they_were_made_and_leaves_have_none(steps in steps()) {
        let pair = Pair::after(&steps);

        let mut children: HashMap<usize, Vec<String>> = HashMap::new();
        for place in 1..pair.nodes.len() {
            children.entry(pair.plain.parent[place]).or_default().push(pair.nodes[place].clone());
        }
        for (place, id) in pair.nodes.iter().enumerate() {
            let found: Vec<_> = pair.tree.node(id).unwrap().children.iter().map(ToString::to_string).collect();
            prop_assert_eq!(found, children.get(&place).cloned().unwrap_or_default());
        }
        let leaves: Vec<_> = pair.tree.leaves().map(|node| node.id.to_string()).collect();
        let childless = pair.nodes.iter().enumerate().filter(|(place, _)| !children.contains_key(place));
        prop_assert_eq!(leaves, childless.map(|(_, id)| id.clone()).collect::<Vec<_>>());
    }

    #[test]
    fn reading_what_was_written_gives_the_same_tree_and_text(steps in steps()) {
        let tree = Pair::after(&steps).tree;
        let text = write(&tree);

        let again = read(&text);

        prop_assert_eq!(&again, &tree);
        prop_assert_eq!(write(&again), text);
    }

    #[test]
    fn the_order_of_nodes_in_a_document_does_not_matter(steps in steps(), turn in 0..50_usize) {
        let tree = Pair::after(&steps).tree;
        let mut document: serde_json::Value = serde_json::from_str(&write(&tree)).unwrap();
        let nodes = document["nodes"].as_array_mut().unwrap();
        let turn = turn % nodes.len();
        nodes.rotate_left(turn);

        prop_assert_eq!(read(&document.to_string()), tree);
    }

    #[test]
    fn merging_changes_no_history_but_the_targets_and_says_where_from(
        steps in steps(), source in 0..1000_usize, target in 0..1000_usize,
    ) {
        let mut pair = Pair::after(&steps);
        let length = pair.nodes.len();
        let (from, to) = (source % length, target % length);
        let is_above = pair.plain.is_above(from, to);
        let recorded = |pair: &Pair| pair.tree.node(&pair.nodes[to]).unwrap().metadata.get("mergedFrom").cloned();
        let before = recorded(&pair);

        pair.take(&Step::Merge(source, target));

        for (place, id) in pair.nodes.iter().enumerate() {
            let history = ids_of(&pair.tree.history_of(id).unwrap());
            prop_assert_eq!(history, pair.plain.history(place), "node {}", place);
        }
        let merged: Vec<String> = recorded(&pair).and_then(|list| list.to().ok()).unwrap_or_default();
        prop_assert_eq!(is_above || merged.contains(&pair.nodes[from]), true);
        prop_assert_eq!(!is_above || recorded(&pair) == before, true);
    }

    #[test]
    fn merging_twice_is_merging_once(steps in steps(), source in 0..1000_usize, target in 0..1000_usize) {
        let mut pair = Pair::after(&steps);
        let length = pair.nodes.len();
        let (source, target) = (pair.nodes[source % length].clone(), pair.nodes[target % length].clone());
        pair.tree.merge(&source, &target, &clock()).unwrap();
        let once = pair.tree.clone();

        let added = pair.tree.merge(&source, &target, &clock());

        prop_assert_eq!(added, Ok(0));
        prop_assert_eq!(pair.tree, once);
    }

    #[test]
    fn diff_is_what_merging_either_way_would_bring(steps in steps(), a in 0..1000_usize, b in 0..1000_usize) {
        let pair = Pair::after(&steps);
        let (a, b) = (a % pair.nodes.len(), b % pair.nodes.len());

        let diff = pair.tree.diff(&pair.nodes[a], &pair.nodes[b]).unwrap();
        let mirrored = pair.tree.diff(&pair.nodes[b], &pair.nodes[a]).unwrap();

        prop_assert_eq!(ids_of(&diff.only_a), pair.plain.lacking(a, b));
        prop_assert_eq!(ids_of(&diff.only_b), pair.plain.lacking(b, a));
        prop_assert_eq!((&mirrored.only_a, &mirrored.only_b), (&diff.only_b, &diff.only_a));
        let ancestor = pair.nodes.iter().position(|id| *id == diff.ancestor_id).unwrap();
        prop_assert!(pair.plain.is_above(ancestor, a) && pair.plain.is_above(ancestor, b));
        let below = (0..pair.nodes.len()).filter(|node| pair.plain.parent[*node] == ancestor && *node != ancestor);
        prop_assert!(!below.into_iter().any(|node| pair.plain.is_above(node, a) && pair.plain.is_above(node, b)));
    }

    #[test]
    fn a_snapshot_does_not_change(before in steps(), after in steps()) {
        let mut pair = Pair::after(&before);
        let snapshot = pair.tree.clone();
        let text = write(&snapshot);

        for step in &after {
            pair.take(step);
        }

        prop_assert_eq!(write(&snapshot), text);
    }

    #[test]
    fn no_document_makes_the_reader_panic(mut steps in steps(), place in 0..4000_usize, junk in "[a-z0-9\"\\[\\]{},:]{0,3}") {
        steps.truncate(12);
        let text = write(&Pair::after(&steps).tree);
        let place = place % text.len();
        if let (Some(head), Some(tail)) = (text.get(..place), text.get(place + 1..)) {
            let damaged = format!("{head}{junk}{tail}");
            if let Ok(tree) = ThreadTree::from_json(&damaged, &Limits::default()) {
                prop_assert_eq!(read(&write(&tree)), tree);
            }
        }
    }
}
