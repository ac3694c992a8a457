//! The Python face: the only room that names pyo3.
use pyo3::prelude::*;

mod bridge;

#[pymodule]
mod _core {}
