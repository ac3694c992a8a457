//! One file a vendor: its dialect, or the data in which it differs from one that several share.

pub mod anthropic;
pub mod google;
pub mod ollama;
pub mod openai;
pub mod openai_chat;
pub mod openai_compatible;
pub mod scripted;
