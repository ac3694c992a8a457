//! Ground floor: ids, time, limits, JSON, HTTP. No knowledge of messages, providers or agents.

pub mod http;
pub mod ids;
pub mod json;
pub mod limits;
pub mod message;
pub mod ndjson;
pub mod persistence;
pub mod runtime;
pub mod secret;
pub mod shared;
pub mod sse;
pub mod telemetry;
pub mod time;
pub mod transcript;
