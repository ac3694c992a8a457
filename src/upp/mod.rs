//! Models as Python objects: references to them, how to reach them, scripts in their place.
//!
//! Spec: UPP-1.2 §9 and §13.

pub(crate) mod api_call;
pub(crate) mod config;
pub(crate) mod custom;
pub(crate) mod embedding;
pub(crate) mod error;
pub(crate) mod image;
pub(crate) mod keys;
pub(crate) mod media_models;
pub(crate) mod middleware;
pub(crate) mod model;
pub(crate) mod omissions;
pub(crate) mod prices;
pub(crate) mod recorded;
pub(crate) mod replay;
pub(crate) mod request;
pub(crate) mod request_guard;
pub(crate) mod result_stream;
pub(crate) mod retry;
pub(crate) mod routing;
pub(crate) mod scripted;
pub(crate) mod transport;
pub(crate) mod unsupported_settings;
