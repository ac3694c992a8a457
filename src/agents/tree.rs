//! `ThreadTree`, `ThreadNode` and `ThreadDiff`: handles to a shared tree, its nodes and their threads ([`Thread`]).
//!
//! Spec: UAP-1.0 §7.

use std::sync::Arc;

use crate::prelude::*;
use pyo3::exceptions::{PyKeyError, PyValueError};
use pyo3::types::{PyDict, PyTuple};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::convert::json::to_raw_object;
use crate::convert::text::quoted;
use crate::data::{Data, DataClass, extract, levels, value_of};
use crate::records::Turn;
use crate::thread::{NodeThread, SharedThread, Thread, history_from};
use crate::time::from_python;
use crate::to_python::{ToPython, attributes, data_class};
use turntree_agents::tree::{
    NodeHandle, NodeId, SharedTree, ThreadDiff as CoreDiff, ThreadNode as CoreNode, ThreadNodeJson,
    ThreadTree as CoreTree, ThreadTreeJson, TreeError,
};
use turntree_core::ids::RandomIds;
use turntree_core::json::ParseError;
use turntree_core::json::schema::{Definitions, JsonSchema};
use turntree_core::message::{Message, Thread as CoreThread};
use turntree_core::time::SystemClock;

/// The default number of lines of a drawing. `draw` has the same default.
const LINES: usize = 40;

/// A value, or the validation error of its document with its path.
pub(crate) struct Validated<T>(Result<Arc<T>, ParseError>);

/// A value that is read from JSON in two steps: the types of the members, then the rules of the document.
pub(crate) trait Document: Sized {
    /// The document before its validation.
    type Json: DeserializeOwned;

    /// Validates the document.
    fn validated(json: Self::Json) -> Result<Self, ParseError>;
}

impl Document for SharedTree {
    type Json = ThreadTreeJson;

    fn validated(json: ThreadTreeJson) -> Result<Self, ParseError> {
        json.into_tree().map(Self::new)
    }
}

impl Document for NodeHandle {
    type Json = ThreadNodeJson;

    fn validated(json: ThreadNodeJson) -> Result<Self, ParseError> {
        json.into_node().map(Self::from)
    }
}

impl<T: PartialEq> PartialEq for Validated<T> {
    fn eq(&self, other: &Self) -> bool {
        matches!((&self.0, &other.0), (Ok(one), Ok(two)) if one == two)
    }
}

impl<T: Serialize> Serialize for Validated<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.as_ref().map_err(serde::ser::Error::custom)?.serialize(serializer)
    }
}

impl<'de, T: Document> Deserialize<'de> for Validated<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self(T::validated(T::Json::deserialize(deserializer)?).map(Arc::new)))
    }
}

impl<T: JsonSchema> JsonSchema for Validated<T> {
    fn schema(definitions: &mut Definitions) -> serde_json::Value {
        T::schema(definitions)
    }
}

/// Creates a handle to a tree.
///
/// # Errors
/// Only if Python fails, for example out of memory.
pub(crate) fn wrap_tree(py: Python<'_>, tree: Arc<SharedTree>) -> PyResult<Py<PyAny>> {
    ThreadTree::wrap(py, Arc::new(Validated(Ok(tree))))
}

impl NodeThread for NodeHandle {
    fn thread(&self) -> PyResult<CoreThread> {
        Ok(done(self.node())?.thread.clone())
    }

    fn push(&self, messages: Vec<Arc<Message>>) -> PyResult<()> {
        done(self.push(messages, &SystemClock))
    }

    fn clear(&self) -> PyResult<()> {
        done(self.clear(&SystemClock))
    }
}

/// Converts an error of a tree.
pub(crate) fn raised(error: &TreeError) -> PyErr {
    match error {
        TreeError::UnknownNode { .. } => PyKeyError::new_err(error.to_string()),
        TreeError::InUse { .. } | TreeError::TooFew { .. } | TreeError::Reserved { .. } => {
            PyValueError::new_err(error.to_string())
        }
    }
}

fn done<T>(result: Result<T, TreeError>) -> PyResult<T> {
    result.map_err(|error| raised(&error))
}

impl ToPython for NodeId {
    fn to_python<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.as_str().to_python(py)
    }
}

/// A conversation with branches.
///
/// A tree always has a root, named "main", and a current node, which new messages are added to. The cost of a
/// branch or a copy does not depend on the length of the conversation, because messages are shared. Handles may be
/// used from any thread. Works as a mapping from ids to nodes; ``print(tree)`` and notebooks draw it.
///
/// Args:
///     thread: The messages of the root: a thread or a list of messages. It is not changed; its messages are
///         shared.
///
/// Spec: UAP-1.0 §7.
#[pyclass(frozen, extends = Data, module = "turntree")]
pub(crate) struct ThreadTree;

/// One node of a `ThreadTree`: a handle to the node's current state.
///
/// Spec: UAP-1.0 §7.1.
#[pyclass(frozen, extends = Data, module = "turntree")]
pub(crate) struct ThreadNode;

data_class! {
    /// The difference between the histories of two nodes.
    ThreadDiff as "ThreadDiff" in "turntree._core" over CoreDiff {
        /// The id of the nearest common ancestor; one of the two nodes if it is an ancestor of the other.
        ancestor_id,
        /// The number of messages at the start that both histories have.
        common,
        /// The id of the first node; None for a difference that an earlier version wrote.
        id_a,
        /// The id of the second node; None for a difference that an earlier version wrote.
        id_b,
        /// The name of the first node, or None.
        name_a,
        /// The name of the second node, or None.
        name_b,
        /// Messages that only the first history has, compared by id.
        only_a,
        /// Messages that only the second history has, compared by id.
        only_b,
    }
}

macro_rules! handle_class {
    ($class:ident over $value:ty, inside $levels:ident) => {
        impl DataClass for $class {
            type Value = Validated<$value>;
            const OUTER_LEVELS: usize = levels::$levels;
            const FROZEN: bool = false;
            fn wrap(py: Python<'_>, value: Arc<Self::Value>) -> PyResult<Py<PyAny>> {
                Ok(Py::new(py, PyClassInitializer::from(Data::new(value)).add_subclass(Self))?.into_any())
            }
            fn accept(value: &Self::Value) -> Result<(), ParseError> {
                value.0.as_ref().map(drop).map_err(Clone::clone)
            }
        }

        impl $class {
            fn of<'a>(slf: &'a Bound<'_, Self>) -> PyResult<&'a Arc<$value>> {
                let value = value_of::<Validated<$value>>(slf.as_super())?;
                value.0.as_ref().map_err(|error| crate::convert::error::validation(slf.py(), error, None))
            }
        }
    };
}

handle_class!(ThreadTree over SharedTree, inside TREE);
handle_class!(ThreadNode over NodeHandle, inside NODE);

impl ThreadTree {
    fn node<'py>(slf: &Bound<'py, Self>, id: &NodeId) -> PyResult<Bound<'py, PyAny>> {
        let handle = NodeHandle::InTree(Arc::clone(Self::of(slf)?), id.clone());
        Ok(ThreadNode::wrap(slf.py(), Arc::new(Validated(Ok(Arc::new(handle)))))?.into_bound(slf.py()))
    }
}

/// Converts the initial thread of a tree: messages, and the id and times if it is a thread.
fn first_thread(thread: &Bound<'_, PyAny>) -> PyResult<CoreThread> {
    let mut first = CoreThread::new(history_from(thread, "thread")?, &RandomIds, &SystemClock);
    if thread.is_instance_of::<Thread>() {
        first.id = thread.getattr("id")?.extract()?;
        first.created_at = from_python(&thread.getattr("created_at")?, "thread")?;
        first.updated_at = from_python(&thread.getattr("updated_at")?, "thread")?;
    }
    Ok(first)
}

#[pymethods]
impl ThreadTree {
    #[new]
    #[pyo3(signature = (thread = None))]
    fn new(thread: Option<&Bound<'_, PyAny>>) -> PyResult<PyClassInitializer<Self>> {
        let tree = match thread {
            Some(thread) => CoreTree::new(first_thread(thread)?, &RandomIds),
            None => CoreTree::empty(&RandomIds, &SystemClock),
        };
        let value = Validated(Ok(Arc::new(SharedTree::new(tree))));
        Ok(PyClassInitializer::from(Data::new(Arc::new(value))).add_subclass(Self))
    }

    /// The node without a parent.
    #[getter]
    fn root<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let id = Self::of(slf)?.lock().root().id.clone();
        Self::node(slf, &id)
    }

    /// The node that messages are added to.
    #[getter]
    fn current<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let id = Self::of(slf)?.lock().current().id.clone();
        Self::node(slf, &id)
    }

    /// All nodes by id, in order of creation, as a new dict.
    #[getter]
    fn nodes<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyDict>> {
        let nodes = PyDict::new(slf.py());
        for node in Self::of(slf)?.snapshot().nodes() {
            nodes.set_item(node.id.as_str(), Self::node(slf, &node.id)?)?;
        }
        Ok(nodes)
    }

    /// Start a branch at a node. The current node does not change.
    ///
    /// Args:
    ///     from_id: The node to branch from.
    ///     name: A name for display; shown in drawings.
    ///     after: The number of the node's own messages that belong to the branch, to begin before a message again.
    ///         Default: all of them.
    ///
    /// Returns:
    ///     The new node's id. Its history is the parent's history up to now; later messages of the parent do not
    ///     appear in it.
    ///
    /// Raises:
    ///     KeyError: No node has this id.
    ///     ValueError: The node has fewer messages than `after`.
    ///
    /// Spec: UAP-1.0 §7.1.
    #[pyo3(signature = (from_id, name = None, *, after = None))]
    fn branch(
        slf: &Bound<'_, Self>,
        from_id: &str,
        name: Option<String>,
        after: Option<usize>,
    ) -> PyResult<String> {
        let mut tree = Self::of(slf)?.lock();
        let branch = match after {
            Some(after) => tree.branch_after(from_id, after, name, &RandomIds, &SystemClock),
            None => tree.branch(from_id, name, &RandomIds, &SystemClock),
        };
        done(branch).map(|id| id.to_string())
    }

    /// Make a node the current node.
    ///
    /// Raises:
    ///     KeyError: No node has this id.
    fn checkout(slf: &Bound<'_, Self>, node_id: &str) -> PyResult<()> {
        done(Self::of(slf)?.lock().checkout(node_id))
    }

    /// Append the messages of another node's history that the node does not have, compared by id and in order.
    ///
    /// The source does not change; the target lists it in its metadata under ``mergedFrom``. A second merge appends
    /// only messages that are new since the first. Merging a node or one of its ancestors into the node changes
    /// nothing.
    ///
    /// Returns:
    ///     The number of appended messages.
    ///
    /// Raises:
    ///     KeyError: No node has one of these ids.
    fn merge(slf: &Bound<'_, Self>, source_id: &str, target_id: &str) -> PyResult<usize> {
        done(Self::of(slf)?.lock().merge(source_id, target_id, &SystemClock))
    }

    /// Return all messages from the root to a node, oldest first.
    ///
    /// Args:
    ///     node_id: Default: the current node.
    ///
    /// Raises:
    ///     KeyError: No node has this id.
    #[pyo3(signature = (node_id = None))]
    fn history<'py>(slf: &Bound<'py, Self>, node_id: Option<&str>) -> PyResult<Bound<'py, PyAny>> {
        let tree = Self::of(slf)?.snapshot();
        let history = match node_id {
            Some(id) => done(tree.history_of(id))?,
            None => tree.history(),
        };
        history.to_python(slf.py())
    }

    /// Return the nodes without branches, in order of creation.
    fn leaves<'py>(slf: &Bound<'py, Self>) -> PyResult<Vec<Bound<'py, PyAny>>> {
        Self::of(slf)?.snapshot().leaves().map(|node| Self::node(slf, &node.id)).collect()
    }

    /// Compare the histories of two nodes.
    ///
    /// Raises:
    ///     KeyError: No node has one of these ids.
    fn diff<'py>(slf: &Bound<'py, Self>, a: &str, b: &str) -> PyResult<Bound<'py, PyAny>> {
        done(Self::of(slf)?.snapshot().diff(a, b))?.to_python(slf.py())
    }

    /// Append all messages of a turn to the current node and return the tree.
    fn append<'py>(slf: &Bound<'py, Self>, turn: &Bound<'py, PyAny>) -> PyResult<Bound<'py, Self>> {
        let turn = extract::<Turn>(turn, "turn")?;
        Self::of(slf)?.lock().append(&turn, &SystemClock);
        Ok(slf.clone())
    }

    /// Append messages to the current node and return the tree.
    #[pyo3(signature = (*messages))]
    fn push<'py>(slf: &Bound<'py, Self>, messages: &Bound<'py, PyTuple>) -> PyResult<Bound<'py, Self>> {
        let messages = history_from(messages.as_any(), "messages")?;
        Self::of(slf)?.lock().push(messages, &SystemClock);
        Ok(slf.clone())
    }

    /// Return the tree as text: one line per node, at most `lines` of them.
    #[pyo3(signature = (*, lines = 40))]
    fn draw(slf: &Bound<'_, Self>, lines: usize) -> PyResult<String> {
        Ok(Self::of(slf)?.snapshot().draw(lines).to_string())
    }

    fn __len__(slf: &Bound<'_, Self>) -> PyResult<usize> {
        Ok(Self::of(slf)?.lock().node_count())
    }

    fn __contains__(slf: &Bound<'_, Self>, id: &Bound<'_, PyAny>) -> PyResult<bool> {
        let Ok(id) = id.extract::<&str>() else { return Ok(false) };
        Ok(Self::of(slf)?.lock().node(id).is_some())
    }

    fn __getitem__<'py>(slf: &Bound<'py, Self>, id: &str) -> PyResult<Bound<'py, PyAny>> {
        let node = done(Self::of(slf)?.lock().require_node(id).map(Arc::clone))?;
        Self::node(slf, &node.id)
    }

    fn __iter__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let ids: Vec<_> = Self::of(slf)?.snapshot().nodes().map(|node| node.id.to_string()).collect();
        Ok(ids.into_pyobject(slf.py())?.try_iter()?.into_any())
    }

    /// Return a separate tree that shares the messages.
    fn __copy__(slf: &Bound<'_, Self>) -> PyResult<Py<PyAny>> {
        let copy = SharedTree::new(Self::of(slf)?.snapshot());
        wrap_tree(slf.py(), Arc::new(copy))
    }

    #[pyo3(signature = (_memo = None))]
    fn __deepcopy__(slf: &Bound<'_, Self>, _memo: Option<&Bound<'_, PyAny>>) -> PyResult<Py<PyAny>> {
        Self::__copy__(slf)
    }

    fn __str__(slf: &Bound<'_, Self>) -> PyResult<String> {
        Self::draw(slf, LINES)
    }

    fn __repr__(slf: &Bound<'_, Self>) -> PyResult<String> {
        let tree = Self::of(slf)?.snapshot();
        let (nodes, messages) = (tree.node_count(), tree.message_count());
        Ok(format!("ThreadTree(nodes={nodes}, messages={messages})\n{}", tree.draw(LINES)))
    }
}

impl ThreadNode {
    fn node(slf: &Bound<'_, Self>) -> PyResult<Arc<CoreNode>> {
        done(Self::of(slf)?.node())
    }
}

attributes! { ThreadNode(slf) {
    /// The id: a UUIDv4, or any text if the tree was read from JSON.
    id = Self::node(slf)?.id;

    /// The id of the node that it branches from; None for the root.
    parent_id = Self::node(slf)?.parent_id;

    /// The number of messages of the parent's thread that belong to the node's history; None for the root.
    branch_point = Self::node(slf)?.branch_point;

    /// A name for display. May be assigned.
    name = Self::node(slf)?.name;

    /// Metadata of the node, as a new dict. Assign a dict to change it.
    ///
    /// ``mergedFrom`` lists the ids of the nodes that were merged into this one.
    metadata = Self::node(slf)?.metadata;

    /// The ids of the branches that start here, oldest first.
    children = Self::node(slf)?.children;
} }

#[pymethods]
impl ThreadNode {
    /// The node's own messages, without those of its parent. Messages added to it are added to the tree.
    #[getter]
    fn thread(slf: &Bound<'_, Self>) -> PyResult<Py<PyAny>> {
        Thread::wrap(slf.py(), Arc::new(SharedThread::OfNode(Arc::clone(Self::of(slf)?) as _)))
    }

    #[setter]
    fn set_name(slf: &Bound<'_, Self>, name: Option<String>) -> PyResult<()> {
        done(Self::of(slf)?.rename(name))
    }

    #[setter]
    fn set_metadata(slf: &Bound<'_, Self>, metadata: &Bound<'_, PyAny>) -> PyResult<()> {
        done(Self::of(slf)?.set_metadata(to_raw_object(metadata, "metadata")?))
    }

    fn __repr__(slf: &Bound<'_, Self>) -> PyResult<String> {
        let node = Self::node(slf)?;
        let name = node.name.as_ref().map_or_else(String::new, |name| format!(", name={}", quoted(name)));
        let (messages, children) = (node.thread.messages.len(), node.children.len());
        let id = quoted(node.id.as_str());
        Ok(format!("ThreadNode(id={id}{name}, messages={messages}, children={children})"))
    }
}
