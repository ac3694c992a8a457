//! turntree
pub mod agents;
pub mod core;
pub mod message;
#[cfg(feature = "python")]
mod py;
pub mod thread_protocol;
pub mod upp;
