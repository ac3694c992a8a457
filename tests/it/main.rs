//! One integration binary; each module is named after the room it tests.
#![cfg(test)]

mod message;
mod thread_protocol_corpus;
