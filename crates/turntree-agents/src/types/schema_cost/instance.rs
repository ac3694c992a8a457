//! A value as a flat list of nodes: the values, and the keys of its objects as texts.

use serde_json::Value;

use super::count;
use super::graph::Selector;

#[derive(Debug)]
struct Node<'v> {
    /// The bytes of a string; 0 for other values.
    text: u64,
    /// The keys of an object; empty for other values.
    keys: Vec<(&'v str, usize)>,
    /// The values of an object or an array.
    values: Vec<usize>,
    is_array: bool,
}

/// A value as a flat list; the root is the first node.
#[derive(Debug)]
pub(super) struct Instance<'v>(Vec<Node<'v>>);

impl<'v> Instance<'v> {
    /// The number of values and keys.
    pub(super) fn count(value: &Value) -> u64 {
        let mut open = vec![value];
        let mut found = 0_u64;
        while let Some(value) = open.pop() {
            found = found.saturating_add(1);
            match value {
                Value::Object(members) => {
                    found = found.saturating_add(count(members.len()));
                    open.extend(members.values());
                }
                Value::Array(items) => open.extend(items),
                _ => {}
            }
        }
        found
    }

    /// The comparisons that find equal items: the validator compares each array or object of an array with all others, if
    /// they have equal hashes.
    pub(super) fn comparisons(value: &Value) -> u64 {
        let mut open = vec![value];
        let mut found = 0_u64;
        while let Some(value) = open.pop() {
            match value {
                Value::Object(members) => open.extend(members.values()),
                Value::Array(items) => {
                    let containers =
                        count(items.iter().filter(|item| item.is_array() || item.is_object()).count());
                    found = found.saturating_add(containers.saturating_mul(containers));
                    open.extend(items);
                }
                _ => {}
            }
        }
        found
    }

    pub(super) fn of(value: &'v Value) -> Self {
        let mut nodes: Vec<Node<'v>> = vec![Node::of(value)];
        let mut open = vec![(0, value)];
        while let Some((place, value)) = open.pop() {
            let (mut keys, mut values) = (Vec::new(), Vec::new());
            match value {
                Value::Object(members) => {
                    for (key, member) in members {
                        keys.push((key.as_str(), nodes.len()));
                        nodes.push(Node { text: count(key.len()), ..Node::of(&Value::Null) });
                        values.push(nodes.len());
                        open.push((nodes.len(), member));
                        nodes.push(Node::of(member));
                    }
                }
                Value::Array(items) => {
                    for item in items {
                        values.push(nodes.len());
                        open.push((nodes.len(), item));
                        nodes.push(Node::of(item));
                    }
                }
                _ => {}
            }
            if let Some(node) = nodes.get_mut(place) {
                (node.keys, node.values) = (keys, values);
            }
        }
        Self(nodes)
    }

    /// The bytes of the string at a place, and of the keys of an object.
    pub(super) fn text(&self, place: usize) -> u64 {
        let Some(node) = self.0.get(place) else { return 0 };
        let keys = node.keys.iter().map(|(key, _)| count(key.len()));
        node.text.saturating_add(keys.sum())
    }

    /// Calls `found` with each place that a selector selects below a place.
    pub(super) fn selected(&self, selector: &Selector, place: usize, mut found: impl FnMut(usize)) {
        let Some(node) = self.0.get(place) else { return };
        match selector {
            Selector::Here => found(place),
            Selector::Member(name) => {
                let index = node.keys.iter().position(|(key, _)| key == name);
                if let Some(member) = index.and_then(|index| node.values.get(index)) {
                    found(*member);
                }
            }
            Selector::Members if !node.is_array => node.values.iter().copied().for_each(found),
            Selector::Keys => node.keys.iter().for_each(|(_, key)| found(*key)),
            Selector::Item(index) if node.is_array => {
                if let Some(item) = node.values.get(*index) {
                    found(*item);
                }
            }
            Selector::Items if node.is_array => node.values.iter().copied().for_each(found),
            Selector::Members | Selector::Item(_) | Selector::Items => {}
        }
    }
}

impl Node<'_> {
    fn of(value: &Value) -> Self {
        let text = value.as_str().map_or(0, |text| count(text.len()));
        Self { text, keys: Vec::new(), values: Vec::new(), is_array: value.is_array() }
    }
}
