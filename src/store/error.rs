//! Errors of stores as exceptions.

use crate::prelude::*;
use pyo3::exceptions::PyValueError;

use crate::error::{ToException, named};
use turntree_store::StoreError;

/// `ConflictError`, `CorruptDataError`, `StoreError`, or `ValueError` for an argument.
impl ToException for StoreError {
    fn to_exception(&self, py: Python<'_>) -> PyErr {
        let text = self.to_string();
        match self {
            Self::Invalid(_) => PyValueError::new_err(text),
            Self::Conflict { session, .. } | Self::Fenced { session } => {
                named(py, "ConflictError", &format!("session \"{session}\": {text}"))
            }
            Self::Exists { .. } => named(py, "ConflictError", &text),
            Self::ExportLine { .. }
            | Self::Incomplete { .. }
            | Self::Corrupt { .. }
            | Self::NewerSchema { .. } => named(py, "CorruptDataError", &text),
            _ => named(py, "StoreError", &text),
        }
    }
}
