//! UAMP 1.0, the Universal Agentic Message Protocol: a client and an agent exchange events in sessions.
//!
//! | module | content |
//! |---|---|
//! | [`types`] | what events contain: content items, messages, tools, capabilities, usage, payments |
//! | [`event`] | the events of both directions, and their parser with limits |
//! | [`payments`] | the port to what decides about payments |
//! | [`session`] | a session as a state machine without I/O |
//! | [`agent`] | runs of agents, as all wires need them |
//! | [`service`] | the HTTP application: one set of agents on every wire |
//! | [`wires`] | the protocols in which agents are served |
//! | [`signature`] | signatures of responses |
//! | [`client`] | the client, over WebSocket |
//! | [`daemon`] | agents of this process at a router |
//! | [`a2a_client`] | the client of A2A agents |
//! | [`schema`] | the JSON Schemas of the events |
//! | [`error`] | the error of the crate; the error codes of the protocol |

pub mod a2a_client;
pub mod agent;
pub mod client;
pub mod daemon;
pub mod error;
pub mod event;
pub mod payments;
pub mod schema;
pub mod service;
pub mod session;
pub mod signature;
pub mod types;
pub mod wires;

pub use agent::{AgentHost, AgentRegistry, AgentRun, Conversations, RunRequest, RustHost, ServedAgent};
pub use error::UampError;
pub use event::{ClientEvent, EventLimits, ServerEvent, SystemEvent};
pub use service::{AgentService, ServiceOptions, Site};
pub use session::{AgentOutput, Effect, SessionCore};
pub use types::{Capabilities, ContentItem, ErrorCode, Message, SessionConfig, UsageStats};
