//! Drives a [`Machine`](crate::machine::Machine): calls the model, the tools and the hooks of the host, applies
//! middleware, and sends events.
//!
//! ```text
//!   Machine::next ──> Action ────────> Driver ──> model, tools, hooks, clock, ids
//!   Machine::feed <── ActionResult <─────┘ └────> events (only if the run is streamed)
//! ```

pub(crate) mod agent_layer;
mod custom_scope;
#[expect(clippy::module_inception, reason = "the module is named after its main type")]
pub mod driver;
pub(crate) mod model_layer;
mod run_loop;
pub mod stream;
mod tool_call;
mod tool_round;
pub mod trace;

pub use driver::{Driver, Protocol};
pub use stream::AgentStream;
pub use trace::open::Open;
pub use trace::semantics::{Attributes, Value};
pub use trace::{Outcome, Span, Tracer, Work};
