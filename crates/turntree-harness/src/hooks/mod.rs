//! Hooks: one event of a harness in, its reply out.
//!
//! | module | content |
//! |---|---|
//! | [`adapter`] | what differs between harnesses, as data |
//! | [`invocation`] | how a hook was called |
//! | [`event`] | an event, whatever harness it comes from |
//! | [`reply`] | what a harness reads: exit status, output, error output |
//! | [`pipeline`] | what each event does |
//! | `peek` | the name of an event that cannot be read as a whole |
//! | `loops` | repeated calls of a tool |

pub mod adapter;
pub mod event;
pub mod invocation;
mod loops;
mod peek;
pub mod pipeline;
pub mod reply;

pub use event::{EventKind, HookEvent};
pub use invocation::Invocation;
pub use pipeline::{handle, late};
pub use reply::HookReply;
