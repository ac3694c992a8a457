//! Scripted models: a list of replies, or a Python function from request to reply.

use std::sync::Arc;

use crate::prelude::*;
use pyo3::exceptions::{PyBaseException, PyTypeError};
use pyo3::types::{PyDict, PyList, PyString, PyTuple};

use super::request::ModelRequest;
use super::retry::seconds;
use crate::bridge::callbacks::{Callbacks, PyCallback};
use crate::bridge::gc::garbage_collected;
use crate::bridge::gil;
use crate::convert::text::beginning;
use crate::data::extract;
use crate::error::wrong_type;
use crate::message::content_and_calls;
use crate::stream_events::StreamEvent;
use turntree_core::message::StreamEvent as CoreEvent;
use turntree_upp::UppError;
use turntree_upp::providers::scripted::{Reply, Scripted};

/// One reply of a script, with its timing.
#[pyclass(frozen, name = "Reply", module = "turntree.upp")]
pub(crate) struct PyReply {
    says: Py<PyAny>,
    delay: f64,
    pace: f64,
}

#[pymethods]
impl PyReply {
    #[new]
    #[pyo3(signature = (says, *, delay = 0.0, pace = 0.0))]
    fn new(says: Py<PyAny>, delay: f64, pace: f64) -> PyResult<Self> {
        seconds(delay, "delay")?;
        seconds(pace, "pace")?;
        Ok(Self { says, delay, pace })
    }

    /// Seconds before the reply begins.
    #[getter]
    const fn delay(&self) -> f64 {
        self.delay
    }

    /// Seconds before each further event of a stream.
    #[getter]
    const fn pace(&self) -> f64 {
        self.pace
    }

    /// The content of the reply, as passed to the constructor.
    #[getter]
    fn says(&self, py: Python<'_>) -> Py<PyAny> {
        self.says.clone_ref(py)
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let says = self.says.bind(py).repr()?.to_string_lossy().into_owned();
        Ok(format!("Reply({}, delay={}, pace={})", beginning(&says, 400), self.delay, self.pace))
    }
}

garbage_collected!(PyReply: says);

/// Reads a script from a list of replies or from a function. Also returns its functions, for the garbage collector.
///
/// # Errors
/// `TypeError` if `replies` is neither a list nor a function.
pub(crate) fn script_from(replies: &Bound<'_, PyAny>) -> PyResult<(Scripted, Callbacks)> {
    let mut callbacks = Callbacks::default();
    let script = if replies.is_callable() {
        function(replies, &mut callbacks)?
    } else if replies.is_instance_of::<PyString>() || replies.is_instance_of::<PyDict>() {
        return Err(PyTypeError::new_err("replies must be a list of replies or a function, not one reply"));
    } else {
        let replies = replies
            .try_iter()
            .map_err(|_| wrong_type(replies, "replies", "a list of replies or a function"))?
            .map(|reply| reply_from(&reply?))
            .collect::<PyResult<Vec<_>>>()?;
        Scripted::new(replies)
    };
    Ok((script, callbacks))
}

fn function(callable: &Bound<'_, PyAny>, held: &mut Callbacks) -> PyResult<Scripted> {
    let function = PyCallback::new(callable)?;
    held.functions.push(Arc::clone(&function));
    Ok(Scripted::function(Arc::new(move |request| {
        let request = ModelRequest(request.clone());
        let started =
            gil::require_held(|py| function.call(py, PyTuple::new(py, [Py::new(py, request)?])?.unbind()));
        Box::pin(async move {
            let given = match started {
                Ok(call) => call.await,
                Err(error) => Err(error),
            };
            // The model fails with the exception of the function, as with a reply that is an exception.
            let reply = gil::require_held(|py| match given {
                Ok(reply) => reply_from(reply.bind(py)),
                Err(error) => Ok(Reply::from(crate::upp::error::from_exception(py, error))),
            });
            reply.map_err(|error| {
                let message = error.to_string();
                let held = gil::if_held(|py| crate::upp::error::from_exception(py, error));
                held.unwrap_or_else(|| UppError::invalid_request("scripted", message))
            })
        })
    })))
}

/// Reads a reply: text, a block, a call, a list of them, an exception, a list of events, or a [`PyReply`] around one.
fn reply_from(value: &Bound<'_, PyAny>) -> PyResult<Reply> {
    if let Ok(timed) = value.cast::<PyReply>() {
        let timed = timed.get();
        let reply = reply_from(timed.says.bind(value.py()))?;
        return Ok(reply.after(seconds(timed.delay, "delay")?).paced(seconds(timed.pace, "pace")?));
    }
    if value.is_instance_of::<PyBaseException>() {
        return Ok(Reply::from(crate::upp::error::from_exception(
            value.py(),
            PyErr::from_value(value.clone()),
        )));
    }
    if let Ok(items) = value.cast::<PyList>() {
        return reply_of_items(items);
    }
    if let Ok(items) = value.cast::<PyTuple>() {
        return reply_of_items(&items.to_list());
    }
    reply_of_items(&PyList::new(value.py(), [value])?)
}

fn reply_of_items(items: &Bound<'_, PyList>) -> PyResult<Reply> {
    let is_event = |item: &Bound<'_, PyAny>| {
        item.is_instance_of::<StreamEvent>()
            || item.cast::<PyDict>().is_ok_and(|dict| dict.contains("delta").unwrap_or(false))
    };
    if items.iter().any(|item| is_event(&item)) {
        return reply_of_events(items);
    }
    let (content, tool_calls) = content_and_calls(items, "reply")?;
    Ok(Reply::message(content, tool_calls))
}

fn reply_of_events(items: &Bound<'_, PyList>) -> PyResult<Reply> {
    let mut events = Vec::new();
    for (place, item) in items.iter().enumerate() {
        if item.is_instance_of::<PyBaseException>() {
            let error = crate::upp::error::from_exception(item.py(), PyErr::from_value(item));
            return Ok(Reply::broken(events, error));
        }
        let event: Arc<CoreEvent> = extract::<StreamEvent>(&item, &format!("reply[{place}]"))?;
        events.push((*event).clone());
    }
    Ok(Reply::events(events))
}
