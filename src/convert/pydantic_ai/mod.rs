//! Converts Pydantic AI's Python objects to the Rust model, attribute by attribute, and back.
//!
//! ```text
//! list[ModelMessage] ── walk ──► Walk ── messages() ──► History     shapes    which classes are known, and their members
//! list[ModelMessage] ◄─ build ──────────────────────── History     payload   plain Python values as JSON text, and back
//! ```
//!
//! There are no intermediate dicts. A message with an unknown class (a subclass, a part of a later version, a value of
//! an unusual type) is converted through Pydantic's own JSON. Each class is verified at its first use: it is trusted only
//! if the result equals that of `dump_json` or `validate_json`. Other versions of pydantic-ai can therefore make the
//! conversion slower, but not incorrect.

mod build;
mod payload;
mod shapes;
mod walk;

pub(crate) use build::build;
pub(crate) use walk::walk;

/// A value that only Pydantic itself can convert.
#[derive(Debug)]
struct Unknown;

/// On any error, the conversion falls back to Pydantic, which reports it more precisely.
impl From<pyo3::PyErr> for Unknown {
    fn from(_: pyo3::PyErr) -> Self {
        Self
    }
}
