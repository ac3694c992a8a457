//! Operations on a whole store.

use std::path::PathBuf;
use std::sync::Arc;

use crate::prelude::*;
use pyo3::exceptions::PyValueError;

use super::store::{StoreCore, answer};
use crate::error::OrRaise as _;
use crate::time::from_python;
use turntree_store::engines::encrypted::EncryptedEngine;

#[pymethods]
impl StoreCore {
    /// The version of the layout in which data is stored, or None.
    #[getter]
    fn schema(&self) -> Option<u64> {
        self.store().engine().schema()
    }

    /// Find defects: a list of tuples of a session's id, or None, and a message.
    fn check(&self, py: Python<'_>, blocking: bool) -> PyResult<Py<PyAny>> {
        let store = self.store().clone();
        answer(py, "check", blocking, async move {
            let issues = store.check().await.or_raise_held()?;
            let tuple = |session: Option<Arc<str>>, message| (session.map(|id| id.to_string()), message);
            Ok(issues.into_iter().map(|issue| tuple(issue.session, issue.message)).collect::<Vec<_>>())
        })
    }

    /// Write all sessions to a file; return their number.
    fn export(&self, py: Python<'_>, path: PathBuf, blocking: bool) -> PyResult<Py<PyAny>> {
        let store = self.store().clone();
        answer(py, "export", blocking, async move { store.export(&path).await.or_raise_held() })
    }

    /// Store the sessions of an export; return their number.
    fn load_export(&self, py: Python<'_>, path: PathBuf, blocking: bool) -> PyResult<Py<PyAny>> {
        let store = self.store().clone();
        answer(py, "load_export", blocking, async move { store.load_export(&path).await.or_raise_held() })
    }

    /// Shorten or delete old sessions, remove old runs; return the numbers of each and of those spared.
    fn prune(
        &self,
        py: Python<'_>,
        before: &Bound<'_, PyAny>,
        keep_heads: bool,
        blocking: bool,
    ) -> PyResult<Py<PyAny>> {
        let before = from_python(before, "older_than")?;
        let store = self.store().clone();
        answer(py, "prune", blocking, async move {
            let pruned = store.prune(before, keep_heads).await.or_raise_held()?;
            Ok((pruned.shortened, pruned.deleted, pruned.spared, pruned.runs))
        })
    }

    /// Return a store that encrypts what this one stores.
    #[expect(clippy::needless_pass_by_value, reason = "arguments from Python are values")]
    fn encrypted(&self, py: Python<'_>, keys: Vec<(String, Vec<u8>)>) -> PyResult<Self> {
        let keys: Vec<(&str, &[u8])> = keys.iter().map(|(id, key)| (&**id, &**key)).collect();
        let engine = EncryptedEngine::new(Arc::clone(self.store().engine()), &keys).or_raise(py)?;
        Ok(Self::encrypting(Arc::new(engine)))
    }

    /// Encrypt all sessions with the first key; return how many were changed.
    fn rotate(&self, py: Python<'_>, blocking: bool) -> PyResult<Py<PyAny>> {
        let Some(engine) = self.encryption().cloned() else {
            let message =
                "the store is not encrypted; rotate is a method of the store that store.encrypted returns";
            return Err(PyValueError::new_err(message));
        };
        answer(py, "rotate", blocking, async move { engine.rotate().await.or_raise_held() })
    }
}
