//! One integration binary; each module is named after the room it tests.

#![cfg(test)]

mod agent_streams;
mod agents;
mod arch;
mod chat;
mod dialect_kit;
mod fold;
mod fuzz_replay;
mod http;
mod http_model;
mod json;
mod limits;
mod machine;
mod message;
mod ndjson;
mod ollama;
mod retry;
mod scripted;
mod sse;
mod support;
mod support_agents;
