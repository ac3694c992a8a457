//! Agents of the Unified Agent Protocol: a model, tools, and a strategy.
//!
//! The modules are layers: each one uses only those above it in this table.
//!
//! | module | contains |
//! |---|---|
//! | [`types`] | actions, events, approvals, execution state, structure: plain data |
//! | [`tree`] | conversations as trees of threads |
//! | [`machine`] | a run as a state machine without I/O, and the built-in strategies |
//! | [`host`] | the application behind a run, and the ports that it or a session implements |
//! | [`middleware`] | hooks around the runs of an agent: budget, guardrails, logging, memory |
//! | [`spec`] | [`AgentSpec`], the definition of an agent |
//! | [`driver`] | the async code that drives a machine |
//! | [`agent`], [`sub_agent`], [`strategy_run`], [`handoff`], [`llm`] | the handles: [`Agent`], an agent as a tool, an agent inside a strategy, an agent that takes over, a model with tools |
//! | [`session`] | an agent with a thread tree, checkpoints and runs that can be resumed |
//!
//! Spec: UAP-1.0; UPP-1.2 §10 for [`llm`]

pub mod agent;
pub mod driver;
pub mod handoff;
pub mod host;
pub mod llm;
pub mod machine;
pub mod middleware;
pub mod options;
pub mod session;
pub mod spec;
pub mod strategy_run;
pub mod sub_agent;
pub mod tree;
pub mod types;

pub use agent::Agent;
pub use handoff::HandoffOptions;
pub use host::{CustomStrategy, FunctionHost, Host, Strategy, Tool, ToolFunction, Toolset};
pub use llm::{Llm, LlmOptions, LlmStream};
pub use machine::{LoopOptions, ObservationFormat, PlanOptions, ReactOptions};
pub use options::{AgentOptions, ToolUseStrategy};
pub use session::{Checkpoint, Session, SessionError, SessionOptions};
pub use spec::AgentSpec;
pub use sub_agent::{SubAgent, ToToolOptions};
pub use types::{Structure, Violation};
