//! The tests of the crate: definitions, the engine and its laws, and the decisions on the specification over HTTP.

#![cfg(test)]

mod approvals;
mod client;
mod conformance;
mod definition;
mod engine;
mod laws;
mod stores;
mod support;
