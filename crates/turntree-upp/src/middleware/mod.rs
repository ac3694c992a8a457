//! What an application puts around the calls of a model. UPP-1.3; order and rules in UPP-1.2 §17.
//!
//! [`hooks`] has the trait, [`context`] what a hook sees and may change, [`chain`] the order in which hooks run and
//! [`call`] the whole way of one call: start, request, the call, response, turn, end, or else error or abort.
//! [`turn_start`] finds where the new messages begin when a hook has rewritten the conversation. The rest are
//! middlewares: [`logging`], [`parsed_object`], [`persistence`] and [`pubsub`].
//!
//! Middleware of agents (UAP-1.0 §10) is another onion around another core; it lives with the agents.

pub mod call;
pub mod chain;
pub mod context;
pub mod hooks;
pub mod logging;
pub mod parsed_object;
pub mod persistence;
pub mod pubsub;
pub mod state;
pub mod turn_start;

pub use chain::{Chain, Finisher};
pub use context::{CallContext, Request, Response};
pub use hooks::{Emitted, HookFuture, Hooks, Middleware};
pub use logging::{Level, Logging};
pub use parsed_object::ParsedObject;
pub use persistence::{Persistence, PersistenceAdapter};
pub use pubsub::{MemoryPubsub, Pubsub, Subscription};
pub use state::{State, StateValue};
