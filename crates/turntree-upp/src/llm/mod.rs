//! What every call of a model starts with, whoever makes it: inputs become messages ([`input`]), and what the model
//! cannot do is refused before anything is sent ([`capability_check`]). UPP-1.2 §10 and §10.1.

pub mod capability_check;
pub mod input;

pub use input::{Input, into_messages};
