//! Wires that several vendors share, and what all dialects need ([`common`]).

mod borrowed_text;
pub mod chat;
pub mod common;
pub mod embeddings;
pub mod gemini;
pub mod images;
pub mod messages;
pub mod responses;
