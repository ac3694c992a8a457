//! Model middleware in Python: objects with hooks, the context of hooks, and the built-in middlewares.
//!
//! [`chain`] makes a core chain of Python objects for each call, [`hooks`] calls their functions, [`context`] and
//! [`request`] are what these receive. [`builtin`], [`persistence`] and [`pubsub`] wrap the built-in middlewares.
//!
//! Spec: UPP-1.2 §17.

pub(crate) mod builtin;
pub(crate) mod chain;
pub(crate) mod cleanup;
pub(crate) mod context;
mod hooks;
pub(crate) mod persistence;
pub(crate) mod pubsub;
pub(crate) mod request;
pub(crate) mod state;
