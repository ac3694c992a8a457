//! Wires that several vendors share, and what all dialects need ([`common`]).

pub mod chat;
pub mod common;
pub mod gemini;
pub mod messages;
pub mod responses;
mod text;
