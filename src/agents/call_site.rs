//! Where a run calls the application's functions: the event loop and the context variables.

use std::sync::Arc;

use pyo3::prelude::*;

use super::parent_run;
use crate::bridge::context::CallerContext;
use turntree_agents::types::ParentRun;

/// Where the functions of a run are called.
#[derive(Clone)]
pub(crate) enum CallSite {
    /// On the event loop that the run was started from, or on the thread that waits for it.
    Started(CallerContext),
    /// On the event loop that polls the run, with the context variables of the start. Used for streams, which can be
    /// created without an event loop.
    Polling(CallerContext),
}

impl CallSite {
    /// Returns the context that the run was started with.
    pub(super) const fn start(&self) -> &CallerContext {
        let (Self::Started(caller) | Self::Polling(caller)) = self;
        caller
    }

    pub(crate) fn caller(&self, py: Python<'_>) -> PyResult<CallerContext> {
        match self {
            Self::Started(caller) => Ok(caller.clone()),
            Self::Polling(caller) => caller.on_running_loop(py),
        }
    }

    /// Returns the call site of tools: runs that they start become sub-runs of `run`.
    pub(super) fn inside(&self, py: Python<'_>, run: &Arc<ParentRun>) -> PyResult<Self> {
        let inside = parent_run::entered(py, self.start(), run)?;
        Ok(self.clone().map(|_| inside))
    }

    /// Returns the same kind of call site with other context variables.
    pub(super) fn map(self, change: impl FnOnce(CallerContext) -> CallerContext) -> Self {
        match self {
            Self::Started(caller) => Self::Started(change(caller)),
            Self::Polling(caller) => Self::Polling(change(caller)),
        }
    }
}
