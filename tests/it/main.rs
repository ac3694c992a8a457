//! One integration binary; each module is named after the room it tests.

#![cfg(test)]

mod http;
mod message;
mod ndjson;
mod retry;
mod sse;
mod support;
