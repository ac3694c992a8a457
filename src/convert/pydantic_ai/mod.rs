//! Pydantic AI's live messages: walked attribute by attribute into the Rust model, and built from it.
//!
//! ```text
//! list[ModelMessage] ── walk ──► Walk ── messages() ──► History     shapes    which classes are known, and their members
//! list[ModelMessage] ◄─ build ──────────────────────── History     payload   plain Python values as JSON text, and back
//! ```
//!
//! No dictionary stands between. What is not known by its exact class (subclasses, parts of later versions, values of
//! unusual types) takes the road through Pydantic's own JSON, message by message. The same road checks each class the
//! first time it is met: only a class whose walk gave the bytes of `dump_json`, or whose object equals that of
//! `validate_json`, is trusted from then on. So another version of pydantic-ai can make this slower, never wrong.

mod build;
mod payload;
mod shapes;
mod walk;

pub(crate) use build::build;
pub(crate) use walk::walk;

/// Something that only Pydantic itself can convert.
#[derive(Debug)]
struct Unknown;

/// Whatever went wrong, Pydantic's own road finds out and says it better.
impl From<pyo3::PyErr> for Unknown {
    fn from(_: pyo3::PyErr) -> Self {
        Self
    }
}
