//! The provider layer: one request in ([`ModelRequest`]), events and one response out ([`ModelEvent`],
//! [`ModelResponse`]), whoever serves the model. UPP-1.2 §9–13 and §19.
//!
//! [`provider`] is the door for anything that serves a model. [`dialect`] describes a vendor's wire without any I/O,
//! [`http_model`] speaks a dialect over HTTP; `dialects/` holds the wires that several vendors share, `providers/` one
//! file a vendor.

pub mod config;
pub mod dialect;
pub mod dialects;
pub mod error;
pub mod http_model;
pub mod llm;
pub mod middleware;
pub mod provider;
pub mod providers;
pub mod request;

pub use config::ProviderConfig;
pub use error::{ErrorCode, Modality, UppError};
pub use llm::Input;
pub use provider::{Capabilities, Model, ModelEvent, ModelStream};
pub use request::{ModelRequest, ModelResponse, StopReason, System};
