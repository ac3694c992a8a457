//! Agents as Python sees them. [`agent`] builds and runs, [`host`] is the application behind a run, by its [`callables`]
//! (tools, approval, hooks), [`strategy`] says how a run goes on, or lets Python say it, [`middleware`] what stands around its runs,
//! [`stream`] shows a run while it runs, [`tree`] holds conversations with branches, [`session`] an agent with one of
//! them, its [`checkpoint`]s and the [`state`] of its runs, kept by a store ([`persistence`]). [`enclosing`] tells code in
//! a tool which run it is inside of, [`tracing`] tells OpenTelemetry of all of it.

pub(crate) mod agent;
pub(crate) mod callables;
pub(crate) mod checkpoint;
pub(crate) mod context;
pub(crate) mod enclosing;
pub(crate) mod error;
pub(crate) mod host;
pub(crate) mod llm;
pub(crate) mod middleware;
pub(crate) mod persistence;
pub(crate) mod session;
pub(crate) mod state;
pub(crate) mod strategy;
pub(crate) mod stream;
pub(crate) mod tracing;
pub(crate) mod tree;
