//! The provider layer: one request in ([`ModelRequest`]), events and one response out ([`ModelEvent`],
//! [`ModelResponse`]), whoever serves the model. UPP-1.2 §9–13 and §19.
//!
//! [`provider`] is the door for anything that serves a model. [`dialect`] describes a vendor's wire without any I/O,
//! [`http_model`] speaks a dialect over HTTP; `dialects/` holds the wires that several vendors share, `providers/` one
//! file a vendor. Models are found by name in the [`registry`]; [`native`] has the vendors' own tools, [`producer`] what
//! goes back to the model that made it alone, [`costs`] what calls cost; [`reader`] reads the body of a streamed answer.
//! [`embedding`] and [`image`] are the other modalities, each with a door and wires of its own; [`middleware`] stands
//! around calls.

pub mod config;
pub mod dialect;
pub mod dialects;
pub mod embedding;
pub mod endpoint;
pub mod error;
pub mod http_model;
pub mod image;
pub mod llm;
pub mod middleware;
pub mod omissions;
pub mod pricing;
pub mod provenance;
pub mod provider;
pub mod provider_tools;
pub mod providers;
pub mod registry;
pub mod request;
pub mod response_reader;
pub mod result_call;
pub mod result_stream;
pub mod telemetry;

pub use config::ProviderConfig;
pub use endpoint::Endpoint;
pub use error::{ErrorCode, Modality, UppError};
pub use llm::Input;
pub use provider::{Capabilities, Model, ModelEvent, ModelStream};
pub use request::{ModelRequest, ModelResponse, StopReason, System};
pub use result_call::CallLayers;
