//! The Vercel AI SDK: streams and messages of its clients, read and written.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::prelude::*;
use pyo3::exceptions::PyTypeError;
use pyo3::types::{PyBytes, PyDict, PyList};

use super::document::Thread;
use super::error::excerpt;
use super::options::ui_import;
use crate::agents::events::AgentStreamEvent;
use crate::convert::json::{browser_raw, browser_text_or_bytes, to_browser, to_raw};
use crate::data::value_of;
use crate::error::{OrRaise as _, wrong_type};
use crate::records::ToolCall;
use crate::stream_events::StreamEvent;
use turntree_agents::types::AgentStreamEvent as AgentEvent;
use turntree_core::json::RawJson;
use turntree_core::message::{StreamEvent as CoreEvent, ToolCall as CoreCall};
use turntree_thread_protocol as core;
use turntree_thread_protocol::convert::vercel_ui::{
    Chunk, DONE_FRAME, EventStream, ExportOptions, HEADERS, LIMITS, UiMessage, UiStream,
    UiStreamReader as Reader, from_ui_messages as core_from_ui_messages, ui_messages_from_json,
};

/// The messages of a client: a list of dicts, or its JSON.
fn messages_from(py: Python<'_>, value: &Bound<'_, PyAny>) -> PyResult<Vec<UiMessage>> {
    let read =
        |bytes: &[u8]| py.detach(|| ui_messages_from_json(bytes, &LIMITS)).or_raise_in(py, &excerpt(bytes));
    if let Some(bytes) = browser_text_or_bytes(value)? {
        return read(&bytes);
    }
    // Dicts, Pydantic models, dataclasses and mappings.
    let members = ["model_dump_json", "__dataclass_fields__", "keys"];
    let items = super::lists::items_while(super::lists::items_of(value, "messages")?, |item| {
        if item.is_instance_of::<PyDict>() {
            return Ok(true);
        }
        members
            .iter()
            .map(|name| item.hasattr(*name))
            .find(|found| !matches!(found, Ok(false)))
            .unwrap_or(Ok(false))
    })?;
    let list = PyList::new(py, items)?;
    read(browser_raw(&list, "messages")?.get().as_bytes())
}

/// Create a thread from chat messages of the Vercel AI SDK, versions 5 to 7.
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
    let options = ui_import(agent, thread_id, chat_id, title, timestamp, profile, sidecar)?;
    let messages = messages_from(py, messages)?;
    Thread::handle(py, py.detach(|| core_from_ui_messages(&messages, &options)))
}

fn list_of_messages<'py>(py: Python<'py>, messages: &[UiMessage]) -> PyResult<Bound<'py, PyList>> {
    let dicts = messages.iter().map(|message| message_dict(py, message));
    PyList::new(py, dicts.collect::<PyResult<Vec<_>>>()?)
}

fn message_dict<'py>(py: Python<'py>, message: &UiMessage) -> PyResult<Bound<'py, PyAny>> {
    let json = RawJson::from_value(message).or_raise(py)?;
    Ok(to_browser(py, json.get())?.into_bound(py))
}

/// The messages of a thread as dicts.
pub(super) fn to_messages<'py>(
    py: Python<'py>,
    thread: &core::Thread,
    options: ExportOptions,
) -> PyResult<Bound<'py, PyList>> {
    let messages = py.detach(|| thread.to_ui_messages(&options));
    list_of_messages(py, &messages)
}

/// The stream of a thread as an iterator of dicts, each written when it is requested.
pub(super) fn to_stream(
    py: Python<'_>,
    thread: &core::Thread,
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

/// Return the response headers of a UI message stream.
#[pyfunction]
pub(super) fn ui_stream_headers(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let headers = PyDict::new(py);
    for (name, value) in HEADERS {
        headers.set_item(name, value)?;
    }
    Ok(headers)
}

/// Reads one UI message stream of the Vercel AI SDK as it arrives.
///
/// The result does not depend on where the bytes are split. An error ends the stream, as in the real client;
/// the chunks before it remain readable.
///
/// UI message stream, §2 to §5.
#[pyclass(frozen, name = "UiStreamReader", module = "turntree.thread_protocol")]
pub(crate) struct UiStreamReader(Mutex<Reader>);

impl UiStreamReader {
    fn lock(&self) -> MutexGuard<'_, Reader> {
        // A reader is whole after every chunk.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
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
        let prior = messages.map(|messages| messages_from(py, messages)).transpose()?.unwrap_or_default();
        let options = ui_import(agent, thread_id, chat_id, title, timestamp, profile, sidecar)?;
        Ok(Self(Mutex::new(Reader::new(prior, options))))
    }

    /// Read the next data.
    fn feed(&self, py: Python<'_>, data: &Bound<'_, PyAny>) -> PyResult<()> {
        if let Some(bytes) = browser_text_or_bytes(data)? {
            return py.detach(|| self.lock().push_bytes(&bytes)).or_raise(py);
        }
        if !data.is_instance_of::<PyDict>() {
            return Err(wrong_type(data, "a chunk", "a dict, or bytes or str of the response body"));
        }
        let chunk = browser_raw(data, "chunk")?;
        py.detach(|| self.lock().push_json(chunk.get())).or_raise(py)
    }

    /// Number of chunks that were read.
    #[getter]
    fn count(&self) -> u64 {
        self.lock().count()
    }

    /// The message so far, or None before the first chunk.
    #[getter]
    fn message<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let message = self.lock().message().cloned();
        message.map(|message| message_dict(py, &message)).transpose()
    }

    /// The conversation so far, the message of the stream last.
    #[getter]
    fn messages<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let messages = self.lock().messages();
        list_of_messages(py, &messages)
    }

    /// Return the thread so far, a new object.
    fn thread(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        Thread::handle(py, py.detach(|| self.lock().thread()))
    }

    fn __repr__(&self) -> String {
        format!("UiStreamReader(count={})", self.lock().count())
    }
}

/// The native half of `turntree.thread_protocol.UiResponse`: converts events of a run to frames of a
/// response.
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
    #[pyo3(signature = (message_id = None, metadata = None, calls = Vec::new(), denied = Vec::new()))]
    fn new(
        message_id: Option<String>,
        metadata: Option<&Bound<'_, PyAny>>,
        calls: Vec<String>,
        denied: Vec<String>,
    ) -> PyResult<Self> {
        let metadata = metadata.map(|metadata| to_raw(metadata, "metadata")).transpose()?;
        let stream = EventStream::new(message_id, metadata).continuing(calls).denying(denied);
        Ok(Self(Mutex::new(stream)))
    }

    /// Return the frames that show a call which waits for an approval, under an id.
    ///
    /// `asks`: the client knows such requests.
    fn approval<'py>(
        &self,
        py: Python<'py>,
        call: &Bound<'py, ToolCall>,
        asks: bool,
        id: &str,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let call = value_of::<CoreCall>(call.as_super())?;
        Ok(self.frames(py, |stream| stream.approval(id, call, asks), false))
    }

    /// Return the frames that begin the stream.
    fn start<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        self.frames(py, EventStream::start, false)
    }

    /// Return the frames of events.
    fn events<'py>(&self, py: Python<'py>, events: &Bound<'py, PyList>) -> PyResult<Bound<'py, PyBytes>> {
        let mut upp_events: Vec<CoreEvent> = Vec::with_capacity(events.len());
        for event in events.iter() {
            if let Ok(event) = event.cast::<AgentStreamEvent>() {
                // Events of sub-agents are not part of the message.
                if let AgentEvent::Upp(event) = AgentStreamEvent::core(event)? {
                    upp_events.push(event.clone());
                }
            } else if let Ok(event) = event.cast::<StreamEvent>() {
                upp_events.push(value_of::<CoreEvent>(event.as_super())?.clone());
            } else {
                let found = event.get_type().name()?;
                return Err(PyTypeError::new_err(format!(
                    "a stream must give AgentStreamEvent or StreamEvent, not {found}"
                )));
            }
        }
        let all =
            |stream: &mut EventStream| upp_events.iter().flat_map(|event| stream.event(event)).collect();
        Ok(self.frames(py, all, false))
    }

    /// Return the frames that end a successful run.
    fn finish<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        self.frames(py, EventStream::finish, true)
    }

    /// Return the frames that end a failed run.
    fn error<'py>(&self, py: Python<'py>, text: &str) -> Bound<'py, PyBytes> {
        self.frames(py, |stream| stream.error(text), true)
    }

    /// Return the frames that end an aborted run.
    fn abort<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        self.frames(py, EventStream::abort, true)
    }
}
