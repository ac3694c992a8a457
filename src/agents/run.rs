//! Executes runs: as a coroutine, on a thread that waits, or as a stream.

use std::sync::{Arc, Mutex};

use pyo3::prelude::*;

use super::call_site::CallSite;
use super::functions::Functions;
use super::host::PyHost;
use super::host_conversions::turn_to_python;
use super::parent_run::run_context;
use super::run_metadata::RunMetadata;
use crate::bridge::coroutine::Coroutine;
use crate::bridge::gc::GcRoots;
use crate::bridge::{gil, sync};
use crate::error::{OrRaise as _, ToException};
use turntree_agents::host::RunContext;
use turntree_core::json::RawObject;
use turntree_core::message::Turn;

/// A run that is ready to start: the Python objects that it needs.
pub(super) struct PreparedRun {
    pub(super) roots: GcRoots,
    pub(super) functions: Arc<Mutex<Functions>>,
}

impl PreparedRun {
    /// Prepares a run that calls `functions`. It keeps `owners` alive; the first one is the agent or the model.
    pub(super) fn new(
        owners: impl IntoIterator<Item = Py<PyAny>>,
        functions: &Arc<Mutex<Functions>>,
    ) -> Self {
        Self { roots: GcRoots::new(owners), functions: Arc::clone(functions) }
    }

    /// Creates the context of the run, with the metadata that it starts with.
    ///
    /// # Errors
    /// Only if Python fails, for example out of memory.
    pub(super) fn context(
        &self,
        py: Python<'_>,
        site: &CallSite,
        metadata: Arc<RawObject>,
    ) -> PyResult<RunContext> {
        let shared = RunMetadata::new(py, &self.roots, Arc::clone(&metadata))?;
        let host = PyHost::new(&self.functions, site.clone(), shared);
        Ok(RunContext { metadata, ..run_context(py, Arc::new(host), !site.is_on_loop())? })
    }

    /// Returns a coroutine that runs and returns the turn.
    pub(super) fn coroutine<E: ToException + Send + 'static>(
        self,
        name: &'static str,
        turn: impl Future<Output = Result<Arc<Turn>, E>> + Send + 'static,
    ) -> Coroutine {
        let Self { roots, functions } = self;
        Coroutine::new(name, roots, async move { outcome_to_python(turn.await, &functions) })
    }

    /// Runs on this thread and returns the turn.
    ///
    /// # Errors
    /// The exception of the run.
    pub(super) fn block<E: ToException + Send>(
        self,
        py: Python<'_>,
        turn: impl Future<Output = Result<Arc<Turn>, E>> + Send,
    ) -> PyResult<Py<PyAny>> {
        sync::run_sync(py, async { outcome_to_python(turn.await, &self.functions) })
    }
}

/// Converts the outcome of a run.
pub(super) fn outcome_to_python<E: ToException>(
    outcome: Result<Arc<Turn>, E>,
    functions: &Mutex<Functions>,
) -> PyResult<Py<PyAny>> {
    gil::require_held(|py| turn_to_python(py, functions, outcome.or_raise(py)?))
}
