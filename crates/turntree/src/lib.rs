//! turntree: conversations between people, agents and tools are trees of turns.
//!
//! This crate re-exports the layers for Rust applications. Each layer is a crate of its own; a crate uses crates above it
//! in this table, and no others.
//!
//! | module | crate | what it contains |
//! |---|---|---|
//! | [`core`] | `turntree-core` | ids, time, secrets, limits, the runtime, JSON, server-sent events, HTTP |
//! | [`message`] | `turntree-core` | the message vocabulary of UPP-1.2: content, messages, tools, turns, threads, usage, stream events |
//! | [`upp`] | `turntree-upp` | the provider layer: models, vendor dialects, providers, middleware, embeddings, images |
//! | [`thread_protocol`] | `turntree-thread-protocol` | ThreadProtocol 1.0.0: documents, validation, canonical JSON, conversions, bulk conversion |
//! | [`agents`] | `turntree-agents` | UAP-1.0: agents, strategies, the run machine and its driver, sessions, thread trees |
//! | [`store`] | `turntree-store` | where sessions and records of servers are stored: memory, SQLite, files, PostgreSQL, Redis |
//! | [`server`] | `turntree-server` | the native server, authenticators for bearer tokens and JSON Web Tokens, the port of applications |
//! | [`uaip`] | `turntree-uaip` | UAIP 0.1.0: workflows of stages, as a server and a client |
//! | [`uamp`] | `turntree-uamp` | UAMP-1.0: sessions of clients with agents |
//!
//! `upp` and `thread_protocol` do not use each other. UPP-1.2 §10 defines `llm()` in the provider layer; here it is in
//! [`agents::llm`], because it runs the same loop as an agent.
//!
//! # Example
//!
//! Runs an agent with a scripted model. `examples/agent.rs` adds a tool, `examples/custom_provider.rs` adds a provider.
//!
//! ```
//! use std::sync::Arc;
//!
//! use turntree::agents::host::RunContext;
//! use turntree::agents::{Agent, AgentOptions, FunctionHost};
//! use turntree::core::ids::RandomIds;
//! use turntree::upp::providers::scripted::Scripted;
//!
//! # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
//! let options = AgentOptions { model: Some(Arc::new(Scripted::new(["Hello!"]))), ..AgentOptions::default() };
//! let agent = Agent::new(options, &RandomIds);
//! let host = Arc::new(FunctionHost::new(Arc::clone(agent.tools())));
//!
//! let turn = agent.run("Hi", RunContext::new(host)).await?;
//!
//! assert_eq!(turn.response().text(), "Hello!");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub use turntree_agents as agents;
pub use turntree_core as core;
pub use turntree_core::message;
pub use turntree_server as server;
pub use turntree_store as store;
pub use turntree_thread_protocol as thread_protocol;
pub use turntree_uaip as uaip;
pub use turntree_uamp as uamp;
pub use turntree_upp as upp;
