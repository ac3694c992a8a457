//! Trees as JSON, and what a document must fulfil to be a tree. UAP-1.0 §13.2.
//!
//! Each message is written once, in the node that it was added to. The branch point of a node stands in its metadata
//! under [`BRANCH_POINT`]; a document without one means the whole thread of the parent as it stands there.

use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::tree::node::{NodeId, ThreadNode};
use crate::tree::nodes::Nodes;
use crate::tree::thread_tree::ThreadTree;
use turntree_core::json::schema::{Definitions, JsonSchema};
use turntree_core::json::{self, ParseError, PathSegment, RawJson, RawObject, json_object};
use turntree_core::limits::Limits;
use turntree_core::message::Thread;

/// The member of a node's metadata that says how many messages of its parent belong to its history.
pub const BRANCH_POINT: &str = "branchPoint";

json_object! {
    /// A node as JSON.
    #[derive(Debug, Clone)]
    pub struct ThreadNodeJson {
        /// Unique in its tree.
        pub id: String = "id",
        /// Where it branches from; none for the root.
        pub parent_id: Option<String> = "parentId",
        /// For people.
        pub name: Option<String> = "name",
        /// Its own messages, none of its parent's.
        pub thread: Thread = "thread",
        /// Ids of the branches that start here, oldest first.
        pub children: Vec<String> = "children",
        /// Facts about the node; `branchPoint` says how many messages of the parent belong to its history.
        pub metadata: Option<RawObject> = "metadata",
    }
}

json_object! {
    /// A tree as JSON, not yet known to be one: [`Self::into_tree`] tells.
    #[derive(Debug, Clone)]
    pub struct ThreadTreeJson {
        /// The id of the node without a parent.
        pub root_id: String = "rootId",
        /// The id of the node that grows.
        pub current_id: String = "currentId",
        /// All nodes, in any order.
        pub nodes: Vec<ThreadNodeJson> = "nodes",
    }
}

impl ThreadNodeJson {
    /// The node alone. Its branch point, if it has one, must be a count.
    ///
    /// # Errors
    /// The place in the node, and the rule.
    pub fn into_node(self) -> Result<ThreadNode, ParseError> {
        if self.id.is_empty() {
            return Err(ParseError::shape(vec![key("id")], "an id must not be empty"));
        }
        let mut metadata = self.metadata.unwrap_or_default();
        let point = self.parent_id.as_ref().and_then(|_| metadata.remove(BRANCH_POINT));
        let branch_point = point.map(|point| count(&point)).transpose()?;
        let mut node = ThreadNode::new(
            self.id.into(),
            None,
            self.name,
            self.thread,
            self.children.into_iter().map(NodeId::from).collect(),
        );
        node.parent_id = self.parent_id.map(NodeId::from);
        (node.branch_point, node.metadata, node.extra) = (branch_point, metadata, self.extra);
        Ok(node)
    }
}

fn count(point: &RawJson) -> Result<usize, ParseError> {
    point.to().map_err(|_| {
        let path = vec![key("metadata"), key(BRANCH_POINT)];
        ParseError::shape(path, "a branch point is a number of messages of the parent: 0, 1, 2 …")
    })
}

fn key(name: &str) -> PathSegment {
    PathSegment::Key(name.to_owned())
}

/// A problem of the node at `index`.
fn at(index: usize, member: &str, message: impl Into<String>) -> ParseError {
    ParseError::shape(vec![key("nodes"), PathSegment::Index(index), key(member)], message)
}

fn at_child(index: usize, child: usize, message: impl Into<String>) -> ParseError {
    let mut error = at(index, "children", message);
    error.path.push(PathSegment::Index(child));
    error
}

/// Nodes while their document is checked.
struct Checked {
    nodes: Vec<ThreadNode>,
    places: imbl::HashMap<NodeId, usize>,
    root: usize,
}

impl ThreadTreeJson {
    /// The tree that the document describes.
    ///
    /// # Errors
    /// The first rule that is broken, with its place: ids are unique and not empty, root and current node exist, the root
    /// and only the root has no parent, parents and children name each other, every node can be reached from the root, a
    /// branch point is not past the end of the parent's thread.
    pub fn into_tree(self) -> Result<ThreadTree, ParseError> {
        let mut nodes = Vec::with_capacity(self.nodes.len());
        let mut places = imbl::HashMap::new();
        for (index, json) in self.nodes.into_iter().enumerate() {
            let node = json.into_node().map_err(|mut error| {
                error.path.splice(0..0, [key("nodes"), PathSegment::Index(index)]);
                error
            })?;
            if let Some(first) = places.insert(node.id.clone(), index) {
                let message = format!("\"{}\" is the id of nodes/{first} too; ids are unique", node.id);
                return Err(at(index, "id", message));
            }
            nodes.push(node);
        }
        let find = |id: &str, member: &str| {
            places
                .get(id)
                .copied()
                .ok_or_else(|| ParseError::shape(vec![key(member)], format!("no node has the id \"{id}\"")))
        };
        let root = find(&self.root_id, "rootId")?;
        let current = find(&self.current_id, "currentId")?;
        let mut checked = Checked { nodes, places, root };
        let parents = checked.parents()?;
        checked.children(&parents)?;
        checked.reach()?;
        checked.branch_points(&parents)?;
        let Some(nodes) = Nodes::from_all(checked.nodes) else {
            return Err(ParseError::shape(vec![key("nodes")], "a tree has at least one node"));
        };
        let parents = parents.into_iter().collect();
        Ok(ThreadTree::assemble(nodes, parents, checked.places, root, current, self.extra))
    }
}

impl Checked {
    /// The place of each node's parent; the root's own.
    fn parents(&self) -> Result<Vec<usize>, ParseError> {
        let parent = |(index, node): (usize, &ThreadNode)| match &node.parent_id {
            None if index == self.root => Ok(index),
            None => Err(at(index, "parentId", "only the root (rootId) has no parent")),
            Some(_) if index == self.root => Err(at(index, "parentId", "the root has no parent: null")),
            Some(parent) => self
                .places
                .get(parent)
                .copied()
                .ok_or_else(|| at(index, "parentId", format!("no node has the id \"{parent}\""))),
        };
        self.nodes.iter().enumerate().map(parent).collect()
    }

    /// Whether parents and children name each other, once.
    fn children(&self, parents: &[usize]) -> Result<(), ParseError> {
        let mut named = vec![false; self.nodes.len()];
        for (index, node) in self.nodes.iter().enumerate() {
            for (position, child) in node.children.iter().enumerate() {
                let Some(place) = self.places.get(child).copied() else {
                    return Err(at_child(index, position, format!("no node has the id \"{child}\"")));
                };
                if place == self.root || parents.get(place) != Some(&index) {
                    let message = format!("\"{child}\" does not have \"{}\" as its parentId", node.id);
                    return Err(at_child(index, position, message));
                }
                if named.get_mut(place).is_some_and(|named| std::mem::replace(named, true)) {
                    return Err(at_child(index, position, format!("\"{child}\" is listed twice")));
                }
            }
        }
        let orphan =
            (0..self.nodes.len()).find(|place| *place != self.root && named.get(*place) == Some(&false));
        let Some((index, node)) = orphan.and_then(|index| Some((index, self.nodes.get(index)?))) else {
            return Ok(());
        };
        let parent = node.parent_id.as_ref().map_or("", NodeId::as_str);
        Err(at(index, "parentId", format!("\"{parent}\" does not list \"{}\" among its children", node.id)))
    }

    /// Whether the root is above every node. What is not is above itself.
    fn reach(&self) -> Result<(), ParseError> {
        let mut reached = vec![false; self.nodes.len()];
        let mut open = vec![self.root];
        while let Some(place) = open.pop() {
            if let Some(reached) = reached.get_mut(place) {
                *reached = true;
            }
            let children = self.nodes.get(place).into_iter().flat_map(|node| &node.children);
            open.extend(children.filter_map(|child| self.places.get(child)));
        }
        match reached.iter().position(|reached| !reached) {
            None => Ok(()),
            Some(index) => {
                Err(at(index, "parentId", "its ancestors form a circle that the root is not part of"))
            }
        }
    }

    /// Completes the branch points.
    fn branch_points(&mut self, parents: &[usize]) -> Result<(), ParseError> {
        let lengths: Vec<usize> = self.nodes.iter().map(|node| node.thread.messages.len()).collect();
        for (index, node) in self.nodes.iter_mut().enumerate() {
            if index == self.root {
                continue;
            }
            let length =
                parents.get(index).and_then(|parent| lengths.get(*parent)).copied().unwrap_or_default();
            let point = node.branch_point.unwrap_or(length);
            if point > length {
                let message =
                    format!("the parent has {length} message(s), so it cannot branch after {point}");
                let mut error = at(index, "metadata", message);
                error.path.push(key(BRANCH_POINT));
                return Err(error);
            }
            node.branch_point = Some(point);
        }
        Ok(())
    }
}

/// Metadata with the branch point in it.
struct MetadataJson<'a>(&'a ThreadNode);

impl Serialize for MetadataJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for (key, value) in self.0.metadata.iter() {
            map.serialize_entry(key, value)?;
        }
        if let Some(point) = self.0.branch_point {
            map.serialize_entry(BRANCH_POINT, &point)?;
        }
        map.end()
    }
}

impl Serialize for NodeId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

/// The members of UAP-1.0 §13.2 in its order; the root's parent is `null`.
impl Serialize for ThreadNode {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("id", &self.id)?;
        map.serialize_entry("parentId", &self.parent_id)?;
        if let Some(name) = &self.name {
            map.serialize_entry("name", name)?;
        }
        map.serialize_entry("thread", &self.thread)?;
        map.serialize_entry("children", &List(&self.children))?;
        map.serialize_entry("metadata", &MetadataJson(self))?;
        self.extra.serialize_into(&mut map)?;
        map.end()
    }
}

/// A persistent vector as a list.
struct List<'a, T: Clone>(&'a imbl::Vector<T>);

impl<T: Serialize + Clone> Serialize for List<'_, T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0)
    }
}

/// All nodes as a list.
struct NodeList<'a>(&'a ThreadTree);

impl Serialize for NodeList<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.nodes())
    }
}

impl Serialize for ThreadTree {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("rootId", &self.root().id)?;
        map.serialize_entry("currentId", &self.current().id)?;
        map.serialize_entry("nodes", &NodeList(self))?;
        self.extra.serialize_into(&mut map)?;
        map.end()
    }
}

/// As part of a larger document. The place of a broken rule is in the message; [`ThreadTree::from_json`] has it apart.
impl<'de> Deserialize<'de> for ThreadTree {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        ThreadTreeJson::deserialize(deserializer)?.into_tree().map_err(serde::de::Error::custom)
    }
}

impl ThreadTree {
    /// Reads a tree.
    ///
    /// # Errors
    /// Not JSON, over a limit, or a rule of [`ThreadTreeJson::into_tree`] with its place.
    pub fn from_json(text: &str, limits: &Limits) -> Result<Self, ParseError> {
        json::parse::<ThreadTreeJson>(text, limits)?.into_tree()
    }
}

impl JsonSchema for ThreadTree {
    fn schema(definitions: &mut Definitions) -> serde_json::Value {
        ThreadTreeJson::schema(definitions)
    }
}

impl JsonSchema for ThreadNode {
    fn schema(definitions: &mut Definitions) -> serde_json::Value {
        ThreadNodeJson::schema(definitions)
    }
}
