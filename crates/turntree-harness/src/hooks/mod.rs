//! Hooks: one event of a harness in, its reply out.
//!
//! | module | content |
//! |---|---|
//! | [`adapter`] | what differs between harnesses, as data |
//! | [`event`] | an event, whatever harness it comes from |
//! | [`reply`] | what a harness reads: exit status, output, error output |
//! | [`pipeline`] | what each event does |
//! | `loops` | repeated calls of a tool |

pub mod adapter;
pub mod event;
mod loops;
pub mod pipeline;
pub mod reply;

pub use event::{EventKind, HookEvent};
pub use pipeline::{handle, late};
pub use reply::HookReply;
