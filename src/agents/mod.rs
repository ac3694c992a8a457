//! Python bindings of `turntree-agents`.
//!
//! | module | content |
//! |---|---|
//! | [`agent`], [`agent_core`] | `Agent` |
//! | [`llm`] | `LLM` |
//! | [`session`], [`checkpoint`], [`persistence`] | `Session`, `Checkpoint`, stores written in Python |
//! | [`tree`] | `ThreadTree`, `ThreadNode` |
//! | [`stream`] | `AgentStream` |
//! | [`events`] | `AgentStreamEvent`, `UapEvent`, `SubAgentRun` |
//! | [`run`] | runs a machine to its end |
//! | [`served_run`] | a run that a server starts |
//! | [`host`], [`host_conversions`], [`functions`] | calls the application's tools, approval handlers and hooks |
//! | [`answer_type`](self) | the type of a turn's structured answer |
//! | [`approvers`] | who decides about calls whose approval says "ask" |
//! | [`call_site`], [`parent_run`], [`run_metadata`] | the event loop, context variables and metadata of a run |
//! | [`toolset`] | tools that can change between steps |
//! | [`run_context`] | a run, for toolsets, system prompts and validators |
//! | [`run_options`], [`usage_meter`] | the options and the limits of one run |
//! | [`strategy`] | execution strategies, and their context in Python |
//! | [`state`], [`tool_context`] | what hooks and tools receive |
//! | [`middleware`] | middleware of agents |
//! | [`tracing`] | OpenTelemetry spans |
//! | [`inputs`] | converts inputs and tools |
//! | [`error`] | converts errors to exceptions |

pub(crate) mod agent;
pub(crate) mod agent_core;
mod answer_type;
pub(crate) mod approvers;
pub(crate) mod call_site;
pub(crate) mod checkpoint;
pub(crate) mod error;
pub(crate) mod events;
pub(crate) mod functions;
pub(crate) mod host;
pub(crate) mod host_conversions;
pub(crate) mod inputs;
pub(crate) mod llm;
pub(crate) mod middleware;
pub(crate) mod parent_run;
pub(crate) mod persistence;
pub(crate) mod run;
pub(crate) mod run_context;
pub(crate) mod run_metadata;
mod run_options;
pub(crate) mod served_run;
pub(crate) mod session;
pub(crate) mod state;
pub(crate) mod strategy;
pub(crate) mod stream;
pub(crate) mod tool_context;
mod tool_exceptions;
mod toolset;
pub(crate) mod tracing;
pub(crate) mod tree;
pub(crate) mod usage_meter;
