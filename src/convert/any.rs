//! Rust trees as Python values. The only file that names pythonize: it decides which pyo3 we are on.
//!
//! Only for values without raw JSON in them (a schema is one); those go through [`super::json`].

use crate::prelude::*;

use crate::error::value_error;

/// The Python value of a tree.
pub(crate) fn tree_to_python(py: Python<'_>, tree: &serde_json::Value) -> PyResult<Py<PyAny>> {
    pythonize::pythonize(py, tree).map(Bound::unbind).map_err(value_error)
}
