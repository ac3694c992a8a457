//! The foundation of turntree: ids, time, secrets, limits, JSON, server-sent events, HTTP and telemetry; and the
//! message vocabulary of UPP-1.2 ([`message`]). Does not depend on providers or agents.

pub mod computation;
pub mod event_stream;
pub mod http;
pub mod ids;
pub mod intern;
pub mod json;
pub mod limits;
pub mod message;
pub mod ndjson;
pub mod persistence;
pub mod principal;
pub mod render;
pub mod runtime;
pub mod secret;
pub mod sse;
pub mod telemetry;
pub mod time;
