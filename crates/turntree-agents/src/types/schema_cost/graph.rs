//! A schema as a flat list of subschemas and what they apply to which part of a value.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value};

use super::count;
use super::pattern::states;

/// Maximum number of subschemas. A thousand compile in about 20 ms.
const MAX_SUBSCHEMAS: usize = 10_000;
/// Maximum number of different patterns. Each takes up to 20 ms to compile.
const MAX_PATTERNS: usize = 128;
/// Maximum number of subschemas with an id: the validator compiles a reference anew for each path of ids that leads to it.
const MAX_IDS: usize = 4;
/// Steps of a reference to a schema outside the document: the meta-schemas of JSON Schema.
const META_SCHEMA: u64 = 500;
/// Bytes of `enum` and `const` that are compared in a step.
const COMPARED: usize = 32;

/// Which parts of a value a subschema applies to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Selector {
    /// The value itself.
    Here,
    /// A member of an object.
    Member(String),
    /// All members of an object.
    Members,
    /// The keys of an object.
    Keys,
    /// An element of an array.
    Item(usize),
    /// All elements of an array.
    Items,
}

/// How often the validator evaluates a subschema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rule {
    /// Once.
    All,
    /// To list errors, again.
    Choice,
}

#[derive(Debug)]
pub(super) struct Edge {
    pub(super) selector: Selector,
    pub(super) rule: Rule,
    pub(super) target: usize,
    /// True if the reference closes a circle.
    pub(super) is_back: bool,
}

#[derive(Debug, Default)]
pub(super) struct Node {
    /// The place, as a JSON pointer.
    pub(super) pointer: String,
    /// Steps of the keywords without subschemas.
    pub(super) own: u64,
    /// Steps for each byte of a text: patterns.
    pub(super) per_byte: u64,
    pub(super) has_unevaluated: bool,
    /// True if a reference to it closes a circle: the validator caches its results.
    pub(super) is_recursive: bool,
    pub(super) edges: Vec<Edge>,
}

#[derive(Debug)]
pub(super) struct Graph {
    /// The root is the first.
    pub(super) nodes: Vec<Node>,
    /// The number of recursive subschemas.
    pub(super) recursive: usize,
    /// True if items of an array must be unique.
    pub(super) has_unique: bool,
    /// The subschemas, each after those it applies, except through references that close a circle.
    pub(super) bottom_up: Vec<usize>,
}

impl Graph {
    /// The graph of a schema. Not recursive.
    ///
    /// # Errors
    /// The place and the rule: too many subschemas, patterns or ids; a subschema that applies itself to the same value.
    pub(super) fn of(schema: &Value) -> Result<Self, String> {
        let targets = Targets::of(schema)?;
        let mut builder = Builder { targets, places: HashMap::new(), found: Vec::new(), nodes: Vec::new() };
        builder.place(schema, String::new())?;
        let mut next = 0;
        while let Some(schema) = builder.found.get(next).copied() {
            builder.read(next, schema)?;
            next += 1;
        }
        if builder.targets.patterns.len() > MAX_PATTERNS {
            return Err(format!("the schema has more than {MAX_PATTERNS} different patterns; remove some"));
        }
        let has_unique = builder.targets.has_unique;
        let mut graph = Self { nodes: builder.nodes, recursive: 0, has_unique, bottom_up: Vec::new() };
        graph.sort();
        graph.recursive = graph.nodes.iter().filter(|node| node.is_recursive).count();
        graph.check_circles()?;
        Ok(graph)
    }

    /// Sorts the nodes from the bottom up, and marks the edges that close a circle.
    fn sort(&mut self) {
        #[derive(Clone, Copy, PartialEq)]
        enum Mark {
            New,
            Open,
            Done,
        }
        let mut marks = vec![Mark::New; self.nodes.len()];
        let mut stack = vec![(0_usize, 0_usize)];
        let mark = |marks: &mut Vec<Mark>, place: usize, mark: Mark| {
            if let Some(slot) = marks.get_mut(place) {
                *slot = mark;
            }
        };
        mark(&mut marks, 0, Mark::Open);
        while let Some((place, edge)) = stack.pop() {
            let Some(target) = self.nodes.get(place).and_then(|node| Some(node.edges.get(edge)?.target))
            else {
                mark(&mut marks, place, Mark::Done);
                self.bottom_up.push(place);
                continue;
            };
            stack.push((place, edge + 1));
            match marks.get(target) {
                Some(Mark::New) => {
                    mark(&mut marks, target, Mark::Open);
                    stack.push((target, 0));
                }
                Some(Mark::Open) => {
                    if let Some(node) = self.nodes.get_mut(target) {
                        node.is_recursive = true;
                    }
                    if let Some(edge) = self.nodes.get_mut(place).and_then(|node| node.edges.get_mut(edge)) {
                        edge.is_back = true;
                    }
                }
                _ => {}
            }
        }
    }

    /// Refuses a circle of subschemas that apply to the same value: it never ends, and has no meaning.
    fn check_circles(&self) -> Result<(), String> {
        // A node is removed when all nodes that it applies to the same value are removed.
        let mut waiting: Vec<usize> = vec![0; self.nodes.len()];
        let mut users: Vec<Vec<usize>> = vec![Vec::new(); self.nodes.len()];
        for (place, node) in self.nodes.iter().enumerate() {
            for edge in node.edges.iter().filter(|edge| edge.selector == Selector::Here) {
                if let (Some(waits), Some(users)) = (waiting.get_mut(place), users.get_mut(edge.target)) {
                    *waits += 1;
                    users.push(place);
                }
            }
        }
        let mut free: Vec<usize> =
            (0..waiting.len()).filter(|place| waiting.get(*place) == Some(&0)).collect();
        while let Some(place) = free.pop() {
            for user in users.get(place).into_iter().flatten() {
                if let Some(waits) = waiting.get_mut(*user) {
                    *waits -= 1;
                    if *waits == 0 {
                        free.push(*user);
                    }
                }
            }
        }
        let circle = waiting.iter().zip(&self.nodes).find(|(waits, _)| **waits > 0);
        circle.map_or(Ok(()), |(_, node)| {
            Err(format!(
                "{}: the schema refers to itself for the same value; refer to it in a property or an item",
                if node.pointer.is_empty() { "the root" } else { &node.pointer }
            ))
        })
    }
}

/// What references can name.
struct Targets<'s> {
    root: &'s Value,
    /// Subschemas with an id, with their ids.
    resources: Vec<(&'s str, &'s Value)>,
    anchors: HashMap<&'s str, Vec<&'s Value>>,
    patterns: HashSet<&'s str>,
    has_unique: bool,
}

impl<'s> Targets<'s> {
    fn of(root: &'s Value) -> Result<Self, String> {
        let mut targets = Self {
            root,
            resources: Vec::new(),
            anchors: HashMap::new(),
            patterns: HashSet::new(),
            has_unique: false,
        };
        let mut open = vec![root];
        while let Some(value) = open.pop() {
            match value {
                Value::Array(items) => open.extend(items),
                Value::Object(members) => {
                    for key in ["$id", "id"] {
                        if let Some(Value::String(id)) = members.get(key) {
                            targets.resources.push((id, value));
                        }
                    }
                    for key in ["$anchor", "$dynamicAnchor", "$id", "id"] {
                        if let Some(Value::String(name)) = members.get(key) {
                            let name = name.rsplit('#').next().unwrap_or(name);
                            targets.anchors.entry(name).or_default().push(value);
                        }
                    }
                    open.extend(members.values());
                }
                _ => {}
            }
        }
        let embedded = targets.resources.iter().filter(|(_, value)| !std::ptr::eq(*value, root));
        let ids = embedded.filter(|(_, value)| value.get("$id").is_some_and(Value::is_string)).count();
        if ids > MAX_IDS {
            return Err(format!(
                "the schema has {ids} subschemas with an $id, more than {MAX_IDS}; refer to them by #/$defs/…"
            ));
        }
        Ok(targets)
    }

    /// All subschemas that a reference may name. More than one only in a schema with several ids.
    fn named(&self, reference: &str) -> Vec<&'s Value> {
        let (base, fragment) = reference.split_once('#').unwrap_or((reference, ""));
        let last = base.rsplit('/').next().unwrap_or(base);
        // A reference without a base may name a place in any of them.
        let is_named = |id: &str| base.is_empty() || id.trim_end_matches('#').ends_with(last);
        let embedded = self.resources.iter().filter(|(id, _)| is_named(id)).map(|(_, value)| *value);
        let mut roots: Vec<&'s Value> = embedded.filter(|value| !std::ptr::eq(*value, self.root)).collect();
        if base.is_empty()
            || self.resources.iter().any(|(id, value)| std::ptr::eq(*value, self.root) && is_named(id))
        {
            roots.push(self.root);
        }
        if fragment.is_empty() {
            return roots;
        }
        if !fragment.starts_with('/') {
            return self.anchors.get(fragment).cloned().unwrap_or_default();
        }
        let bytes = percent_decoded(fragment);
        let pointer = String::from_utf8_lossy(&bytes);
        roots.into_iter().filter_map(|root| root.pointer(&pointer)).collect()
    }
}

fn percent_decoded(text: &str) -> Vec<u8> {
    let mut decoded = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(place) = rest.find('%') {
        let (before, after) = rest.split_at(place);
        decoded.extend_from_slice(before.as_bytes());
        if let Some(byte) = after.get(1..3).and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            decoded.push(byte);
            rest = after.get(3..).unwrap_or_default();
        } else {
            decoded.push(b'%');
            rest = after.get(1..).unwrap_or_default();
        }
    }
    decoded.extend_from_slice(rest.as_bytes());
    decoded
}

struct Builder<'s> {
    targets: Targets<'s>,
    /// The nodes by the addresses of their subschemas.
    places: HashMap<*const Value, usize>,
    found: Vec<&'s Value>,
    nodes: Vec<Node>,
}

impl<'s> Builder<'s> {
    /// The node of a subschema.
    fn place(&mut self, schema: &'s Value, pointer: String) -> Result<usize, String> {
        if let Some(place) = self.places.get(&std::ptr::from_ref(schema)) {
            return Ok(*place);
        }
        let place = self.nodes.len();
        if place >= MAX_SUBSCHEMAS {
            return Err(format!("the schema has more than {MAX_SUBSCHEMAS} subschemas; divide it"));
        }
        self.places.insert(std::ptr::from_ref(schema), place);
        self.found.push(schema);
        self.nodes.push(Node { pointer, own: 1, ..Node::default() });
        Ok(place)
    }

    fn edge(&mut self, from: usize, path: &str, at: Applied, schema: &'s Value) -> Result<(), String> {
        let pointer = self.nodes.get(from).map(|node| format!("{}/{path}", node.pointer)).unwrap_or_default();
        let target = self.place(schema, pointer)?;
        if let Some(node) = self.nodes.get_mut(from) {
            node.edges.push(Edge { selector: at.0, rule: at.1, target, is_back: false });
        }
        Ok(())
    }

    /// Reads the keywords of a subschema.
    fn read(&mut self, place: usize, schema: &'s Value) -> Result<(), String> {
        let Value::Object(keywords) = schema else { return Ok(()) };
        for (keyword, value) in keywords {
            self.keyword(place, keyword, value)?;
            if let Some(node) = self.nodes.get_mut(place) {
                node.own = node.own.saturating_add(1);
            }
        }
        Ok(())
    }

    fn keyword(&mut self, place: usize, keyword: &'s str, value: &'s Value) -> Result<(), String> {
        use Rule::{All, Choice};
        match (keyword, value) {
            ("$ref" | "$dynamicRef" | "$recursiveRef", Value::String(reference)) => {
                self.reference(place, reference)
            }
            ("allOf", Value::Array(schemas)) => {
                self.each(place, keyword, &Applied(Selector::Here, All), schemas)
            }
            ("anyOf" | "oneOf", Value::Array(schemas)) => {
                self.each(place, keyword, &Applied(Selector::Here, Choice), schemas)
            }
            ("not" | "if", _) => self.edge(place, keyword, Applied(Selector::Here, Choice), value),
            ("then" | "else", _) => self.edge(place, keyword, Applied(Selector::Here, All), value),
            ("dependentSchemas" | "dependencies", Value::Object(schemas)) => {
                self.members(place, keyword, schemas, |_| Selector::Here)
            }
            ("properties", Value::Object(schemas)) => {
                self.members(place, keyword, schemas, |name| Selector::Member(name.to_owned()))
            }
            ("patternProperties", Value::Object(schemas)) => {
                for pattern in schemas.keys() {
                    self.pattern(place, pattern);
                }
                self.members(place, keyword, schemas, |_| Selector::Members)
            }
            ("additionalProperties", _) => self.edge(place, keyword, Applied(Selector::Members, All), value),
            ("unevaluatedProperties", _) => {
                self.unevaluated(place);
                self.edge(place, keyword, Applied(Selector::Members, All), value)
            }
            ("propertyNames", _) => self.edge(place, keyword, Applied(Selector::Keys, All), value),
            ("items" | "prefixItems", Value::Array(schemas)) => {
                for (index, schema) in schemas.iter().enumerate() {
                    let path = format!("{keyword}/{index}");
                    self.edge(place, &path, Applied(Selector::Item(index), All), schema)?;
                }
                Ok(())
            }
            ("items" | "additionalItems", _) => {
                self.edge(place, keyword, Applied(Selector::Items, All), value)
            }
            ("contains", _) => self.edge(place, keyword, Applied(Selector::Items, Choice), value),
            ("unevaluatedItems", _) => {
                self.unevaluated(place);
                self.edge(place, keyword, Applied(Selector::Items, All), value)
            }
            _ => {
                self.assertion(place, keyword, value);
                Ok(())
            }
        }
    }

    /// A keyword without subschemas.
    fn assertion(&mut self, place: usize, keyword: &str, value: &'s Value) {
        if let ("pattern", Value::String(pattern)) = (keyword, value) {
            return self.pattern(place, pattern);
        }
        let Some(node) = self.nodes.get_mut(place) else { return };
        match (keyword, value) {
            ("enum" | "const", _) => node.own = node.own.saturating_add(count(text_length(value) / COMPARED)),
            ("required", Value::Array(names)) => node.own = node.own.saturating_add(count(names.len())),
            ("format" | "contentEncoding" | "contentMediaType", _) => {
                node.per_byte = node.per_byte.saturating_add(1);
            }
            ("uniqueItems", Value::Bool(true)) => self.targets.has_unique = true,
            _ => {}
        }
    }

    fn pattern(&mut self, place: usize, pattern: &'s str) {
        self.targets.patterns.insert(pattern);
        if let Some(node) = self.nodes.get_mut(place) {
            // A hundred states take about the time of a step.
            node.per_byte = node.per_byte.saturating_add(1 + states(pattern) / 100);
        }
    }

    fn unevaluated(&mut self, place: usize) {
        if let Some(node) = self.nodes.get_mut(place) {
            node.has_unevaluated = true;
        }
    }

    fn reference(&mut self, place: usize, reference: &'s str) -> Result<(), String> {
        let targets = self.targets.named(reference);
        if targets.is_empty()
            && let Some(node) = self.nodes.get_mut(place)
        {
            node.own = node.own.saturating_add(META_SCHEMA);
        }
        let fragment = reference.strip_prefix('#');
        for target in targets {
            let pointer = fragment.map_or_else(|| reference.to_owned(), str::to_owned);
            let target = self.place(target, pointer)?;
            if let Some(node) = self.nodes.get_mut(place) {
                node.edges.push(Edge { selector: Selector::Here, rule: Rule::All, target, is_back: false });
            }
        }
        Ok(())
    }

    fn each(
        &mut self,
        place: usize,
        keyword: &str,
        at: &Applied,
        schemas: &'s [Value],
    ) -> Result<(), String> {
        for (index, schema) in schemas.iter().enumerate() {
            self.edge(place, &format!("{keyword}/{index}"), at.clone(), schema)?;
        }
        Ok(())
    }

    fn members(
        &mut self,
        place: usize,
        keyword: &str,
        schemas: &'s Map<String, Value>,
        selector: impl Fn(&str) -> Selector,
    ) -> Result<(), String> {
        for (name, schema) in schemas {
            // A list in `dependencies` is a list of names.
            if schema.is_array() {
                continue;
            }
            let path = format!("{keyword}/{}", name.replace('~', "~0").replace('/', "~1"));
            self.edge(place, &path, Applied(selector(name), Rule::All), schema)?;
        }
        Ok(())
    }
}

#[derive(Clone)]
struct Applied(Selector, Rule);

/// The approximate length of the text of a value. Not recursive.
fn text_length(value: &Value) -> usize {
    let mut open = vec![value];
    let mut length = 0_usize;
    while let Some(value) = open.pop() {
        length = length.saturating_add(8);
        match value {
            Value::String(text) => length = length.saturating_add(text.len()),
            Value::Array(items) => open.extend(items),
            Value::Object(members) => {
                length = length.saturating_add(members.keys().map(String::len).sum());
                open.extend(members.values());
            }
            _ => {}
        }
    }
    length
}
