//! The metadata dict that hooks and tools of a run share.

use std::sync::{Arc, Mutex};

use crate::prelude::*;
use pyo3::types::PyDict;

use crate::bridge::gc::GcRoots;
use crate::bridge::gil::lock;
use crate::convert::json::to_raw_object;
use crate::to_python::ToPython;
use turntree_core::json::RawObject;

/// The dict that hooks and tools of a run share. Its content is the run's metadata.
///
/// Spec: decision A79.
pub(crate) struct RunMetadata {
    roots: GcRoots,
    index: usize,
    /// The content when it was last read.
    last_read: Mutex<Arc<RawObject>>,
}

impl RunMetadata {
    /// Creates the dict with the run's initial metadata and stores it in `roots`.
    ///
    /// # Errors
    /// Only if Python fails, for example out of memory.
    pub(crate) fn new(py: Python<'_>, roots: &GcRoots, metadata: Arc<RawObject>) -> PyResult<Self> {
        let index = roots.add(metadata.to_python(py)?.unbind());
        Ok(Self { roots: roots.clone(), index, last_read: Mutex::new(metadata) })
    }

    /// Returns the objects that the run keeps alive.
    pub(super) const fn roots(&self) -> &GcRoots {
        &self.roots
    }

    pub(super) fn dict(&self, py: Python<'_>) -> PyResult<Py<PyDict>> {
        Ok(self.roots.get(py, self.index)?.cast_into::<PyDict>()?.unbind())
    }

    /// Returns the content if it has changed since it was last read.
    pub(super) fn changed(&self, py: Python<'_>) -> PyResult<Option<Arc<RawObject>>> {
        let dict = self.dict(py)?;
        if dict.bind(py).is_empty() && lock(&self.last_read).is_empty() {
            return Ok(None);
        }
        let metadata = to_raw_object(dict.bind(py).as_any(), "state.metadata").inspect_err(|error| {
            // A hook added a value that JSON cannot represent: report it on stderr and keep the last content.
            error.clone_ref(py).write_unraisable(py, None);
        })?;
        let mut last_read = lock(&self.last_read);
        if **last_read == metadata {
            return Ok(None);
        }
        *last_read = Arc::new(metadata);
        Ok(Some(Arc::clone(&last_read)))
    }
}
