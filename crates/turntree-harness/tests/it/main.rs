//! Tests of the harness layer, through its public interface.

#![cfg(test)]

mod coordination;
mod corpus;
mod gate;
mod hooks;
mod support;
