//! Middleware of agents.
//!
//! [`hooks`] adapts Python objects, [`context`] is what their hooks receive, [`builtin`] wraps the built-in middleware, and
//! [`callbacks`] calls the functions that these are configured with.
//!
//! Spec: UAP-1.0 §10.

pub(crate) mod builtin;
mod callbacks;
pub(crate) mod context;
pub(crate) mod hooks;
