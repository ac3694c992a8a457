//! Google's generateContent wire. UPP-1.2 §10.5, §19.0, §19.4.
//!
//! `encode` writes requests over `params` (what stands where), `tools` and `schema` (what the vendor takes of a JSON Schema).
//! `decode` reads frames; a whole answer is a stream of one frame, so both go through `answer` and cannot differ. What
//! UPP has no words for (signatures of thoughts, the vendor's own tools) is kept in the message's metadata, described
//! in `facts`, and sent back where it stood.

mod assembly;
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
use turntree_core::ids::{IdSource, RandomIds};

/// The tool that stands in for structured output where a model cannot have both a schema and tools (UPP-1.2 §10.5).
pub(super) const JSON_RESPONSE: &str = "json_response";

/// The first generation of models that answers by a schema while it has tools, and that wants each call signed.
const SIGNING_GENERATION: u32 = 3;

/// What tells one host of this wire from another.
#[derive(Debug, Clone, Copy)]
pub struct GeminiOptions {
    /// The provider's name, and the namespace of its metadata.
    pub provider: &'static str,
    /// The host, without the version.
    pub host: &'static str,
    /// The version of the API, when the configuration names none.
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
}

/// The generateContent wire as one host speaks it.
#[derive(Debug, Clone)]
pub struct GeminiDialect {
    options: GeminiOptions,
    endpoint: Endpoint,
    ids: Arc<dyn IdSource>,
}

impl GeminiDialect {
    /// The wire of a host.
    pub fn new(options: GeminiOptions) -> Self {
        let endpoint = Endpoint {
            key_header: KeyHeader::Named("x-goog-api-key"),
            ..Endpoint::vendor(options.provider, "", options.key_variables)
        };
        Self { options, endpoint, ids: Arc::new(RandomIds) }.with_api_version(options.api_version)
    }

    /// With another version of the API, as `v1`.
    #[must_use]
    pub fn with_api_version(mut self, api_version: &str) -> Self {
        self.endpoint.base_url = format!("{}/{api_version}", self.options.host).into();
        self
    }

    /// With another source of ids for calls that come without one.
    #[must_use]
    pub fn with_ids(self, ids: Arc<dyn IdSource>) -> Self {
        Self { ids, ..self }
    }

    fn context(&self, request: &ModelRequest) -> DecodeContext {
        let is_structured = request.structure.is_some();
        // A tool of the caller's with this name is refused where it would be in the way.
        let has_own = request.tools.iter().any(|tool| tool.name == JSON_RESPONSE);
        DecodeContext {
            provider: self.options.provider,
            is_structured,
            is_answered_by_tool: is_structured && !has_own,
            ids: Arc::clone(&self.ids),
        }
    }
}

/// What a reader has to know of the request.
#[derive(Debug, Clone)]
struct DecodeContext {
    provider: &'static str,
    is_structured: bool,
    /// Whether a call of [`JSON_RESPONSE`] is the structured answer.
    is_answered_by_tool: bool,
    /// For calls that come without an id; a stream has no other source before its end.
    ids: Arc<dyn IdSource>,
}

impl DecodeContext {
    fn broken(&self, what: impl std::fmt::Display) -> UppError {
        let message = format!("the answer breaks the generateContent format: {what}");
        UppError::invalid_response(self.provider, message)
    }
}

/// The generation of a Gemini model by its name, as 2 of `gemini-2.5-flash`; `None` for names that do not say.
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

    fn path(&self, model_id: &str, streaming: bool) -> String {
        let method = if streaming { "streamGenerateContent?alt=sse" } else { "generateContent" };
        // Tuned models and the like bring their collection.
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

/// The vendor files a wrong key under `INVALID_ARGUMENT`, told apart by its words only.
fn code_of_words(code: ErrorCode, message: &str) -> ErrorCode {
    let is_about_key = ["API key not valid", "API key expired", "API Key not found"];
    if code == ErrorCode::InvalidRequest && is_about_key.iter().any(|words| message.contains(words)) {
        return ErrorCode::AuthenticationFailed;
    }
    code
}

/// An error that the vendor tells in a stream, or in a body with a status of success.
fn reported_error(provider: &str, data: &str) -> UppError {
    let error = VendorError::of_body(data).into_error(provider);
    UppError { code: code_of_words(error.code, &error.message), ..error }
}
