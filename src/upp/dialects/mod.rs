//! Wires that several vendors share, and what all dialects need ([`common`]).

pub mod common;
pub mod messages;
pub mod responses;
mod text;
