//! `turntree.middleware.MiddlewareContext`: the context that hooks receive.
//!
//! Spec: UAP-1.0 §10.1.

use std::sync::{Arc, Mutex};

use crate::error::not_constructible;
use crate::prelude::*;
use pyo3::pyclass::{PyTraverseError, PyVisit};
use pyo3::types::PyDict;

use crate::agents::host::PyHost;
use crate::agents::inputs::input_from;
use crate::bridge::gc::{Collect, garbage_collected};
use crate::bridge::gil::lock;
use crate::thread::history_from;
use crate::to_python::ToPython;
use turntree_agents::middleware::MiddlewareContext as CoreContext;
use turntree_core::ids::RandomIds;
use turntree_core::message::Message;
use turntree_core::time::SystemClock;

/// One run of an agent. All middleware hooks of the run receive the same object.
///
/// Spec: UAP-1.0 §10.1.
#[pyclass(frozen, weakref, module = "turntree.middleware")]
pub(crate) struct MiddlewareContext {
    core: Arc<CoreContext>,
    agent: Py<PyAny>,
    session: Option<Py<PyAny>>,
    metadata: Py<PyDict>,
    overrides: Mutex<Overrides>,
}

/// The input and the history as hooks have read or set them.
#[derive(Default)]
struct Overrides {
    input: Option<Py<PyAny>>,
    history: Option<Py<PyAny>>,
}

impl Collect for Overrides {
    fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.input.traverse(visit)?;
        self.history.traverse(visit)
    }
}

impl MiddlewareContext {
    /// Creates the context of a run.
    pub(super) fn of(py: Python<'_>, host: &PyHost, core: &Arc<CoreContext>) -> PyResult<Py<PyAny>> {
        let session = match core.identity.session_id.as_deref() {
            None => None,
            Some(id) => {
                // The context variables of the run contain its sessions.
                let variables = host.call_site().caller(py)?.context_copy(py)?;
                let find = py.import("turntree._running_sessions")?.getattr("session_in_context")?;
                variables.call_method1("run", (find, id))?.extract()?
            }
        };
        let context = Self {
            core: Arc::clone(core),
            agent: host.agent(py)?,
            session,
            metadata: core.identity.tracking().to_python(py)?.cast_into::<PyDict>()?.unbind(),
            overrides: Mutex::default(),
        };
        Ok(Py::new(py, context)?.into_any())
    }

    /// Applies the changes of hooks to the run.
    pub(super) fn apply(&self, py: Python<'_>) -> PyResult<()> {
        let overrides = std::mem::take(&mut *lock(&self.overrides));
        if let Some(input) = overrides.input {
            self.core.set_input(message_of(input.bind(py))?);
        }
        if let Some(history) = overrides.history {
            let history = history_from(history.bind(py), "context.history")?;
            let before = self.core.history();
            let is_same = history.len() == before.len()
                && history.iter().zip(&before).all(|(new, old)| Arc::ptr_eq(new, old));
            if !is_same {
                self.core.set_history(history);
            }
        }
        Ok(())
    }

    /// Discards the values that hooks have read or set. Later changes of hooks have no effect.
    pub(super) fn forget(&self) {
        let overrides = std::mem::take(&mut *lock(&self.overrides));
        drop(overrides);
    }
}

fn message_of(input: &Bound<'_, PyAny>) -> PyResult<Arc<Message>> {
    Ok(input_from(input)?.into_message(&RandomIds, &SystemClock))
}

not_constructible!(MiddlewareContext, "the hooks of a middleware receive it");

#[pymethods]
impl MiddlewareContext {
    /// The agent that runs.
    #[getter]
    fn agent(&self, py: Python<'_>) -> Py<PyAny> {
        self.agent.clone_ref(py)
    }

    /// The input of the run, as a message. `before` may set it to any input that `Agent.run` accepts.
    #[getter]
    fn input<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        if let Some(input) = &lock(&self.overrides).input {
            return Ok(input.bind(py).clone());
        }
        self.core.input().to_python(py)
    }

    #[setter]
    fn set_input(&self, value: &Bound<'_, PyAny>) -> PyResult<()> {
        let message = Some(message_of(value)?).to_python(value.py())?.unbind();
        let before = lock(&self.overrides).input.replace(message);
        drop(before);
        Ok(())
    }

    /// The earlier messages, a list. `before` may change or replace it. Stored messages do not change.
    #[getter]
    fn history<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        if let Some(history) = &lock(&self.overrides).history {
            return Ok(history.bind(py).clone());
        }
        let history = self.core.history().to_python(py)?;
        lock(&self.overrides).history = Some(history.clone().unbind());
        Ok(history)
    }

    #[setter]
    fn set_history(&self, value: &Bound<'_, PyAny>) {
        let before = lock(&self.overrides).history.replace(value.clone().unbind());
        drop(before);
    }

    /// A dict for values of any type that the middleware of a run shares. It is not saved.
    ///
    /// It starts with the ids of the run: `agentId`, `turnId`, and for a sub-agent `parentAgentId` and `parentTurnId`.
    #[getter]
    fn metadata(&self, py: Python<'_>) -> Py<PyDict> {
        self.metadata.clone_ref(py)
    }

    /// The session of the run, or None.
    #[getter]
    fn session(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        self.session.as_ref().map(|session| session.clone_ref(py))
    }

    /// Return another context of the same run, for `before` to return, with another input or history.
    ///
    /// Raises:
    ///     TypeError: The input is not one that `Agent.run` accepts.
    #[pyo3(signature = (*, input = None, history = None))]
    fn replace(
        &self,
        py: Python<'_>,
        input: Option<&Bound<'_, PyAny>>,
        history: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let overrides = {
            let overrides = lock(&self.overrides);
            let copy = |slot: &Option<Py<PyAny>>| slot.as_ref().map(|value| value.clone_ref(py));
            Overrides { input: copy(&overrides.input), history: copy(&overrides.history) }
        };
        let other = Self {
            core: Arc::clone(&self.core),
            agent: self.agent.clone_ref(py),
            session: self.session(py),
            metadata: self.metadata.clone_ref(py),
            overrides: Mutex::new(overrides),
        };
        if let Some(input) = input {
            other.set_input(input)?;
        }
        if let Some(history) = history {
            other.set_history(history);
        }
        Ok(other)
    }

    fn __repr__(&self) -> String {
        let (id, messages) = (&self.core.agent.id, self.core.history().len());
        format!("MiddlewareContext(agent={id:?}, history={messages} messages)")
    }
}

garbage_collected!(MiddlewareContext: agent, session, metadata, overrides);
