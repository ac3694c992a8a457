//! Google's generateContent format.
//!
//! | file | content |
//! |---|---|
//! | `encode` | writes requests; `params`, `tools` and `schema` convert parameters, tools and JSON Schemas |
//! | `decode` | reads whole responses |
//! | `stream` | reads streamed responses |
//! | `assembly` | combines parts into events and a message, for both readers |
//! | `code_execution` | code that the vendor ran |
//! | `metadata` | signatures and provider parts, stored to be sent back |
//! | `embedding`, `imagen` | the other modalities |
//!
//! Spec: UPP-1.2 §10.5, §19.0, §19.4

mod assembly;
mod code_execution;
mod decode;
pub mod embedding;
mod encode;
pub mod imagen;
mod metadata;
mod params;
mod schema;
mod stream;
mod tools;

use std::sync::Arc;

use super::common::VendorError;
use crate::dialect::{Dialect, Sources, StreamDecoder};
use crate::endpoint::{Endpoint, KeyHeader};
use crate::error::{ErrorCode, UppError};
use crate::provider::Capabilities;
use crate::request::{ModelRequest, ModelResponse};
use crate::settings::SettingsTable;
use turntree_core::ids::{IdSource, RandomIds};

/// The tool that replaces structured output for models that do not support a schema together with tools (UPP-1.2
/// §10.5).
pub(super) const JSON_RESPONSE: &str = "json_response";

/// The first generation of models that supports a schema together with tools, and that requires signed calls.
const SIGNING_GENERATION: u32 = 3;

/// The differences between hosts of this format.
#[derive(Debug, Clone, Copy)]
pub struct GeminiOptions {
    /// The provider's name, and the namespace of its metadata.
    pub provider: &'static str,
    /// The host, without the version.
    pub host: &'static str,
    /// The default version of the API.
    pub api_version: &'static str,
    /// Environment variables that may hold the key.
    pub key_variables: &'static [&'static str],
}

impl GeminiOptions {
    /// The Gemini API.
    pub const GOOGLE: Self = Self {
        provider: "google",
        host: "https://generativelanguage.googleapis.com",
        api_version: "v1beta",
        key_variables: &["GOOGLE_API_KEY", "GEMINI_API_KEY"],
    };

    /// Vertex AI: the URL depends on project and location.
    pub const VERTEX: Self = Self { provider: "vertex", host: "", api_version: "", key_variables: &[] };
}

/// The generateContent dialect of one host.
#[derive(Debug, Clone)]
pub struct GeminiDialect {
    options: GeminiOptions,
    endpoint: Endpoint,
    ids: Arc<dyn IdSource>,
}

impl GeminiDialect {
    /// Creates the dialect of a host.
    pub fn new(options: GeminiOptions) -> Self {
        let endpoint = Endpoint {
            key_header: KeyHeader::Named("x-goog-api-key"),
            ..Endpoint::vendor(options.provider, "", options.key_variables)
        };
        Self { options, endpoint, ids: Arc::new(RandomIds) }.with_api_version(options.api_version)
    }

    /// Sets the version of the API, such as `v1`.
    #[must_use]
    pub fn with_api_version(mut self, api_version: &str) -> Self {
        self.endpoint.base_url = format!("{}/{api_version}", self.options.host).into();
        self
    }

    /// Sets the URL, and sends the key as a bearer token.
    #[must_use]
    pub fn with_token_at(mut self, base_url: String) -> Self {
        self.endpoint.base_url = base_url.into();
        self.endpoint.key_header = KeyHeader::Bearer;
        self
    }

    /// Sets the source of ids for calls without an id.
    #[must_use]
    pub fn with_ids(self, ids: Arc<dyn IdSource>) -> Self {
        Self { ids, ..self }
    }

    fn context(&self, request: &ModelRequest) -> DecodeContext {
        let is_structured = request.structure.is_some();
        // The caller's own tool of this name makes the replacement impossible.
        let has_own = request.tools.iter().any(|tool| tool.name == JSON_RESPONSE);
        DecodeContext {
            provider: self.options.provider,
            is_structured,
            is_answered_by_tool: is_structured && !has_own,
            ids: Arc::clone(&self.ids),
        }
    }
}

/// The properties of the request that the decoder needs.
#[derive(Debug, Clone)]
struct DecodeContext {
    provider: &'static str,
    is_structured: bool,
    /// True if a call of [`JSON_RESPONSE`] is the structured output.
    is_answered_by_tool: bool,
    /// Source of ids for calls without an id.
    ids: Arc<dyn IdSource>,
}

impl DecodeContext {
    fn broken(&self, what: impl std::fmt::Display) -> UppError {
        let message = format!("invalid generateContent response: {what}");
        UppError::invalid_response(self.provider, message)
    }
}

/// The generation in a model's name: 2 for `gemini-2.5-flash`; `None` if the name has none.
fn generation(model_id: &str) -> Option<u32> {
    let (_, version) = model_id.split_once("gemini-")?;
    let digits = version.split(|character: char| !character.is_ascii_digit()).next()?;
    digits.parse().ok()
}

impl Dialect for GeminiDialect {
    fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::ALL
    }

    fn settings(&self) -> &'static SettingsTable {
        &SettingsTable::GEMINI
    }

    fn path(&self, model_id: &str, streaming: bool) -> String {
        let method = if streaming { "streamGenerateContent?alt=sse" } else { "generateContent" };
        // Names with a collection, such as tuned models, are used as they are.
        let collection = if model_id.contains('/') { "" } else { "models/" };
        format!("/{collection}{model_id}:{method}")
    }

    fn takes_native_tools(&self) -> bool {
        true
    }

    fn encode(&self, model_id: &str, request: &ModelRequest, _streaming: bool) -> Result<Vec<u8>, UppError> {
        encode::encode(self.options.provider, model_id, request)
    }

    fn decode(
        &self,
        body: &str,
        request: &ModelRequest,
        sources: Sources<'_>,
    ) -> Result<ModelResponse, UppError> {
        decode::decode(body, self.context(request), sources)
    }

    fn stream_decoder(&self, request: &ModelRequest) -> Box<dyn StreamDecoder> {
        Box::new(stream::Decoder::new(self.context(request)))
    }

    fn error_of_body(&self, status: u16, body: &str) -> Option<(ErrorCode, String)> {
        let (code, message) = VendorError::of_status(status, body);
        Some((code_of_words(code, &message), message))
    }
}

/// The vendor reports an invalid key as `INVALID_ARGUMENT`; only the message tells the difference.
fn code_of_words(code: ErrorCode, message: &str) -> ErrorCode {
    let is_about_key = ["API key not valid", "API key expired", "API Key not found"];
    if code == ErrorCode::InvalidRequest && is_about_key.iter().any(|text| message.contains(text)) {
        return ErrorCode::AuthenticationFailed;
    }
    code
}

/// An error inside a stream or a successful response.
fn reported_error(provider: &str, data: &str) -> UppError {
    let error = VendorError::of_body(data).into_error(provider);
    UppError { code: code_of_words(error.code, &error.message), ..error }
}
