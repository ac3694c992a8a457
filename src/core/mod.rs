//! Ground floor: no knowledge of agents, messages or providers.

pub mod http;
pub mod json;
pub mod ndjson;
pub mod runtime;
pub mod secret;
pub mod sse;
