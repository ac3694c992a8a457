//! From and to other worlds. Rust types only: walking Python objects is the bindings' business.

pub mod pydantic_ai;
pub mod upp;
pub mod vercel_ui;
mod view;

pub use view::{Others, OthersRole, ToolVisibility, ViewOptions};
