//! What the bindings import: PyO3's prelude, with attributes that check texts where they enter.

pub(crate) use pyo3::prelude::*;
// What the attributes below make of theirs.
pub(crate) use pyo3::{pyfunction as pyo3_pyfunction, pymethods as pyo3_pymethods};
// These take precedence over PyO3's.
pub(crate) use turntree_macros::{pyfunction, pymethods};
