//! Agents as Python sees them. [`agent`] builds and runs, [`host`] is the application behind a run (tools, approval,
//! hooks), [`stream`] shows a run while it runs, [`tree`] holds conversations with branches.

pub(crate) mod agent;
pub(crate) mod context;
pub(crate) mod host;
pub(crate) mod llm;
pub(crate) mod stream;
pub(crate) mod tree;
