//! Tests of `turntree-core`: JSON, streams, HTTP, telemetry and the message vocabulary.

mod fold;
mod http;
mod json;
mod media_files;
mod message;
mod ndjson;
mod partial_json;
mod render;
mod retry;
mod sse;
mod telemetry;
