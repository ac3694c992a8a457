//! `turntree.uaip`: workflows that agents walk through.
//!
//! | module | content |
//! |---|---|
//! | [`workflow`] | a checked workflow with its Python functions |
//! | [`state`] | the state that tasks, guards and hooks receive |
//! | [`runner`] | calls the functions of workflows |
//! | [`serve`] | services of workflows: native servers, ASGI applications |
//! | [`client`] | clients over HTTP and in process |

pub(crate) mod client;
mod runner;
pub(crate) mod serve;
pub(crate) mod state;
pub(crate) mod workflow;
