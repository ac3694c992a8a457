//! turntree: conversations between people, agents and tools are trees of turns.
//!
//! This page is the map of the house. Data walks down through the rooms once; each room may use those below it, never
//! those above or beside it. `tests/it/arch.rs` reads the sources and enforces the rule.
//!
//! | floor | room | what happens there |
//! |---|---|---|
//! | 0 | [`core`] | ids, time, secrets, limits, the runtime, JSON, server-sent events, HTTP. Knows nothing of messages, providers or agents. The only room that names reqwest, and the only one that spawns. |
//! | 1 | [`message`] | the shared vocabulary of UPP-1.2: content, messages, tools, turns, threads, usage, stream events, and how deltas fold into messages. |
//! | 2 | [`upp`] | the provider layer: what a model is asked and answers, vendors' wires without I/O (`dialect`s), and the HTTP that carries them. |
//! | 2 | [`thread_protocol`] | ThreadProtocol 1.0.0: the document, its validation and canonical bytes, conversions from and to Pydantic AI and the Vercel AI SDK, and many of them at once. |
//! | 3 | [`agents`] | UAP-1.0: the agent loop as a state machine without I/O, the one driver that performs what it asks for, middleware around it, and sessions that remember: trees, checkpoints, runs to take up again; and UPP's `llm()`, which is that loop without an agent. |
//! | 4 | `py` | the Python face (feature `python`): converts, calls the core, converts back. The only room that names pyo3. |
//!
//! `upp` and `thread_protocol` stand side by side and do not know each other. UPP-1.2 §10 puts `llm()` into the provider
//! layer; here it lives one floor higher ([`agents::llm`]), because its tool loop is the agents' loop and a second one
//! would drift from the first.

pub mod agents;
pub mod core;
pub mod message;
#[cfg(feature = "python")]
mod py;
pub mod thread_protocol;
pub mod upp;
