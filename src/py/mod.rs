//! The Python face: the only room that names pyo3.
use pyo3::prelude::*;

mod bridge;

#[pymodule]
mod _core {
    use pyo3::prelude::*;

    #[cfg(feature = "bridge-selftest")]
    #[pymodule_export]
    use super::bridge::selftest::_bridge_selftest;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        super::bridge::install(module.py())
    }
}
