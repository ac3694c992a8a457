//! The portable profile of ThreadProtocol: the same thread from every source.
//!
//! Histories of Pydantic AI and streams of the Vercel AI SDK describe the same runs. In the portable profile both
//! become the same actions. This module defines the `system.tp.*` actions, their data and their order, and the default
//! values for fields that a source does not have.

mod defaults;
mod deferred;
mod files;
mod profile;
mod system_actions;

pub use profile::ProfileKind;

pub(super) use defaults::{EPOCH, assistant, named_agent, namespace, title};
pub(super) use deferred::{DeferredAction, DeferredActions};
pub(super) use files::{
    APPROVAL, FILE, FileDescription, Names, SOURCE_DOCUMENT, SOURCE_URL, file_data, url_of,
};
pub(super) use system_actions::{data_action_type, data_name, normalize, object, object_arguments, system};
