//! The HTTP application: one set of agents on every wire.
//!
//! | module | content |
//! |---|---|
//! | [`site`] | what all wires share: agents, conversations, settings |
//! | [`route`] | the agent and the rest of a path |
//! | [`wire`] | the port of wires |
//! | [`application`] | gives each request to the wire of its path |

pub mod application;
pub mod route;
pub mod site;
pub mod wire;

pub use crate::payments::{PaymentGate, PaymentReceipt, PaymentRefusal, PaymentRequest};
pub use application::AgentService;
pub use route::{Route, UnknownAgent};
pub use site::{ServiceOptions, Site};
pub use wire::{Exchange, Wire};
