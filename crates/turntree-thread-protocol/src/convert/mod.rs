//! Conversions between threads and other formats. Python objects are converted by the bindings, not here.

mod agent_view;
pub mod portable;
pub mod pydantic_ai;
mod surrogates;
pub mod upp;
pub mod vercel_ui;

pub use agent_view::{Others, OthersRole, ToolVisibility, ViewOptions};
