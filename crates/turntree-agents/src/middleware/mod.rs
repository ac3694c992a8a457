//! Middleware of agents: what stands around whole runs. UAP-1.0 §10.
//!
//! ```text
//!   before ──> before ──> run: request ──> model ──> response ──> … ──> after ──> after ──> turn
//!   (first)    (second)        (each call of the model)               (second)   (first)
//! ```
//!
//! A [`Middleware`] has some of the [`hooks`], an [`AgentMiddlewareStack`] is a list of them, and a run shows its hooks one
//! [`MiddlewareContext`]. What drives them is with the runs (`run::around`); a run without middleware has none of it. The
//! rest are middlewares: [`logging`], [`guardrails`], [`memory`] and [`budget`].
//!
//! Middleware of models (UPP-1.2 §17, [`turntree_upp::middleware`]) is another onion around another core.

pub mod budget;
pub mod context;
pub mod guardrails;
pub mod hooks;
pub mod logging;
pub mod memory;
pub mod stack;

pub use budget::{Budget, BudgetError, BudgetUsage, Resource};
pub use context::MiddlewareContext;
pub use guardrails::{GuardrailError, GuardrailSide, Guardrails, Rule, RuleCheck, RuleOutcome};
pub use hooks::{HookFuture, Hooks, Middleware};
pub use logging::{LogRecord, Logging};
pub use memory::{Memory, Overflow, Summarizer, TokenCounter};
pub use stack::AgentMiddlewareStack;
