//! Agents of this process at a router: `turntree.uamp.dial`.

use std::sync::{Arc, Mutex};

use crate::prelude::*;
use pyo3::exceptions::PyRuntimeError;
use pyo3::types::PyList;

use super::serve::{Served, Settings};
use crate::bridge::callbacks::Callbacks;
use crate::bridge::coroutine::Coroutine;
use crate::bridge::gc::{GcRoots, garbage_collected};
use crate::bridge::gil::{self, lock};
use crate::error::{OrRaise as _, value_error};
use crate::server::event_loop::ServerLoop;
use turntree_core::secret::Secret;
use turntree_uamp::daemon::{Daemon, DialOptions};

/// The native half of ``turntree.uamp.Daemon``.
#[pyclass(frozen, module = "turntree._core")]
pub(crate) struct UampDaemonCore {
    served: Served,
    options: DialOptions,
    state: Arc<Mutex<State>>,
    /// The Python objects that the agents call.
    callbacks: Callbacks,
}

/// Python must not be called while this is locked.
enum State {
    New,
    Starting,
    Running(Arc<Daemon>),
    Closed,
}

#[pymethods]
impl UampDaemonCore {
    #[new]
    fn new(
        agents: &Bound<'_, PyList>,
        store: &Bound<'_, PyAny>,
        settings: Settings,
        url: String,
        token: Option<String>,
    ) -> PyResult<Self> {
        let served = Served::new(agents, store, settings, None)?;
        // The errors of names are raised here, not when the daemon starts.
        served.registry(&ServerLoop::Running).map_err(value_error)?;
        let callbacks = served.callbacks();
        let options = DialOptions { token: token.map(Secret::new), ..DialOptions::new(url) };
        Ok(Self { served, options, state: Arc::new(Mutex::new(State::New)), callbacks })
    }

    /// Return a coroutine that connects to the router, and waits until all agents have sessions.
    fn start(&self, py: Python<'_>) -> PyResult<Coroutine> {
        let site = self.served.site(&ServerLoop::capture(py, false)?)?;
        if !matches!(*lock(&self.state), State::New) {
            return Err(PyRuntimeError::new_err("the daemon was started before; create a new one"));
        }
        *lock(&self.state) = State::Starting;
        let (state, options) = (Arc::clone(&self.state), self.options.clone());
        Ok(Coroutine::new("start", GcRoots::default(), async move {
            let dialed = Daemon::dial(site, options).await;
            let (next, outcome) = match dialed {
                Ok(daemon) => (State::Running(Arc::new(daemon)), Ok(())),
                Err(error) => (State::New, Err(error)),
            };
            let former = {
                let mut current = lock(&state);
                // A daemon that was closed meanwhile stays closed: dropping the new one ends it.
                if matches!(*current, State::Starting) {
                    std::mem::replace(&mut *current, next)
                } else {
                    next
                }
            };
            drop(former);
            outcome.or_raise_held()?;
            gil::require_held(|py| Ok(py.None()))
        }))
    }

    /// Return a coroutine that waits until the daemon ends.
    fn wait(&self) -> PyResult<Coroutine> {
        let daemon = match &*lock(&self.state) {
            State::Running(daemon) => Some(Arc::clone(daemon)),
            State::Closed => None,
            State::New | State::Starting => {
                let message = "the daemon does not run; use it in `async with`";
                return Err(PyRuntimeError::new_err(message));
            }
        };
        Ok(Coroutine::new("wait", GcRoots::default(), async move {
            if let Some(daemon) = daemon {
                daemon.ended().await.or_raise_held()?;
            }
            gil::require_held(|py| Ok(py.None()))
        }))
    }

    /// Return a coroutine that ends the sessions and the connection.
    fn close(&self) -> Coroutine {
        let state = std::mem::replace(&mut *lock(&self.state), State::Closed);
        Coroutine::new("close", GcRoots::default(), async move {
            if let State::Running(daemon) = state {
                daemon.close().await;
            }
            gil::require_held(|py| Ok(py.None()))
        })
    }
}

garbage_collected!(UampDaemonCore: callbacks);
