//! Helpers that several test modules share.

pub(crate) mod agents;
pub(crate) mod dialect;
pub(crate) mod fixtures;
pub(crate) mod server;
