//! Tests of `turntree-upp`: dialects, providers, models, middleware, embeddings and images.

mod anthropic;
mod bedrock;
mod chat;
mod corpus;
mod custom_providers;
mod embeddings;
mod google;
mod http_model;
mod images;
#[cfg(target_os = "linux")]
mod many_streams;
mod middleware;
mod ollama;
mod pricing;
mod provenance;
mod provider_tools;
mod registry;
mod responses;
mod result_middleware;
mod rounds;
mod scripted;
mod strict_schemas;
mod vendors;
