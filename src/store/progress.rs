//! How far a long operation of a store is.

use std::sync::Arc;

use crate::prelude::*;

use super::store::StoreCore;
use turntree_agents::session::SessionStore;
use turntree_store::progress::Progress;

/// How far a long operation of a store is.
#[pyclass(frozen, module = "turntree._core")]
#[derive(Default)]
pub(crate) struct StoreProgress(Arc<Progress>);

impl StoreProgress {
    /// The counter that operations add to.
    pub(crate) const fn counter(&self) -> &Arc<Progress> {
        &self.0
    }
}

#[pymethods]
impl StoreProgress {
    #[new]
    fn new() -> Self {
        Self::default()
    }

    /// The number of parts that are done.
    #[getter]
    fn done(&self) -> u64 {
        self.0.done()
    }

    /// The number of all parts; 0 until it is known.
    #[getter]
    fn total(&self) -> u64 {
        self.0.total()
    }
}

impl StoreCore {
    /// The store as the port of sessions, which counts the entries that it reads.
    pub(crate) fn counting(&self, progress: &StoreProgress) -> Arc<dyn SessionStore> {
        Arc::new(self.store().with_progress(Arc::clone(progress.counter())))
    }
}

#[pymethods]
impl StoreCore {
    /// Return a handle of the same store whose exports and imports count how far they are.
    #[expect(clippy::needless_pass_by_value, reason = "arguments from Python are values")]
    fn with_progress(&self, progress: PyRef<'_, StoreProgress>) -> Self {
        self.handle(self.store().with_progress(Arc::clone(progress.counter())))
    }
}
