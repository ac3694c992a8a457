//! Middleware of agents: hooks around whole runs.
//!
//! ```text
//!   before ──> before ──> run: request ──> model ──> response ──> … ──> after ──> after ──> turn
//!   (first)    (second)        (each call of the model)               (second)   (first)
//! ```
//!
//! A [`Middleware`] implements some of the [`hooks`]. An [`AgentMiddlewareStack`] is a list of middlewares. All hooks of a
//! run share one [`MiddlewareContext`]. The driver calls the hooks ([`crate::driver`]). Built-in middlewares: [`logging`],
//! [`guardrails`], [`memory`] and [`budget`].
//!
//! Middleware of models (UPP-1.2 §17) is in [`turntree_upp::middleware`].
//!
//! Spec: UAP-1.0 §10

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
