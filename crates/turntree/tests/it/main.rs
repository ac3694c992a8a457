//! One integration test binary. Each folder tests the crate of its name; the other modules test several crates.

#![cfg(test)]

mod agents;
mod arch;
mod core;
mod fuzz_replay;
mod limits;
mod session;
mod support;
mod thread_protocol;
mod tree;
mod upp;
