//! One file a vendor: its dialect, or the data in which it differs from one that several share.

pub mod anthropic;
pub mod cerebras;
pub mod deepseek;
pub mod google;
pub mod groq;
pub mod mistral;
pub mod moonshot;
pub mod ollama;
pub mod openai;
pub mod openai_chat;
pub mod openai_compatible;
pub mod openrouter;
pub mod responses;
pub mod scripted;
pub mod xai;
