//! One integration binary; each module is named after the room it tests.
#![cfg(test)]

mod message;
mod thread_protocol;
mod thread_protocol_corpus;
mod thread_protocol_laws;
mod thread_protocol_pydantic_ai;
mod thread_protocol_view;
