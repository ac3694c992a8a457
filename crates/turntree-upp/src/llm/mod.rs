//! What every call of a model starts with, whoever makes it: inputs become messages ([`input`]), and what the model
//! cannot do is refused before anything is sent ([`gate`]). UPP-1.2 §10 and §10.1.

pub mod gate;
pub mod input;

pub use input::{Input, into_messages};
