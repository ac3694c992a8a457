//! Sessions that are stored together.

use std::sync::{Mutex, PoisonError};

use crate::prelude::*;
use pyo3::exceptions::PyValueError;
use pyo3::types::PyString;

use super::store::{StoreCore, answer};
use crate::convert::text::document_str;
use crate::error::OrRaise as _;
use turntree_agents::session::SessionSnapshot;
use turntree_core::limits::Limits;
use turntree_store::importer::Importer;

/// Sessions that are stored together, all or none.
#[pyclass(frozen, module = "turntree._core")]
pub(crate) struct ImportCore(Mutex<Option<Importer>>);

fn ended() -> PyErr {
    PyValueError::new_err("the import was stored already; begin another one")
}

#[pymethods]
impl StoreCore {
    /// Begin to store sessions together.
    fn importer(&self, py: Python<'_>) -> PyResult<ImportCore> {
        let importer = py.detach(|| self.store().importer()).or_raise(py)?;
        Ok(ImportCore(Mutex::new(Some(importer))))
    }
}

#[pymethods]
impl ImportCore {
    /// Add a session that is given as JSON.
    fn add(&self, data: &Bound<'_, PyString>) -> PyResult<()> {
        let (py, data) = (data.py(), document_str(data)?);
        let snapshot = SessionSnapshot::from_json(data, &Limits::default()).or_raise_in(py, data)?;
        let added = py.detach(|| {
            let mut importer = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            importer.as_mut().map(|importer| importer.add(snapshot))
        });
        added.ok_or_else(ended)?.or_raise(py)
    }

    /// Store the sessions, all or none; return the ids of those that the store had, and that were left out.
    fn commit(&self, py: Python<'_>, skips_existing: bool, blocking: bool) -> PyResult<Py<PyAny>> {
        let importer = py.detach(|| self.0.lock().unwrap_or_else(PoisonError::into_inner).take());
        let importer = importer.ok_or_else(ended)?;
        answer(py, "commit", blocking, async move {
            let skipped = importer.commit(skips_existing).await.or_raise_held()?;
            Ok(skipped.into_iter().map(|id| id.to_string()).collect::<Vec<_>>())
        })
    }
}
