//! A session as a state machine without I/O.
//!
//! ```text
//!   ClientEvent ────> SessionCore::on ─────────┐
//!   AgentOutput ────> SessionCore::on_output ──┤
//!   PaymentOutcome ─> SessionCore::on_payment ─┼──> effects: send an event, start, resume or cancel the agent, ask
//!   time limits ────> SessionCore::on_timeout ─┘    about a payment, close
//! ```
//!
//! A response is created, may wait for a payment, streams its output, may wait for tools of the client, and ends with
//! exactly one of `response.done`, `response.cancelled` and `response.error`. The text of the output is that of the
//! deltas. The conversation is the host's: a start carries only the messages that are new.

mod core;
mod effect;
mod input;
mod output;
mod payment;
mod stream;

pub use self::core::{SessionCore, SessionSettings, Signer};
pub use self::effect::{AgentOutput, Effect, PaymentOutcome, ResponseRequest, ToolOutcome, WaitsFor};
pub use self::input::Input;
pub use self::output::Output;
