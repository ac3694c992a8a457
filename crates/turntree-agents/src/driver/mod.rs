//! Drives a [`Machine`](crate::machine::Machine): calls the model, the tools and the hooks of the host, applies
//! middleware, and sends events.
//!
//! ```text
//!   Machine::next ──> Action ────────> Driver ──> model, tools, hooks, clock, ids
//!   Machine::feed <── ActionResult <─────┘ └────> events (only if the run is streamed)
//! ```

pub(crate) mod agent_layer;
mod checked_call;
mod custom_strategy;
#[expect(clippy::module_inception, reason = "the module is named after its main type")]
pub mod driver;
mod handoff;
pub(crate) mod model_layer;
mod part_recorder;
mod run_loop;
mod run_trace;
pub(crate) mod stop;
pub(crate) mod strategy_runs;
pub mod stream;
mod telemetry;
mod tool_call;
mod tool_outcome;
mod tool_round;
pub(crate) mod tools_in_force;

pub use driver::{Driver, Protocol};
pub use stream::AgentStream;
