//! From and to other worlds. Rust types only: walking Python objects is the bindings' business.

pub mod pydantic_ai;
pub mod upp;
pub mod vercel_ui;
