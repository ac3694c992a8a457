//! Prepares calls of language models: converts inputs into messages ([`input`]) and checks what the model supports
//! ([`capability_check`]).
//!
//! Spec: UPP-1.2 §10, §10.1

pub mod capability_check;
pub mod input;

pub use input::{Input, into_messages};
