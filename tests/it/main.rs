//! One integration binary; each module is named after the room it tests.

#![cfg(test)]

mod agent_streams;
mod agents;
mod anthropic;
mod arch;
mod chat;
mod corpus;
mod costs;
mod dialect_kit;
mod dialects;
mod embeddings;
mod fold;
mod fuzz_replay;
mod google;
mod http;
mod http_model;
mod images;
mod json;
mod limits;
mod llm;
mod llm_middleware;
mod machine;
#[cfg(target_os = "linux")]
mod many_streams;
mod media_files;
mod message;
mod middleware;
mod native;
mod ndjson;
mod ollama;
mod own_strategies;
mod partial_json;
mod plan;
mod producer;
mod react;
mod registry;
mod responses;
mod result_middleware;
mod retry;
mod rounds;
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
