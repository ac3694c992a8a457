//! A native server and its life.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::prelude::*;
use pyo3::exceptions::PyRuntimeError;

use super::ApplicationFactory;
use super::access_log::PyAccessLog;
use super::authenticator::Auth;
use super::event_loop::ServerLoop;
use crate::bridge::callbacks::Callbacks;
use crate::bridge::coroutine::{Coroutine, into_any};
use crate::bridge::gc::{GcRoots, garbage_collected};
use crate::bridge::gil::lock;
use crate::bridge::sync;
use crate::error::{OrRaise as _, value_error};
use turntree_server::{Limits, Server, ServerConfig, Service};

/// The arguments of `serve` that are the same for all protocols.
pub(crate) struct ServeOptions {
    pub(crate) config: ServerConfig,
    pub(crate) limits: Limits,
    pub(crate) auth: Option<Auth>,
}

impl ServeOptions {
    /// Options for a host and port. `auth` is a function of a token or a native authenticator; `drain` is in seconds, `max_body` in bytes.
    ///
    /// # Errors
    /// `ValueError` for a number of seconds that is not a duration; the exceptions of inspecting `auth`.
    pub(crate) fn new(
        host: String,
        port: u16,
        auth: Option<&Bound<'_, PyAny>>,
        max_body: Option<usize>,
        drain: Option<f64>,
    ) -> PyResult<Self> {
        let mut config = ServerConfig { host, port, ..ServerConfig::default() };
        if let Some(drain) = drain {
            config.drain = Duration::try_from_secs_f64(drain)
                .map_err(|error| value_error(format!("drain={drain}: {error}; pass a number of seconds")))?;
        }
        let limits = Limits { body: max_body.unwrap_or(Limits::default().body), ..Limits::default() };
        Ok(Self { config, limits, auth: auth.map(Auth::new).transpose()? })
    }
}

/// The native half of ``turntree._server.Server``.
///
/// With ``blocking=False``, operations return a coroutine.
#[pyclass(frozen, module = "turntree._core")]
pub(crate) struct ServerCore {
    make: ApplicationFactory,
    options: ServeOptions,
    state: Arc<Mutex<State>>,
    /// The functions and objects that the server and its application call.
    callbacks: Callbacks,
}

/// Python must not be called while this is locked.
enum State {
    New,
    Starting,
    Running(Server),
    Stopped,
}

impl ServerCore {
    /// A server that is not started. `callbacks` are the Python objects of the application.
    pub(crate) fn new(make: ApplicationFactory, options: ServeOptions, mut callbacks: Callbacks) -> Self {
        callbacks.functions.extend(options.auth.as_ref().and_then(Auth::callback));
        Self { make, options, state: Arc::new(Mutex::new(State::New)), callbacks }
    }

    fn service(&self, py: Python<'_>, blocking: bool) -> PyResult<Service> {
        let server_loop = ServerLoop::capture(py, blocking)?;
        let mut service = Service::new((self.make)(&server_loop)?).with_limits(self.options.limits);
        if let Some(home) = server_loop.home() {
            service = service.with_access_log(PyAccessLog::new(py, Arc::clone(home))?);
        }
        if let Some(auth) = &self.options.auth {
            service = service.with_authenticator(auth.authenticator(&server_loop));
        }
        Ok(service)
    }
}

#[pymethods]
impl ServerCore {
    /// The address, ``http://host:port``. Raises RuntimeError unless the server runs.
    #[getter]
    fn url(&self) -> PyResult<String> {
        match &*lock(&self.state) {
            State::Running(server) => Ok(server.url()),
            _ => Err(PyRuntimeError::new_err(
                "the server does not run; use it in `async with` or `with` before you read its url",
            )),
        }
    }

    /// Listens and starts to answer requests.
    fn start(&self, py: Python<'_>, blocking: bool) -> PyResult<Py<PyAny>> {
        let service = self.service(py, blocking)?;
        if !matches!(*lock(&self.state), State::New) {
            return Err(PyRuntimeError::new_err("the server was started before; create a new one"));
        }
        *lock(&self.state) = State::Starting;
        let (state, config) = (Arc::clone(&self.state), self.options.config.clone());
        let start = async move {
            let started = Server::start(service, config).await;
            let (next, outcome) = match started {
                Ok(server) => (State::Running(server), Ok(())),
                Err(error) => (State::New, Err(error)),
            };
            *lock(&state) = next;
            outcome.or_raise_held()
        };
        answer(py, "Server.start", blocking, start)
    }

    /// Stops listening, waits for open requests up to the drain limit, and closes what is left.
    fn stop(&self, py: Python<'_>, blocking: bool) -> PyResult<Py<PyAny>> {
        let state = std::mem::replace(&mut *lock(&self.state), State::Stopped);
        let stop = async move {
            if let State::Running(server) = state {
                server.shutdown().await;
            }
            Ok(())
        };
        answer(py, "Server.stop", blocking, stop)
    }
}

garbage_collected!(ServerCore: callbacks);

/// Runs an operation on this thread, or returns a coroutine that runs it.
fn answer(
    py: Python<'_>,
    name: &'static str,
    blocking: bool,
    operation: impl Future<Output = PyResult<()>> + Send + 'static,
) -> PyResult<Py<PyAny>> {
    if blocking {
        sync::run_sync(py, operation)?;
        return Ok(py.None());
    }
    into_any(py, Coroutine::new(name, GcRoots::default(), operation))
}
