//! Executes runs: as a coroutine, on a thread that waits, or as a stream.

use std::sync::{Arc, Mutex};

use crate::prelude::*;

use super::approvers::Approvers;
use super::call_site::CallSite;
use super::functions::Functions;
use super::host::PyHost;
use super::host_conversions::turn_to_python;
use super::parent_run;
use super::run_metadata::RunMetadata;
use super::tool_exceptions::ToolExceptions;
use crate::bridge::cleanup::{CleanupScope, Waits};
use crate::bridge::coroutine::Coroutine;
use crate::bridge::gc::GcRoots;
use crate::bridge::gil::lock;
use crate::bridge::{gil, sync};
use crate::error::{OrRaise as _, ToException};
use turntree_agents::host::RunContext;
use turntree_core::ids::DerivedIds;
use turntree_core::json::RawObject;
use turntree_core::message::Turn;

/// A run that is ready to start: the Python objects that it needs.
pub(super) struct PreparedRun {
    pub(super) roots: GcRoots,
    pub(super) functions: Arc<Mutex<Functions>>,
    pub(super) exceptions: ToolExceptions,
    /// The cancelled calls of the run.
    pub(super) cleanup: CleanupScope,
    /// The cancelled calls of all runs of the session.
    session_calls: Option<CleanupScope>,
    /// The dependencies of the run.
    deps: Option<Py<PyAny>>,
    /// The function that decides about calls, of the run or its session.
    on_approval: Option<Py<PyAny>>,
    /// The name that the ids of the run are computed from; `None`: random ids.
    seed: Option<String>,
}

impl PreparedRun {
    /// Prepares a run that calls `functions`. It keeps `owners` alive; the first one is the agent or the model.
    pub(super) fn new(
        owners: impl IntoIterator<Item = Py<PyAny>>,
        functions: &Arc<Mutex<Functions>>,
    ) -> Self {
        let cleanup = CleanupScope::new(lock(functions).cleanup_timeout());
        let roots = GcRoots::new(owners);
        let exceptions = ToolExceptions::new(&roots);
        Self {
            roots,
            functions: Arc::clone(functions),
            exceptions,
            cleanup,
            session_calls: None,
            deps: None,
            on_approval: None,
            seed: None,
        }
    }

    /// The same run as a part of a session, which counts the cancelled calls of its runs in `session_calls`.
    pub(super) fn in_session(self, session_calls: &CleanupScope) -> Self {
        let cleanup = session_calls.nested(lock(&self.functions).cleanup_timeout());
        Self { cleanup, session_calls: Some(session_calls.clone()), ..self }
    }

    /// The same run with the dependencies of its functions.
    pub(super) fn with_deps(self, deps: Option<Py<PyAny>>) -> Self {
        Self { deps, ..self }
    }

    /// The same run with the function that decides about calls whose approval says "ask".
    pub(super) fn with_on_approval(self, on_approval: Option<Py<PyAny>>) -> Self {
        Self { on_approval, ..self }
    }

    /// The same run with ids that are computed from this name, if there is one.
    pub(super) fn seeded(self, seed: Option<String>) -> Self {
        Self { seed, ..self }
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
        let parent = parent_run::current(py)?;
        let lent = parent.as_ref().map(|parent| &parent.lent);
        let of_parent = lent.and_then(|lent| lent.deps.as_ref());
        let deps = self.deps.as_ref().or(of_parent).map(|deps| self.roots.add(deps.clone_ref(py)));
        let approver = self.on_approval.as_ref().map(|function| self.roots.add(function.clone_ref(py)));
        let host = self.host(py, site, &metadata)?.with_deps(deps);
        let of_callers = lent.and_then(|lent| lent.approvers.as_ref()).into_iter();
        let of_callers = of_callers.flat_map(|functions| functions.bind(py).iter());
        let of_callers = of_callers.map(|function| self.roots.add(function.unbind()));
        let host = host.with_approvers(Approvers::new(approver, of_callers));
        let context = parent_run::run_context(Arc::new(host), parent, !site.is_on_loop());
        Ok(RunContext { metadata, ..context })
    }

    /// As [`Self::context`], for a run that no other run contains, whatever runs here.
    ///
    /// # Errors
    /// As [`Self::context`].
    pub(super) fn detached_context(
        &self,
        py: Python<'_>,
        site: &CallSite,
        metadata: Arc<RawObject>,
    ) -> PyResult<RunContext> {
        let host = self.host(py, site, &metadata)?;
        Ok(RunContext { metadata, ..RunContext::new(Arc::new(host)) })
    }

    fn host(&self, py: Python<'_>, site: &CallSite, metadata: &Arc<RawObject>) -> PyResult<PyHost> {
        let shared = RunMetadata::new(py, &self.roots, Arc::clone(metadata))?;
        let host = PyHost::new(&self.functions, site.clone(), shared, self.exceptions.clone());
        Ok(host.after(self.session_calls.clone()).with_ids(self.seed.as_deref().map(DerivedIds::new)))
    }

    /// Returns a coroutine that runs and returns the turn, after cancelled calls have ended.
    pub(super) fn coroutine<E: ToException + Send + 'static>(
        self,
        name: &'static str,
        turn: impl Future<Output = Result<Arc<Turn>, E>> + Send + 'static,
    ) -> Coroutine {
        let Self { roots, functions, exceptions, cleanup, .. } = self;
        let scope = cleanup.clone();
        // Boxed: each layer around the run stores it again, and all of it is copied when it moves.
        let turn = Box::pin(turn);
        let turn = async move { outcome_to_python(scope.run(turn).await, &functions, &exceptions) };
        Coroutine::new(name, roots, turn).with_cleanup(cleanup)
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
        let Self { functions, exceptions, cleanup, .. } = &self;
        let ended = async { outcome_to_python(cleanup.run(turn).await, functions, exceptions) };
        let outcome = sync::run_sync(py, ended);
        if cleanup.is_settled() {
            return outcome;
        }
        // A signal handler has raised an exception, which dropped the run. A second one ends this wait. Functions in
        // threads cannot be interrupted, and the user waits.
        let settled = cleanup.settled(Waits::Tasks);
        let waited = sync::run_sync(py, async move {
            settled.await;
            Ok(())
        });
        outcome.and_then(|turn| waited.map(|()| turn))
    }
}

/// Converts the outcome of a run.
pub(super) fn outcome_to_python<E: ToException>(
    outcome: Result<Arc<Turn>, E>,
    functions: &Mutex<Functions>,
    exceptions: &ToolExceptions,
) -> PyResult<Py<PyAny>> {
    gil::require_held(|py| turn_to_python(py, functions, exceptions, outcome.or_raise(py)?))
}
