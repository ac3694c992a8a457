//! UAIP 0.1.0, the Universal Agent Interactive Protocol: workflows of stages that agents walk through. An agent sees and
//! calls only the tasks of its current stage.
//!
//! ```text
//!   WorkflowDefinition ──> Workflow (checked graph)
//!                              │
//!   Session + Action ──> Execution: a state machine without I/O ──> Outcome
//!                              │ calls: tasks, guards, hooks
//!   WorkflowService (HTTP): TaskRunner performs the calls, SessionStore stores each outcome in one transaction
//! ```
//!
//! | module | content |
//! |---|---|
//! | [`definition`] | workflows, stages and tasks, and the checks of their graph |
//! | [`engine`] | executes one action of one session: all of it or nothing |
//! | [`wire`] | requests and responses as JSON, in both profiles; OpenAPI |
//! | [`store`] | sessions, their logs and the responses of idempotency keys, in an engine of `turntree-store` |
//! | [`service`] | the HTTP application |
//! | [`client`] | a client of servers |
//! | [`state`] | the state of sessions, and how keys are looked up |

pub mod client;
pub mod definition;
pub mod engine;
pub mod service;
pub mod state;
pub mod store;
pub mod wire;

pub use client::{ClientError, ClientSession, UaipClient};
pub use definition::{DefinitionError, Workflow, WorkflowDefinition};
pub use engine::{Action, Execution, Limits, Outcome, Session, Step};
pub use service::{CallContext, Progress, ServiceOptions, TaskRunner, WorkflowService};
pub use state::{State, WorkingState};
pub use store::SessionStore;
pub use wire::{Profile, openapi};
