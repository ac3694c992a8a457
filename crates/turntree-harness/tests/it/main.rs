//! Tests of the harness layer, through its public interface.

#![cfg(test)]

mod cedar;
mod coordination;
mod corpus;
mod failures;
mod gate;
mod hooks;
mod liveness;
mod overlaps;
mod policies;
mod support;
