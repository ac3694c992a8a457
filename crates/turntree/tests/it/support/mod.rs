//! What several rooms' tests need.

pub(crate) mod server;
