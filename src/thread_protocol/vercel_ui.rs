//! The Vercel AI SDK: streams and messages of its clients, read and written.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyDict, PyList, PyString};

use super::actions::timestamp_from;
use super::agents::AgentConfig;
use super::document::Thread;
use super::pydantic_ai::choose;
use crate::agents::stream::AgentStreamEvent;
use crate::convert::json::{browser_raw, mended_text, to_browser, to_raw};
use crate::data::{extract, value_of};
use crate::error::wrong_type;
use crate::records::StreamEvent;
use turntree_core::message::StreamEvent as CoreEvent;
use turntree_thread_protocol::ThreadError;
use turntree_thread_protocol::convert::pydantic_ai::ProfileKind;
use turntree_thread_protocol::convert::vercel_ui::{
    Chunk, DONE_FRAME, EventStream, ExportOptions, HEADERS, LIMITS, Sdk, SidecarLevel, Turns,
    UiImportOptions, UiMessage, UiStream, UiStreamReader as Reader,
    from_ui_messages as core_from_ui_messages, ui_messages_from_json,
};

/// Names of the sidecar levels.
const LEVELS: &[(&str, SidecarLevel)] =
    &[("none", SidecarLevel::None), ("portable", SidecarLevel::Portable), ("full", SidecarLevel::Full)];

/// The arguments of a reader as Python gives them.
struct Import<'a, 'py> {
    agent: Option<&'a Bound<'py, PyAny>>,
    thread_id: Option<String>,
    chat_id: Option<String>,
    title: Option<String>,
    timestamp: Option<&'a Bound<'py, PyAny>>,
    profile: &'a str,
    sidecar: &'a str,
}

impl Import<'_, '_> {
    fn options(self) -> PyResult<UiImportOptions> {
        let agent = match self.agent.filter(|agent| !agent.is_none()) {
            Some(agent) => Some(Arc::unwrap_or_clone(extract::<AgentConfig>(agent, "agent")?)),
            None => None,
        };
        let timestamp = match self.timestamp.filter(|time| !time.is_none()) {
            Some(time) => Some(timestamp_from(Some(time), "timestamp")?),
            None => None,
        };
        Ok(UiImportOptions {
            profile: choose(
                "profile",
                self.profile,
                &[("full", ProfileKind::Full), ("portable", ProfileKind::Portable)],
            )?,
            agent,
            thread_id: self.thread_id,
            chat_id: self.chat_id,
            title: self.title,
            timestamp,
            sidecar: choose("sidecar", self.sidecar, LEVELS)?,
            limits: LIMITS,
        })
    }
}

/// The options of writing for a client as Python gives them.
pub(super) fn export(sdk: u32, sidecar: &str, turns: &str, dynamic_tools: bool) -> PyResult<ExportOptions> {
    let sdk = match sdk {
        5 => Sdk::V5,
        6 => Sdk::V6,
        7 => Sdk::V7,
        other => return Err(PyValueError::new_err(format!("sdk must be 5, 6 or 7, not {other}"))),
    };
    let sidecar = choose("sidecar", sidecar, LEVELS)?;
    let turns = choose("turns", turns, &[("all", Turns::All), ("last", Turns::Last)])?;
    Ok(ExportOptions { sdk, sidecar, turns, dynamic_tools })
}

/// The messages of a client: a list of dicts, or its JSON.
fn messages_from(py: Python<'_>, value: &Bound<'_, PyAny>) -> PyResult<Vec<UiMessage>> {
    let read = |bytes: &[u8]| {
        let messages = py.detach(|| ui_messages_from_json(bytes, &LIMITS));
        messages.map_err(|error| {
            let input: String = String::from_utf8_lossy(bytes.get(..400).unwrap_or(bytes)).into_owned();
            super::error::to_exception(py, &error, Some(&input))
        })
    };
    if let Ok(text) = value.cast::<PyString>() {
        return read(mended_text(text)?.as_bytes());
    }
    if let Ok(bytes) = value.cast::<PyBytes>() {
        return read(bytes.as_bytes());
    }
    if let Ok(bytes) = value.cast::<PyByteArray>() {
        return read(&bytes.to_vec());
    }
    let list = PyList::new(py, super::lists::items_of(value, "messages")?)?;
    read(browser_raw(&list, "messages")?.get().as_bytes())
}

/// Creates a thread from chat messages of the Vercel AI SDK, versions 5 to 7.
#[pyfunction]
#[pyo3(signature = (
    messages, *, agent = None, thread_id = None, chat_id = None, title = None, timestamp = None,
    profile = "full", sidecar = "portable"
))]
#[expect(clippy::too_many_arguments, reason = "keyword arguments of Python")]
pub(super) fn from_ui_messages(
    py: Python<'_>,
    messages: &Bound<'_, PyAny>,
    agent: Option<&Bound<'_, PyAny>>,
    thread_id: Option<String>,
    chat_id: Option<String>,
    title: Option<String>,
    timestamp: Option<&Bound<'_, PyAny>>,
    profile: &str,
    sidecar: &str,
) -> PyResult<Py<PyAny>> {
    let import = Import { agent, thread_id, chat_id, title, timestamp, profile, sidecar };
    let options = import.options()?;
    let messages = messages_from(py, messages)?;
    let thread = py.detach(|| core_from_ui_messages(&messages, &options));
    Thread::given(py, thread)
}

fn list_of_messages<'py>(py: Python<'py>, messages: &[UiMessage]) -> PyResult<Bound<'py, PyList>> {
    let shown = messages.iter().map(|message| message_dict(py, message));
    PyList::new(py, shown.collect::<PyResult<Vec<_>>>()?)
}

fn message_dict<'py>(py: Python<'py>, message: &UiMessage) -> PyResult<Bound<'py, PyAny>> {
    let json = turntree_core::json::RawJson::from_value(message)
        .map_err(|error| crate::convert::error::serialization(py, &error))?;
    Ok(to_browser(py, json.get())?.into_bound(py))
}

/// The messages of a thread as dicts.
pub(super) fn to_messages<'py>(
    py: Python<'py>,
    thread: &turntree_thread_protocol::Thread,
    options: ExportOptions,
) -> PyResult<Bound<'py, PyList>> {
    let messages = py.detach(|| thread.to_ui_messages(&options));
    list_of_messages(py, &messages)
}

/// The stream of a thread as an iterator of dicts, each written when it is asked for.
pub(super) fn to_stream(
    py: Python<'_>,
    thread: &turntree_thread_protocol::Thread,
    options: ExportOptions,
) -> PyResult<Py<UiChunks>> {
    Py::new(py, UiChunks(Mutex::new(py.detach(|| thread.to_ui_stream(&options)))))
}

/// An iterator of chunks.
#[pyclass(frozen, name = "UiChunks", module = "turntree._core")]
pub(crate) struct UiChunks(Mutex<UiStream>);

#[pymethods]
impl UiChunks {
    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let next =
            || self.0.lock().unwrap_or_else(PoisonError::into_inner).next().map(|chunk| chunk.to_json());
        let chunk = py.detach(next);
        chunk.map(|chunk| Ok(to_browser(py, chunk.get())?.into_bound(py))).transpose()
    }
}

/// The stream of a thread as the body of a response.
pub(super) fn to_stream_bytes<'py>(
    py: Python<'py>,
    thread: &turntree_thread_protocol::Thread,
    options: ExportOptions,
) -> Bound<'py, PyBytes> {
    let bytes = py.detach(|| {
        let mut bytes = Vec::new();
        for chunk in thread.to_ui_stream(&options) {
            chunk.write_frame(&mut bytes);
        }
        bytes.extend_from_slice(DONE_FRAME);
        bytes
    });
    PyBytes::new(py, &bytes)
}

/// The response headers of a UI message stream.
#[pyfunction]
pub(super) fn ui_stream_headers(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let headers = PyDict::new(py);
    for (name, value) in HEADERS {
        headers.set_item(name, value)?;
    }
    Ok(headers)
}

/// Reads one UI message stream as it arrives.
#[pyclass(frozen, name = "UiStreamReader", module = "turntree.thread_protocol")]
pub(crate) struct UiStreamReader(Mutex<Reader>);

impl UiStreamReader {
    fn lock(&self) -> MutexGuard<'_, Reader> {
        // A reader is whole after every chunk.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn pushed(py: Python<'_>, pushed: Result<(), ThreadError>) -> PyResult<()> {
        pushed.map_err(|error| super::error::to_exception(py, &error, None))
    }
}

#[pymethods]
impl UiStreamReader {
    #[new]
    #[pyo3(signature = (
        *, messages = None, agent = None, thread_id = None, chat_id = None, title = None, timestamp = None,
        profile = "full", sidecar = "portable"
    ))]
    #[expect(clippy::too_many_arguments, reason = "keyword arguments of Python")]
    fn new(
        py: Python<'_>,
        messages: Option<&Bound<'_, PyAny>>,
        agent: Option<&Bound<'_, PyAny>>,
        thread_id: Option<String>,
        chat_id: Option<String>,
        title: Option<String>,
        timestamp: Option<&Bound<'_, PyAny>>,
        profile: &str,
        sidecar: &str,
    ) -> PyResult<Self> {
        let import = Import { agent, thread_id, chat_id, title, timestamp, profile, sidecar };
        let prior = match messages.filter(|messages| !messages.is_none()) {
            Some(messages) => messages_from(py, messages)?,
            None => Vec::new(),
        };
        Ok(Self(Mutex::new(Reader::new(prior, import.options()?))))
    }

    /// Takes what arrived next: bytes of the response body, cut anywhere, or one chunk as a dict.
    fn feed(&self, py: Python<'_>, data: &Bound<'_, PyAny>) -> PyResult<()> {
        if let Ok(bytes) = data.cast::<PyBytes>() {
            let bytes = bytes.as_bytes();
            return Self::pushed(py, py.detach(|| self.lock().push_bytes(bytes)));
        }
        if let Ok(bytes) = data.cast::<PyByteArray>() {
            let bytes = bytes.to_vec();
            return Self::pushed(py, py.detach(|| self.lock().push_bytes(&bytes)));
        }
        if let Ok(text) = data.cast::<PyString>() {
            let text = mended_text(text)?;
            return Self::pushed(py, py.detach(|| self.lock().push_bytes(text.as_bytes())));
        }
        if !data.is_instance_of::<PyDict>() {
            return Err(wrong_type(data, "a chunk", "a dict, or bytes or str of the response body"));
        }
        let chunk = browser_raw(data, "chunk")?;
        Self::pushed(py, py.detach(|| self.lock().push_json(chunk.get())))
    }

    /// Number of chunks that were read.
    #[getter]
    fn count(&self) -> u64 {
        self.lock().count()
    }

    /// The message so far as a dict, or None before the first chunk.
    #[getter]
    fn message<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let message = self.lock().message().cloned();
        message.map(|message| message_dict(py, &message)).transpose()
    }

    /// The conversation so far as dicts, the message of the stream last.
    #[getter]
    fn messages<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let messages = self.lock().messages();
        list_of_messages(py, &messages)
    }

    /// The thread so far.
    fn thread(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let thread = py.detach(|| self.lock().thread());
        Thread::given(py, thread)
    }

    fn __repr__(&self) -> String {
        format!("UiStreamReader(count={})", self.lock().count())
    }
}

/// The native half of `turntree.thread_protocol.UiResponse`: events of a run in, frames of a response body out.
#[pyclass(frozen, name = "UiLiveStream", module = "turntree._core")]
pub(crate) struct UiLiveStream(Mutex<EventStream>);

impl UiLiveStream {
    fn frames<'py>(
        &self,
        py: Python<'py>,
        write: impl FnOnce(&mut EventStream) -> Vec<Chunk>,
        last: bool,
    ) -> Bound<'py, PyBytes> {
        let chunks = write(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
        let mut bytes = Vec::new();
        for chunk in &chunks {
            chunk.write_frame(&mut bytes);
        }
        if last && !chunks.is_empty() {
            bytes.extend_from_slice(DONE_FRAME);
        }
        PyBytes::new(py, &bytes)
    }
}

#[pymethods]
impl UiLiveStream {
    #[new]
    #[pyo3(signature = (message_id = None, metadata = None))]
    fn new(message_id: Option<String>, metadata: Option<&Bound<'_, PyAny>>) -> PyResult<Self> {
        let metadata = match metadata.filter(|metadata| !metadata.is_none()) {
            Some(metadata) => Some(to_raw(metadata, "metadata")?),
            None => None,
        };
        Ok(Self(Mutex::new(EventStream::new(message_id, metadata))))
    }

    /// The frames that begin the stream.
    fn start<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        self.frames(py, EventStream::start, false)
    }

    /// The frames of events.
    fn events<'py>(&self, py: Python<'py>, events: &Bound<'py, PyList>) -> PyResult<Bound<'py, PyBytes>> {
        let mut heard: Vec<CoreEvent> = Vec::with_capacity(events.len());
        for event in events.iter() {
            if let Ok(event) = event.cast::<AgentStreamEvent>() {
                heard.extend(event.get().upp_event().cloned());
            } else if let Ok(event) = event.cast::<StreamEvent>() {
                heard.push(value_of::<CoreEvent>(event.as_super())?.clone());
            } else {
                let found = event.get_type().name()?;
                return Err(PyTypeError::new_err(format!(
                    "a stream must give AgentStreamEvent or StreamEvent, not {found}"
                )));
            }
        }
        let all = |stream: &mut EventStream| heard.iter().flat_map(|event| stream.event(event)).collect();
        Ok(self.frames(py, all, false))
    }

    /// The frames that end a successful run.
    fn finish<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        self.frames(py, EventStream::finish, true)
    }

    /// The frames that end a failed run.
    fn error<'py>(&self, py: Python<'py>, text: &str) -> Bound<'py, PyBytes> {
        self.frames(py, |stream| stream.error(text), true)
    }

    /// The frames that end an aborted run.
    fn abort<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        self.frames(py, EventStream::abort, true)
    }
}
