//! Recordings of HTTP exchanges as Python objects, and the context variable that holds the active recording.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use crate::prelude::*;
use pyo3::exceptions::{PyFileNotFoundError, PyOSError, PyValueError};
use pyo3::intern;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyTuple};

use super::request_guard;
use crate::bridge::callbacks::{Callbacks, PyCallback};
use crate::bridge::gc::garbage_collected;
use crate::bridge::gil::{self, lock};
use crate::convert::any::tree_to_python;
use crate::convert::json::to_raw;
use crate::error::{function as function_argument, not_constructible};
use crate::python_exception::Raised;
use turntree_core::http::cassette::{
    Cassette, CassetteError, CassetteMode, CassetteOptions, RedactionHook, UnusedExchange,
};
use turntree_core::http::{HostFailure, Transport, TransportLayer};
use turntree_core::json::describe_part;

/// Whether a recording has been entered in this process. Requests look for an active recording only after that.
static IS_ENTERED: AtomicBool = AtomicBool::new(false);

/// A recording of HTTP exchanges, returned by `replay`. Use it as ``transport`` or with ``with``.
///
/// ``with replay(path):`` applies to all requests inside the block and in tasks that are started there. A
/// ``transport`` in a configuration has precedence. Entering rewinds to the first exchange; leaving saves the
/// new exchanges.
#[pyclass(frozen, module = "turntree.upp")]
pub(crate) struct Replay {
    core: Cassette,
    held: Callbacks,
    /// One token for each open `with` block.
    tokens: Mutex<Vec<Py<PyAny>>>,
}

/// Record HTTP exchanges in a file, or replay them without network access.
///
/// The recording replaces the HTTP connection only: retries, limits, event streams and errors work as usual.
/// Replaying needs no key. A request gets the response of the first unused exchange with the same method, URL
/// and body; JSON bodies are compared as values. Credentials are never recorded.
#[pyfunction]
#[pyo3(signature = (path, mode = "replay", *, ignore = Vec::new(), redact = None, repeat = false))]
pub(crate) fn replay(
    py: Python<'_>,
    path: PathBuf,
    mode: &str,
    ignore: Vec<String>,
    redact: Option<&Bound<'_, PyAny>>,
    repeat: bool,
) -> PyResult<Replay> {
    let mode = match mode {
        "replay" => CassetteMode::Replay,
        "auto" => CassetteMode::Auto,
        "once" if path.exists() => CassetteMode::Replay,
        "record" | "once" => CassetteMode::Record,
        other => {
            let message =
                format!("mode must be \"replay\", \"record\", \"auto\" or \"once\", not \"{other}\"");
            return Err(PyValueError::new_err(message));
        }
    };
    let function = redact.map(|redact| PyCallback::new(function_argument(redact, "redact")?)).transpose()?;
    let redact = function.clone().map(hook);
    let options = CassetteOptions { mode, ignore, repeat, redact };
    let opened = py.detach(|| Cassette::open(path, options));
    let held = Callbacks { functions: function.into_iter().collect(), ..Callbacks::default() };
    Ok(Replay { core: opened.map_err(|error| raised(py, &error))?, held, tokens: Mutex::default() })
}

/// The redaction hook of the application. Called while a request is polled, and when the file is saved.
fn hook(function: Arc<PyCallback>) -> RedactionHook {
    Arc::new(move |exchange| {
        let change = |py: Python<'_>| -> PyResult<serde_json::Value> {
            let exchange = tree_to_python(py, &exchange)?;
            let changed = function.bound(py)?.call1((exchange,))?;
            let raw = to_raw(&changed, "the redaction hook's exchange")?;
            serde_json::from_str(raw.get()).map_err(|error| PyValueError::new_err(describe_part(&error)))
        };
        let call = |py: Python<'_>| change(py).map_err(|error| HostFailure::new(Raised::new(py, error)));
        let exiting = || HostFailure::new(std::io::Error::other("the interpreter is exiting"));
        gil::if_held(call).or_else(|| gil::attach(call)).unwrap_or_else(|| Err(exiting()))
    })
}

fn raised(py: Python<'_>, error: &CassetteError) -> PyErr {
    if let CassetteError::Hook { failure, .. } = error
        && let Some(raised) = failure.downcast_ref::<Raised>()
    {
        return raised.error(py);
    }
    let message = error.to_string();
    match error {
        CassetteError::Missing { .. } => PyFileNotFoundError::new_err(message),
        CassetteError::File { .. } => PyOSError::new_err(message),
        _ => PyValueError::new_err(message),
    }
}

/// The context variable that holds the active recording.
fn variable(py: Python<'_>) -> PyResult<&Bound<'_, PyAny>> {
    static VARIABLE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let variable = VARIABLE.get_or_try_init(py, || {
        let options = PyDict::new(py);
        options.set_item("default", py.None())?;
        let class = py.import("contextvars")?.getattr("ContextVar")?;
        Ok::<_, PyErr>(class.call(("turntree.replay",), Some(&options))?.unbind())
    })?;
    Ok(variable.bind(py))
}

impl Replay {
    /// The recording itself.
    pub(crate) fn core(&self) -> &Cassette {
        &self.core
    }
}

not_constructible!(Replay, "write upp.replay(path)");

#[pymethods]
impl Replay {
    /// The file.
    #[getter]
    fn path(&self) -> PathBuf {
        self.core.path().to_owned()
    }

    /// The mode. ``once`` becomes ``record`` or ``replay``.
    #[getter]
    fn mode(&self) -> &'static str {
        match self.core.mode() {
            CassetteMode::Replay => "replay",
            CassetteMode::Record => "record",
            CassetteMode::Auto => "auto",
        }
    }

    /// Number of exchanges in the recording.
    #[getter]
    fn recorded(&self) -> usize {
        self.core.len()
    }

    /// Number of exchanges that were replayed since the recording was created, entered or rewound.
    #[getter]
    fn played(&self) -> usize {
        self.core.played()
    }

    /// The unused exchanges in order, as dicts: ``index`` in the file from 0, ``method`` and ``url``.
    #[getter]
    fn unused<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let dict = |unused: UnusedExchange| {
            let dict = PyDict::new(py);
            dict.set_item("index", unused.index)?;
            dict.set_item("method", unused.method)?;
            dict.set_item("url", unused.url)?;
            Ok(dict)
        };
        self.core.unused().into_iter().map(dict).collect()
    }

    /// Start again from the first exchange.
    fn rewind(&self) {
        self.core.rewind();
    }

    /// Write the recording to the file. Waits up to 2 seconds for responses that are still being read.
    fn save(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.core.save()).map_err(|error| raised(py, &error))
    }

    fn __enter__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, Self>> {
        let this = slf.get();
        IS_ENTERED.store(true, Ordering::Relaxed);
        this.core.rewind();
        let token = variable(slf.py())?.call_method1(intern!(slf.py(), "set"), (slf,))?;
        lock(&this.tokens).push(token.unbind());
        Ok(slf.clone())
    }

    #[pyo3(signature = (*exception))]
    fn __exit__(&self, py: Python<'_>, exception: &Bound<'_, PyTuple>) -> PyResult<()> {
        let _ = exception;
        let token = lock(&self.tokens).pop();
        if let Some(token) = token {
            let reset = variable(py)?.call_method1(intern!(py, "reset"), (token,));
            // The teardown of a test fixture may run in another context than its setup; that context needs no reset.
            reset.map(drop).or_else(|error| {
                if error.is_instance_of::<PyValueError>(py) { Ok(()) } else { Err(error) }
            })?;
        }
        self.save(py)
    }

    fn __repr__(&self) -> String {
        let (path, mode) = (self.core.path().display(), self.mode());
        format!("Replay(\"{path}\", mode=\"{mode}\", recorded={}, played={})", self.recorded(), self.played())
    }
}

garbage_collected!(Replay: tokens, held);

/// The active recording of the current context, if there is one. Entered recordings can be read only where a request is
/// polled.
fn active_recording() -> Option<Cassette> {
    if !IS_ENTERED.load(Ordering::Relaxed) {
        return None;
    }
    let entered = gil::if_held(|py| {
        let entered = variable(py).ok()?.call_method0(intern!(py, "get")).ok()?;
        Some(entered.cast::<Replay>().ok()?.get().core.clone())
    });
    entered.flatten()
}

/// Applies the active recording, or else the guard of tests, to the requests of a model that has no other transport.
#[derive(Debug)]
pub(crate) struct ActiveRecording;

impl TransportLayer for ActiveRecording {
    fn layer(&self, inner: Arc<dyn Transport>) -> Arc<dyn Transport> {
        match active_recording() {
            Some(recording) => recording.layer(inner),
            None => request_guard::guarded(inner),
        }
    }

    fn is_active(&self) -> bool {
        request_guard::is_guarded() || active_recording().is_some()
    }
}
