//! Middleware: hooks around the calls of a model.
//!
//! | file | content |
//! |---|---|
//! | [`hooks`] | the trait [`Middleware`] and the set of its [`Hooks`] |
//! | [`context`] | [`CallContext`]: the request, the response and the state of one call |
//! | [`stack`] | [`MiddlewareStack`]: middlewares in order; agents use it too |
//! | `dispatch` | calls one hook on every middleware of a stack |
//! | [`call`] | runs a call: start, request, the call, response, turn, end; or else error or abort |
//! | [`turn_start`] | finds the first new message after a hook has rewritten the conversation |
//! | [`logging`], [`parsed_object`], [`persistence`], [`pubsub`] | middlewares |
//!
//! The middleware of agents (UAP-1.0 §10) has hooks of its own around whole runs; it is in `turntree-agents`.
//!
//! Spec: UPP-1.2 §17; hooks of UPP-1.3

pub mod call;
pub mod context;
mod dispatch;
pub mod hooks;
pub mod logging;
pub mod parsed_object;
pub mod persistence;
pub mod pubsub;
pub mod stack;
pub mod state;
pub mod turn_start;

pub use context::{CallContext, Request, Response};
pub use hooks::{Emitted, HookFuture, Hooks, Middleware};
pub use logging::{Level, Logging};
pub use parsed_object::ParsedObject;
pub use persistence::{Persistence, PersistenceAdapter};
pub use pubsub::{MemoryPubsub, Pubsub, Subscription};
pub use stack::{CleanupExecutor, DeclaresHooks, MiddlewareStack};
pub use state::{State, StateValue};
