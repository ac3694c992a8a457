//! Where a run calls the application's functions: the event loop and the context variables.

use std::sync::{Arc, Mutex};

use crate::prelude::*;

use super::parent_run::{self, Lent};
use crate::bridge::context::CallerContext;
use crate::bridge::gil::lock;
use turntree_agents::host::StrategyRunsHandle;
use turntree_agents::types::ParentRun;

/// How a run is polled.
#[derive(Debug, Clone, Copy)]
pub(crate) enum RunMode {
    /// By a coroutine on the event loop that the run was started from.
    Awaited,
    /// By a thread that waits for the turn.
    Blocking,
    /// By a stream. A stream can be created without an event loop; with `on_loop`, the event loop that polls it calls the
    /// functions.
    Streamed { on_loop: bool },
}

/// Where the functions of a run are called.
#[derive(Clone)]
pub(crate) struct CallSite {
    mode: RunMode,
    start: CallerContext,
}

impl CallSite {
    /// Returns the call site of a run that is started here.
    ///
    /// # Errors
    /// `RuntimeError` if the run is awaited and no event loop is running.
    pub(super) fn new(py: Python<'_>, mode: RunMode) -> PyResult<Self> {
        let start = match mode {
            RunMode::Awaited => CallerContext::capture(py)?,
            RunMode::Blocking | RunMode::Streamed { .. } => CallerContext::without_loop(py)?,
        };
        Ok(Self { mode, start })
    }

    /// Returns the call site of a run that the event loop of `start` polls.
    pub(super) const fn on_loop(start: CallerContext) -> Self {
        Self { mode: RunMode::Awaited, start }
    }

    /// Returns true if an event loop polls the run.
    pub(super) const fn is_on_loop(&self) -> bool {
        matches!(self.mode, RunMode::Awaited | RunMode::Streamed { on_loop: true })
    }

    /// Returns the context that the run was started with.
    pub(super) const fn start(&self) -> &CallerContext {
        &self.start
    }

    pub(crate) fn caller(&self, py: Python<'_>) -> PyResult<CallerContext> {
        match self.mode {
            RunMode::Streamed { on_loop: true } => self.start.on_running_loop(py),
            _ => Ok(self.start.clone()),
        }
    }

    /// Returns the call site of tools: runs that they start become sub-runs of `run`, with what it
    /// lends.
    pub(super) fn inside(&self, py: Python<'_>, run: &Arc<ParentRun>, lent: Lent) -> PyResult<Self> {
        parent_run::entered(py, &self.start, run, lent, None).map(|start| self.with_start(start))
    }

    /// Returns the call site of a strategy: as [`Self::inside`], and a session stores the runs that it starts.
    pub(super) fn inside_strategy(
        &self,
        py: Python<'_>,
        run: &Arc<ParentRun>,
        lent: Lent,
        runs: Option<StrategyRunsHandle>,
    ) -> PyResult<Self> {
        parent_run::entered(py, &self.start, run, lent, runs).map(|start| self.with_start(start))
    }

    /// Returns a call site with other context variables.
    pub(super) const fn with_start(&self, start: CallerContext) -> Self {
        Self { mode: self.mode, start }
    }
}

/// The call site of the tools of a run. The parts of a run that a custom strategy executes are runs of their own, so the
/// last one is cached.
#[derive(Default)]
pub(super) struct SiteInside(Mutex<Option<(Arc<ParentRun>, CallSite)>>);

impl SiteInside {
    /// Returns the call site of the tools of `run`, which is called from `site`.
    pub(super) fn get(
        &self,
        py: Python<'_>,
        site: &CallSite,
        run: &Arc<ParentRun>,
        lent: impl FnOnce() -> PyResult<Lent>,
    ) -> PyResult<CallSite> {
        let cached =
            lock(&self.0).as_ref().filter(|(of, _)| Arc::ptr_eq(of, run)).map(|(_, site)| site.clone());
        if let Some(site) = cached {
            return Ok(site);
        }
        let inside = site.inside(py, run, lent()?)?;
        let replaced = lock(&self.0).replace((Arc::clone(run), inside.clone()));
        drop(replaced);
        Ok(inside)
    }
}
