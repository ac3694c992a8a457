//! Middleware in Python: objects with hooks, what their hooks see, and the middlewares that come with turntree.
//! UPP-1.2 §17.
//!
//! [`chain`] makes a core chain of Python objects for each call, [`hooks`] calls their functions, [`context`] and
//! [`request`] are what these see. [`builtin`], [`persistence`] and [`pubsub`] wrap the core's own middlewares.

pub(crate) mod builtin;
pub(crate) mod chain;
pub(crate) mod cleanup;
pub(crate) mod context;
mod hooks;
pub(crate) mod persistence;
pub(crate) mod pubsub;
pub(crate) mod request;
pub(crate) mod state;
