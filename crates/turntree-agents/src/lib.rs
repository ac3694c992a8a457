//! Agents: a model, tools, and a strategy that says how to use them. UAP-1.0 §4, §5, §11, §12.
//!
//! [`agent`] is the door: an [`Agent`] runs, or streams. [`llm`] is the door beside it: UPP's `llm()`, the same loop
//! without an agent around it. [`middleware`] stands around an agent's runs. [`run`] holds one run of it: a machine that decides, a driver
//! that performs, a host that is the application. [`strategy`] holds what tells one kind of run from another. [`tree`]
//! keeps conversations as trees; a [`session`] is an agent with such a tree, and [`session::checkpoint`]s to go back to.
//! [`structure`] is what a structured answer must look like. [`sub_agent`] makes an agent a tool of another one.

pub mod agent;
pub mod driver;
pub mod host;
pub mod llm;
pub mod machine;
pub mod middleware;
pub mod options;
pub mod session;
pub mod sub_agent;
pub mod tree;
pub mod types;

pub use agent::Agent;
pub use host::{Tool, ToolFunction};
pub use llm::{Llm, LlmOptions, LlmStream};
pub use machine::{CustomStrategy, LoopOptions, ObservationFormat, PlanOptions, ReactOptions, Strategy};
pub use options::{AgentOptions, ToolUseStrategy};
pub use session::{Checkpoint, Session, SessionError, SessionOptions};
pub use sub_agent::{SubAgent, ToToolOptions};
pub use types::{Structure, Violation};
