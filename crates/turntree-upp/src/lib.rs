//! The provider layer: a [`ModelRequest`] in; stream events ([`ModelEvent`]) and one [`ModelResponse`] out, the same
//! for every vendor.
//!
//! | module | content |
//! |---|---|
//! | [`provider`] | [`Model`], the trait that every provider implements |
//! | [`AwsCredentials`] | the credentials of Amazon Bedrock |
//! | [`dialect`], [`dialects`] | vendors' request and response formats, without I/O; several vendors share one |
//! | [`endpoint`] | URL, key variables and headers of an API, as data |
//! | [`http_model`] | runs a dialect over HTTP; [`response_reader`] decodes the streamed body |
//! | [`providers`], [`registry`] | one file for each vendor; models by name |
//! | [`provider_tools`] | tools that the vendor runs |
//! | [`settings`] | settings that mean the same for every vendor, in the words of each vendor |
//! | [`stop_reason`] | why the model stopped, read from a message |
//! | [`structured_output`] | schemas in the form that vendors enforce, and how the output is read |
//! | [`provenance`], [`omissions`] | which model made a message, and what is therefore left out of a request |
//! | [`pricing`] | the cost of a call |
//! | [`embedding`], [`image`] | the other modalities, run by [`result_call`] and [`result_stream`] |
//! | [`middleware`] | hooks around calls |
//! | [`telemetry`] | spans of calls |
//!
//! Spec: UPP-1.2 §9–§13, §19

mod aws;
mod code_execution;
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
pub mod raw_response;
pub mod registry;
mod reported_error;
pub mod request;
pub mod response_reader;
pub mod result_call;
pub mod result_stream;
mod retries;
pub mod routing;
pub mod settings;
pub mod stop_reason;
pub mod structured_output;
pub mod telemetry;

pub use aws::{AwsCredentials, AwsSigning};
pub use config::ProviderConfig;
pub use endpoint::Endpoint;
pub use error::{ErrorCode, Modality, UppError, VendorReport};
pub use llm::Input;
pub use provider::{Capabilities, Model, ModelEvent, ModelStream};
pub use request::{ModelRequest, ModelResponse, StopReason, System};
pub use result_call::CallLayers;
