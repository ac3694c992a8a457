//! Python objects to Rust types and back. Everything that crosses is written here once.

pub(super) mod any;
pub(super) mod arguments;
pub(super) mod budget;
pub(super) mod error;
pub(super) mod json;
pub(super) mod pydantic_ai;
pub(super) mod text;
