//! The tests of the crate: events and types, their JSON Schemas, and sessions.

#![cfg(test)]

mod a2a;
mod acp;
mod acp_http;
mod ag_ui;
mod agent;
mod client;
mod events;
mod laws;
mod mutations;
mod openai;
mod realtime;
mod schemas;
mod service;
mod session;
mod signature;
mod types;
mod vectors;
mod wire;
