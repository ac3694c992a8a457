//! Middleware of agents in Python: objects with hooks, what their hooks see, and the middlewares that come with turntree.
//! UAP-1.0 §10.
//!
//! [`hooks`] makes a core middleware of a Python object, [`context`] is what its functions see, [`builtin`] wraps the core's
//! own middlewares, whose functions of the application are [`functions`]. [`errors`] are what these raise.

pub(crate) mod builtin;
mod callbacks;
pub(crate) mod context;
pub(crate) mod hooks;
