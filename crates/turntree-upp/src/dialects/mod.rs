//! Formats that several vendors share, and building blocks of all dialects ([`common`]).

mod borrowed_text;
pub mod chat;
pub mod common;
pub mod converse;
pub mod embeddings;
pub mod gemini;
pub mod images;
pub mod messages;
pub mod responses;
