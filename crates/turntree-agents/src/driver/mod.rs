//! Drives a [`Machine`](crate::Machine): calls the model, the tools and the hooks of the host, and sends events.

pub(crate) mod agent_layer;
pub(crate) mod model_layer;
pub mod run_loop;
pub mod stream;
mod tool_call;
mod tool_round;
pub mod trace;

pub use run_loop::{Driver, Protocol, drive};
pub use stream::{AgentStream, EventQueue};
pub use trace::open::Open;
pub use trace::semantics::{Attributes, Value};
pub use trace::{Outcome, Span, Tracer, Work};
