//! One integration binary; each module is named after the room it tests.

#![cfg(test)]

mod agent_streams;
mod agents;
mod anthropic;
mod arch;
mod chat;
mod corpus;
mod dialect_kit;
mod dialects;
mod fold;
mod fuzz_replay;
mod google;
mod http;
mod http_model;
mod json;
mod limits;
mod machine;
mod message;
mod ndjson;
mod ollama;
mod responses;
mod retry;
mod scripted;
mod session;
mod sse;
mod support;
mod support_agents;
mod thread_protocol;
mod thread_protocol_corpus;
mod thread_protocol_laws;
mod thread_protocol_pydantic_ai;
mod thread_protocol_view;
mod tree;
mod vendors;
