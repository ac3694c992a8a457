//! Runs of agents, as all wires need them: input in, [`AgentOutput`](crate::session::AgentOutput) out.
//!
//! ```text
//!   wire ──RunRequest──> AgentRun::start ──> turntree_agents, on the application's AgentHost
//!        <─AgentOutput──                <──  AgentStreamEvent
//!        ──RunControl: tool results of the client, cancellation──>
//! ```
//!
//! | module | content |
//! |---|---|
//! | [`registry`] | the agents of a server, by name |
//! | [`host`] | the port to the application behind an agent |
//! | [`run`] | one run: its request, its output, its control |
//! | [`client_tools`] | tools that the client runs |
//! | [`conversations`] | conversations as sessions of a store |
//! | [`messages`] | UAMP messages as messages of UPP |
//! | [`usage`] | usage of UPP as usage of UAMP |

pub mod client_tools;
pub mod conversations;
pub mod host;
pub mod messages;
mod output;
pub mod registry;
pub mod run;
pub mod usage;

pub use client_tools::ClientTools;
pub use conversations::{ConversationError, Conversations};
pub use host::{AgentHost, AgentWork, HostUnavailable, RustHost};
pub use messages::{ConvertedMessages, messages_to_upp};
pub use output::{pending_approvals, plan_of};
pub use registry::{AgentRegistry, RegistryError, ServedAgent};
pub use run::{AgentRun, RunControl, RunInput, RunOptions, RunRequest};
