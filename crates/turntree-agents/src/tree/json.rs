//! Reads, validates and writes trees as JSON.
//!
//! Each message is written once, in the node that it was added to. The branch point of a node is written to its metadata
//! as [`BRANCH_POINT`]; if it is absent, the whole thread of the parent belongs to the node's history.
//!
//! Spec: UAP-1.0 §13.2.

use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::tree::node::{NodeId, ThreadNode};
use crate::tree::nodes::Nodes;
use crate::tree::part_depth::{check_tree, is_shallow};
use crate::tree::thread_tree::ThreadTree;
use turntree_core::json::schema::{Definitions, JsonSchema};
use turntree_core::json::{self, ParseError, PathSegment, RawJson, RawObject, json_object};
use turntree_core::limits::Limits;
use turntree_core::message::Thread;

/// The member of a node's metadata with the number of messages of its parent that belong to its history.
pub const BRANCH_POINT: &str = "branchPoint";

json_object! {
    /// A node as JSON.
    #[derive(Debug, Clone)]
    pub struct ThreadNodeJson {
        /// Unique in its tree.
        pub id: String = "id",
        /// The node that it branches from; `null` for the root.
        pub parent_id: Option<String> = "parentId",
        /// A name for display.
        pub name: Option<String> = "name",
        /// Its own messages, without those of its parent.
        pub thread: Thread = "thread",
        /// Ids of the branches that start here, oldest first.
        pub children: Vec<String> = "children",
        /// Metadata; `branchPoint` is the number of messages of the parent that belong to the history.
        pub metadata: Option<RawObject> = "metadata",
    }
}

json_object! {
    /// A tree as JSON, before validation by [`Self::into_tree`].
    #[derive(Debug, Clone)]
    pub struct ThreadTreeJson {
        /// The id of the node without a parent.
        pub root_id: String = "rootId",
        /// The id of the node that new messages are appended to.
        pub current_id: String = "currentId",
        /// All nodes, in any order.
        pub nodes: Vec<ThreadNodeJson> = "nodes",
    }
}

impl ThreadNodeJson {
    /// Validates the node by itself: its id is not empty, and its branch point, if present, is a count.
    ///
    /// # Errors
    /// The path in the node and the rule.
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

/// Returns an error at a member of the node at `index`.
fn error_at(index: usize, member: &str, message: impl Into<String>) -> ParseError {
    ParseError::shape(vec![key("nodes"), PathSegment::Index(index), key(member)], message)
}

fn error_at_child(index: usize, child: usize, message: impl Into<String>) -> ParseError {
    let mut error = error_at(index, "children", message);
    error.path.push(PathSegment::Index(child));
    error
}

/// Nodes whose document is being validated.
struct Validation {
    nodes: Vec<ThreadNode>,
    indexes: imbl::HashMap<NodeId, usize>,
    root: usize,
}

impl ThreadTreeJson {
    /// Validates the document and returns the tree.
    ///
    /// # Errors
    /// The path and the first broken rule: ids are unique and not empty, the root and the current node exist, only the root
    /// has no parent, `parentId` and `children` agree, every node is reachable from the root, and a branch point is not
    /// beyond the end of the parent's thread.
    pub fn into_tree(self) -> Result<ThreadTree, ParseError> {
        let mut nodes = Vec::with_capacity(self.nodes.len());
        let mut indexes = imbl::HashMap::new();
        for (index, json) in self.nodes.into_iter().enumerate() {
            let node = json.into_node().map_err(|mut error| {
                error.path.splice(0..0, [key("nodes"), PathSegment::Index(index)]);
                error
            })?;
            if let Some(first) = indexes.insert(node.id.clone(), index) {
                let message = format!("\"{}\" is the id of nodes/{first} too; ids are unique", node.id);
                return Err(error_at(index, "id", message));
            }
            nodes.push(node);
        }
        let find = |id: &str, member: &str| {
            indexes
                .get(id)
                .copied()
                .ok_or_else(|| ParseError::shape(vec![key(member)], format!("no node has the id \"{id}\"")))
        };
        let root = find(&self.root_id, "rootId")?;
        let current = find(&self.current_id, "currentId")?;
        let mut validation = Validation { nodes, indexes, root };
        let parents = validation.parents()?;
        validation.check_children(&parents)?;
        validation.check_reachable()?;
        validation.set_branch_points(&parents)?;
        let Some(nodes) = Nodes::from_all(validation.nodes) else {
            return Err(ParseError::shape(vec![key("nodes")], "a tree has at least one node"));
        };
        let parents = parents.into_iter().collect();
        Ok(ThreadTree::from_parts(nodes, parents, validation.indexes, root, current, self.extra))
    }
}

impl Validation {
    /// Returns the index of each node's parent; for the root its own index.
    fn parents(&self) -> Result<Vec<usize>, ParseError> {
        let parent = |(index, node): (usize, &ThreadNode)| match &node.parent_id {
            None if index == self.root => Ok(index),
            None => Err(error_at(index, "parentId", "only the root (rootId) has no parent")),
            Some(_) if index == self.root => Err(error_at(index, "parentId", "the root has no parent: null")),
            Some(parent) => self
                .indexes
                .get(parent)
                .copied()
                .ok_or_else(|| error_at(index, "parentId", format!("no node has the id \"{parent}\""))),
        };
        self.nodes.iter().enumerate().map(parent).collect()
    }

    /// Checks that `parentId` and `children` agree and that no child is listed twice.
    fn check_children(&self, parents: &[usize]) -> Result<(), ParseError> {
        let mut named = vec![false; self.nodes.len()];
        for (index, node) in self.nodes.iter().enumerate() {
            for (position, child) in node.children.iter().enumerate() {
                let Some(child_index) = self.indexes.get(child).copied() else {
                    return Err(error_at_child(index, position, format!("no node has the id \"{child}\"")));
                };
                if child_index == self.root || parents.get(child_index) != Some(&index) {
                    let message = format!("\"{child}\" does not have \"{}\" as its parentId", node.id);
                    return Err(error_at_child(index, position, message));
                }
                if named.get_mut(child_index).is_some_and(|named| std::mem::replace(named, true)) {
                    return Err(error_at_child(index, position, format!("\"{child}\" is listed twice")));
                }
            }
        }
        let orphan =
            (0..self.nodes.len()).find(|index| *index != self.root && named.get(*index) == Some(&false));
        let Some((index, node)) = orphan.and_then(|index| Some((index, self.nodes.get(index)?))) else {
            return Ok(());
        };
        let parent = node.parent_id.as_ref().map_or("", NodeId::as_str);
        Err(error_at(
            index,
            "parentId",
            format!("\"{parent}\" does not list \"{}\" among its children", node.id),
        ))
    }

    /// Checks that every node is reachable from the root. The parents of an unreachable node form a cycle.
    fn check_reachable(&self) -> Result<(), ParseError> {
        let mut reached = vec![false; self.nodes.len()];
        let mut open = vec![self.root];
        while let Some(index) = open.pop() {
            if let Some(reached) = reached.get_mut(index) {
                *reached = true;
            }
            let children = self.nodes.get(index).into_iter().flat_map(|node| &node.children);
            open.extend(children.filter_map(|child| self.indexes.get(child)));
        }
        match reached.iter().position(|reached| !reached) {
            None => Ok(()),
            Some(index) => {
                Err(error_at(index, "parentId", "its ancestors form a cycle that does not contain the root"))
            }
        }
    }

    /// Checks the branch points and sets missing ones to the length of the parent's thread.
    fn set_branch_points(&mut self, parents: &[usize]) -> Result<(), ParseError> {
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
                let mut error = error_at(index, "metadata", message);
                error.path.push(key(BRANCH_POINT));
                return Err(error);
            }
            node.branch_point = Some(point);
        }
        Ok(())
    }
}

/// Writes metadata together with the branch point.
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

/// Writes the members in the order of the specification; the root's parent is `null`.
///
/// Spec: UAP-1.0 §13.2.
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

/// Writes a persistent vector as a list.
struct List<'a, T: Clone>(&'a imbl::Vector<T>);

impl<T: Serialize + Clone> Serialize for List<'_, T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0)
    }
}

/// Writes all nodes as a list.
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

/// Reads a tree as part of a larger document. The message contains the path of a broken rule; [`ThreadTree::from_json`]
/// returns it as a field.
impl<'de> Deserialize<'de> for ThreadTree {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        ThreadTreeJson::deserialize(deserializer)?.into_tree().map_err(serde::de::Error::custom)
    }
}

impl ThreadTree {
    /// Reads a tree.
    ///
    /// # Errors
    /// The path and the reason: invalid JSON, an exceeded limit, a broken rule of [`ThreadTreeJson::into_tree`], or a
    /// message that is too deep to be read on its own.
    pub fn from_json(text: &str, limits: &Limits) -> Result<Self, ParseError> {
        let tree = json::parse::<ThreadTreeJson>(text, limits)?.into_tree()?;
        if !is_shallow(text, limits) {
            check_tree(&tree)?;
        }
        Ok(tree)
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
