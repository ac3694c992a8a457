//! Threads as a Python class: the only data class of UPP that can change.
//!
//! Spec: UPP-1.2 §7.

use std::sync::{Arc, Mutex};

use crate::prelude::*;
use pyo3::exceptions::{PyIndexError, PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::types::{PyBytes, PyDict, PyString, PyTuple};
use serde::{Deserialize, Serialize};

use super::bridge::gil::lock;
use super::content::content_from;
use super::data::{Data, DataClass, extract, levels, value_of};
use super::message::{Message as PyMessage, message_from};
use super::records::Turn;
use super::to_python::{ToPython, attributes};
use crate::error::wrong_type;
use turntree_core::ids::RandomIds;
use turntree_core::json::schema::{Definitions, JsonSchema};
use turntree_core::message::message::History;
use turntree_core::message::{Body, Message, MessageKind, Thread as CoreThread};
use turntree_core::time::SystemClock;

/// The thread of a tree node: changes go through the node.
pub(crate) trait NodeThread: Send + Sync {
    /// The thread as it is now.
    fn thread(&self) -> PyResult<CoreThread>;

    /// Append messages and return the thread.
    fn push(&self, messages: Vec<Arc<Message>>) -> PyResult<()>;

    /// Removes all messages.
    fn clear(&self) -> PyResult<()>;
}

/// A thread that several Python handles share: a separate one, locked for each operation, or that of a tree node.
pub(crate) enum SharedThread {
    Separate(Mutex<CoreThread>),
    OfNode(Arc<dyn NodeThread>),
}

impl SharedThread {
    /// The thread as it is now; shares the messages.
    pub(crate) fn read(&self) -> PyResult<CoreThread> {
        match self {
            Self::Separate(thread) => Ok(lock(thread).clone()),
            Self::OfNode(node) => node.thread(),
        }
    }

    fn push(&self, messages: impl IntoIterator<Item = Arc<Message>>) -> PyResult<()> {
        match self {
            Self::Separate(thread) => {
                lock(thread).push(messages, &SystemClock);
                Ok(())
            }
            Self::OfNode(node) => node.push(messages.into_iter().collect()),
        }
    }

    fn clear(&self) -> PyResult<()> {
        match self {
            Self::Separate(thread) => {
                lock(thread).clear(&SystemClock);
                Ok(())
            }
            Self::OfNode(node) => node.clear(),
        }
    }

    /// A separate thread.
    pub(crate) const fn new(thread: CoreThread) -> Self {
        Self::Separate(Mutex::new(thread))
    }
}

impl PartialEq for SharedThread {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other) || self.read().ok() == other.read().ok()
    }
}

impl Serialize for SharedThread {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.read().map_err(serde::ser::Error::custom)?.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for SharedThread {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        CoreThread::deserialize(deserializer).map(Self::new)
    }
}

impl JsonSchema for SharedThread {
    fn schema(definitions: &mut Definitions) -> serde_json::Value {
        CoreThread::schema(definitions)
    }
}

/// A conversation: an ordered list of messages that can be appended to.
///
/// Spec: UPP-1.2 §7.
#[pyclass(frozen, extends = Data, module = "turntree.upp")]
pub(crate) struct Thread;

impl DataClass for Thread {
    type Value = SharedThread;
    const OUTER_LEVELS: usize = levels::MESSAGES;
    const FROZEN: bool = false;
    fn wrap(py: Python<'_>, value: Arc<SharedThread>) -> PyResult<Py<PyAny>> {
        Ok(Py::new(py, PyClassInitializer::from(Data::new(value)).add_subclass(Self))?.into_any())
    }
}

impl Thread {
    /// A copy of the thread, which shares its messages.
    ///
    /// # Errors
    /// `KeyError` if the thread belongs to a removed tree node.
    pub(crate) fn read(slf: &Bound<'_, Self>) -> PyResult<CoreThread> {
        Self::of(slf)?.read()
    }

    fn of<'a>(slf: &'a Bound<'_, Self>) -> PyResult<&'a SharedThread> {
        value_of(slf.as_super())
    }

    /// Appends messages. Returns the thread, for calls in a chain.
    fn extend<'py>(
        slf: &Bound<'py, Self>,
        messages: impl IntoIterator<Item = Arc<Message>>,
    ) -> PyResult<Bound<'py, Self>> {
        Self::of(slf)?.push(messages)?;
        Ok(slf.clone())
    }

    /// A thread as a Python object.
    pub(crate) fn given(py: Python<'_>, thread: CoreThread) -> PyResult<Py<PyAny>> {
        Self::wrap(py, Arc::new(SharedThread::new(thread)))
    }
}

attributes! {
    Thread {
        /// Id of the thread, a UUIDv4.
        id = |thread| thread.read().map(|thread| thread.id),
        /// The messages, oldest first; a new list each time.
        messages = |thread| thread.read().map(|thread| thread.messages),
        /// Time of creation, in UTC.
        created_at = |thread| thread.read().map(|thread| thread.created_at),
        /// Time of the last change, in UTC.
        updated_at = |thread| thread.read().map(|thread| thread.updated_at),
    }
}

#[pymethods]
impl Thread {
    #[new]
    #[pyo3(signature = (messages = None))]
    fn new(messages: Option<&Bound<'_, PyAny>>) -> PyResult<PyClassInitializer<Self>> {
        let messages =
            messages.map_or_else(|| Ok(History::new()), |messages| history_from(messages, "messages"))?;
        let thread = SharedThread::new(CoreThread::new(messages, &RandomIds, &SystemClock));
        Ok(PyClassInitializer::from(Data::new(Arc::new(thread))).add_subclass(Self))
    }

    /// Append all messages of a turn and return the thread.
    fn append<'py>(slf: &Bound<'py, Self>, turn: &Bound<'py, PyAny>) -> PyResult<Bound<'py, Self>> {
        let other = match () {
            () if turn.is_instance_of::<PyString>() => {
                Some("write thread.user(text), or thread.assistant(text)")
            }
            () if is_message(turn)? => Some("write thread.push(message)"),
            () => None,
        };
        if let Some(remedy) = other {
            return Err(PyTypeError::new_err(format!("append() takes a turn, not a message; {remedy}")));
        }
        Self::extend(slf, extract::<Turn>(turn, "turn")?.messages.iter().cloned())
    }

    /// Append messages and return the thread.
    #[pyo3(signature = (*messages))]
    fn push<'py>(slf: &Bound<'py, Self>, messages: &Bound<'py, PyTuple>) -> PyResult<Bound<'py, Self>> {
        Self::extend(slf, history_from(messages.as_any(), "messages")?)
    }

    /// Append a user message and return the thread.
    fn user<'py>(slf: &Bound<'py, Self>, content: &Bound<'py, PyAny>) -> PyResult<Bound<'py, Self>> {
        Self::extend(slf, [new_message(Body::User { content: content_from(content, "content")? })])
    }

    /// Append an assistant message and return the thread.
    fn assistant<'py>(slf: &Bound<'py, Self>, content: &Bound<'py, PyAny>) -> PyResult<Bound<'py, Self>> {
        let content = content_from(content, "content")?;
        Self::extend(slf, [new_message(Body::Assistant { content, tool_calls: None })])
    }

    /// Return the messages of one type, in order.
    fn filter<'py>(slf: &Bound<'py, Self>, r#type: &str) -> PyResult<Bound<'py, PyAny>> {
        let kinds = [MessageKind::User, MessageKind::Assistant, MessageKind::ToolResult];
        let Some(kind) = kinds.into_iter().find(|kind| kind.as_str() == r#type) else {
            return Err(PyValueError::new_err(format!(
                "type must be \"user\", \"assistant\" or \"tool_result\", not \"{type}\"",
            )));
        };
        let messages = Self::of(slf)?.read()?.messages;
        let messages = messages.iter().filter(|message| message.kind() == kind);
        messages.collect::<Vec<_>>().to_python(slf.py())
    }

    /// Return the last messages, oldest first.
    fn tail<'py>(slf: &Bound<'py, Self>, n: usize) -> PyResult<Bound<'py, PyAny>> {
        Self::of(slf)?.read()?.tail(n).to_python(slf.py())
    }

    /// Return a range of messages as a new thread.
    #[pyo3(signature = (start = None, end = None))]
    fn slice(slf: &Bound<'_, Self>, start: Option<isize>, end: Option<isize>) -> PyResult<Py<PyAny>> {
        let slice = Self::of(slf)?.read()?.slice(start, end, &RandomIds, &SystemClock);
        Self::given(slf.py(), slice)
    }

    /// Remove all messages and return the thread.
    fn clear<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, Self>> {
        Self::of(slf)?.clear()?;
        Ok(slf.clone())
    }

    fn __len__(slf: &Bound<'_, Self>) -> PyResult<usize> {
        Ok(Self::of(slf)?.read()?.messages.len())
    }

    fn __getitem__<'py>(slf: &Bound<'py, Self>, index: isize) -> PyResult<Bound<'py, PyAny>> {
        let messages = Self::of(slf)?.read()?.messages;
        let place = if index < 0 {
            messages.len().checked_sub(index.unsigned_abs())
        } else {
            usize::try_from(index).ok()
        };
        let message = place.and_then(|place| messages.get(place));
        message.ok_or_else(|| PyIndexError::new_err("thread index out of range"))?.to_python(slf.py())
    }

    fn __iter__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        Ok(Self::messages(slf)?.try_iter()?.into_any())
    }
}

fn new_message(body: Body) -> Arc<Message> {
    Arc::new(Message::new(body, &RandomIds, &SystemClock))
}

/// A history from a thread, an object with a list of `messages`, or a list of messages. Shares the messages if possible.
///
/// # Errors
/// `TypeError` with the argument and the index; `turntree.ValidationError` for a dict that is not a message.
pub(crate) fn history_from(value: &Bound<'_, PyAny>, what: &str) -> PyResult<History> {
    if let Ok(thread) = value.cast::<Thread>() {
        return Ok(Thread::of(thread)?.read()?.messages);
    }
    let wrong = || match what {
        // Two arguments that are easily swapped.
        "history" => {
            wrong_type(value, what, "a Thread or a list of messages (the history comes before the input)")
        }
        _ => wrong_type(value, what, "a Thread or a list of messages"),
    };
    // A text is iterable, and an empty one would be an empty history.
    if value.is_instance_of::<PyString>() || value.is_instance_of::<PyBytes>() {
        return Err(wrong());
    }
    let list = value.getattr(intern!(value.py(), "messages")).unwrap_or_else(|_| value.clone());
    let items = list.try_iter().map_err(|_| wrong())?;
    items.enumerate().map(|(place, item)| message_from(&item?, &format!("{what}[{place}]"))).collect()
}

/// True for a message, or the dict of one.
fn is_message(value: &Bound<'_, PyAny>) -> PyResult<bool> {
    let is_dict = || value.cast::<PyDict>().map_or(Ok(false), |dict| dict.contains("content"));
    Ok(value.is_instance_of::<PyMessage>() || is_dict()?)
}
