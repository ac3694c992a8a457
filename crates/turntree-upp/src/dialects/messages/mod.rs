//! The Messages format: Anthropic, and vendors with a compatible API.
//!
//! | file | content |
//! |---|---|
//! | `encode` | writes requests |
//! | `decode` | reads whole responses |
//! | `stream` | reads streamed responses |
//! | `models` | what the models support, by name |
//! | `assembly` | combines blocks into a message, for both readers |
//! | `code_execution` | code that the vendor ran |
//! | `metadata` | signatures, redacted thinking, provider blocks and citations, stored to be sent back |
//!
//! Spec: UPP-1.2 §10.5, §19.0, §19.1

mod assembly;
mod code_execution;
mod decode;
mod encode;
mod metadata;
mod models;
mod stream;

pub(super) use models::enforces_schemas;

use super::common::VendorError;
use crate::dialect::{Dialect, Sources, StreamDecoder};
use crate::endpoint::{Endpoint, KeyHeader};
use crate::error::{ErrorCode, UppError};
use crate::provider::Capabilities;
use crate::request::{ModelRequest, ModelResponse};
use crate::settings::SettingsTable;
use crate::structured_output::SchemaRules;

/// The default version of the API.
pub const API_VERSION: &str = "2023-06-01";

/// The version of the API at Vertex AI, a member of the request.
const VERTEX_VERSION: &str = "vertex-2023-10-16";

/// The header that names the version of the API.
const VERSION_HEADER: &str = "anthropic-version";

/// The header that lists betas, separated by commas.
pub const BETA_HEADER: &str = "anthropic-beta";

/// The beta with which the vendor enforces schemas.
pub const STRUCTURED_OUTPUTS_BETA: &str = "structured-outputs-2025-11-13";

/// The tool that replaces structured output if the vendor does not enforce schemas (UPP-1.2 §10.5).
pub(super) const JSON_RESPONSE: &str = "json_response";

/// The differences between vendors of this format.
#[derive(Debug, Clone, Copy)]
pub struct MessagesOptions {
    /// The provider's name, and the namespace of its metadata.
    pub provider: &'static str,
    /// The prefix of its URLs.
    pub base_url: &'static str,
    /// Environment variables that may hold the key.
    pub key_variables: &'static [&'static str],
    /// True if documents are supported.
    pub documents: bool,
    /// True if blocks and tools may have cache marks.
    pub cache_control: bool,
    /// True if provider tools are supported.
    pub native_tools: bool,
    /// True if the newer models enforce schemas.
    pub enforces_schemas: bool,
    /// True if an assistant message without content is sent with an empty text; otherwise it is omitted.
    pub fills_empty_answers: bool,
}

impl MessagesOptions {
    /// Anthropic.
    pub const ANTHROPIC: Self = Self {
        provider: "anthropic",
        base_url: "https://api.anthropic.com/v1",
        key_variables: &["ANTHROPIC_API_KEY"],
        documents: true,
        cache_control: true,
        native_tools: true,
        enforces_schemas: true,
        fills_empty_answers: false,
    };
}

/// The Messages dialect of one vendor.
#[derive(Debug, Clone)]
pub struct MessagesDialect {
    options: MessagesOptions,
    endpoint: Endpoint,
    betas: Vec<String>,
    /// True for Vertex AI, where the path names the model.
    is_vertex: bool,
}

impl MessagesDialect {
    /// Creates the dialect of a vendor, without betas.
    pub fn new(options: MessagesOptions) -> Self {
        let vendor = Endpoint::vendor(options.provider, options.base_url, options.key_variables);
        let endpoint = Endpoint {
            key_header: KeyHeader::Named("x-api-key"),
            headers: vec![(VERSION_HEADER, API_VERSION.to_owned())],
            ..vendor
        };
        Self { options, endpoint, betas: Vec::new(), is_vertex: false }
    }

    /// The same format at Vertex AI, with a bearer token. The URL has the project, the location and the publisher.
    #[must_use]
    pub fn at_vertex(self, base_url: String) -> Self {
        let endpoint =
            Endpoint { base_url: base_url.into(), ..Endpoint::vendor(self.options.provider, "", &[]) };
        Self { endpoint, is_vertex: true, ..self }
    }

    /// Sets the version of the API.
    #[must_use]
    pub fn with_api_version(self, api_version: impl Into<String>) -> Self {
        self.with_header(VERSION_HEADER, Some(api_version.into()))
    }

    /// Replaces the betas. A name may also be a comma-separated list, as in a header.
    #[must_use]
    pub fn with_betas<T: AsRef<str>>(self, betas: impl IntoIterator<Item = T>) -> Self {
        let mut names: Vec<String> = Vec::new();
        for list in betas {
            let list = list.as_ref().split(',').map(str::trim).filter(|name| !name.is_empty());
            names.extend(list.map(str::to_owned));
        }
        let header = (!names.is_empty()).then(|| names.join(","));
        Self { betas: names, ..self }.with_header(BETA_HEADER, header)
    }

    /// Sets a header of every request, or removes it.
    fn with_header(mut self, name: &'static str, value: Option<String>) -> Self {
        let headers = &mut self.endpoint.headers;
        let place = headers.iter().position(|(other, _)| *other == name);
        let place = place.map_or(headers.len()..headers.len(), |place| place..place + 1);
        headers.splice(place, value.map(|value| (name, value)));
        self
    }

    /// How structured output is requested.
    fn structure(&self, request: &ModelRequest) -> Structure {
        let has_beta = || self.betas.iter().any(|beta| beta == STRUCTURED_OUTPUTS_BETA);
        match (&request.structure, request.strict) {
            (None, _) => Structure::None,
            (Some(_), Some(true)) if self.options.enforces_schemas && !has_beta() => Structure::Native,
            (Some(_), Some(true) | None) if has_beta() => Structure::Beta,
            (Some(_), _) => Structure::Tool,
        }
    }

    /// The properties of a request that the decoder needs.
    fn context(&self, request: &ModelRequest) -> DecodeContext {
        DecodeContext { provider: self.options.provider, structure: self.structure(request) }
    }
}

/// The properties of the request that the decoder needs.
#[derive(Debug, Clone, Copy)]
struct DecodeContext {
    provider: &'static str,
    structure: Structure,
}

/// Where the structured output is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Structure {
    /// None was requested.
    None,
    /// In the text: the model enforces schemas.
    Native,
    /// In the text: a beta enforces schemas.
    Beta,
    /// In a call of [`JSON_RESPONSE`], or in the text if the model was not forced to call it.
    Tool,
}

impl DecodeContext {
    /// True if a call of this tool is the structured output.
    fn is_answer(self, tool_name: &str) -> bool {
        self.structure == Structure::Tool && tool_name == JSON_RESPONSE
    }

    fn broken(self, what: impl std::fmt::Display) -> UppError {
        UppError::invalid_response(self.provider, format!("invalid Messages response: {what}"))
    }
}

impl Dialect for MessagesDialect {
    fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { image_input: true, document_input: self.options.documents, ..Capabilities::TEXT }
    }

    fn settings(&self) -> &'static SettingsTable {
        &SettingsTable::MESSAGES
    }

    fn required_param(&self, model_id: &str) -> Option<(&'static str, u64)> {
        Some(("max_tokens", models::most_tokens(model_id)))
    }

    fn path(&self, model_id: &str, streaming: bool) -> String {
        match (self.is_vertex, streaming) {
            (false, _) => "/messages".to_owned(),
            (true, false) => format!("/models/{model_id}:rawPredict"),
            (true, true) => format!("/models/{model_id}:streamRawPredict"),
        }
    }

    fn takes_native_tools(&self) -> bool {
        self.options.native_tools
    }

    fn schema_rules(&self, model_id: &str) -> Option<&'static SchemaRules> {
        let has_beta = self.betas.iter().any(|beta| beta == STRUCTURED_OUTPUTS_BETA);
        let is_native = self.options.enforces_schemas && models::enforces_schemas(model_id);
        (has_beta || is_native).then_some(&SchemaRules::ANTHROPIC)
    }

    fn counts_cache_apart(&self) -> bool {
        true
    }

    fn encode(&self, model_id: &str, request: &ModelRequest, streaming: bool) -> Result<Vec<u8>, UppError> {
        encode::encode(self, model_id, request, streaming)
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

/// The vendor reports two other errors as `invalid_request_error`; only the message tells the difference.
fn code_of_words(code: ErrorCode, message: &str) -> ErrorCode {
    if !matches!(code, ErrorCode::InvalidRequest | ErrorCode::ProviderError) {
        return code;
    }
    if message.contains("credit balance is too low") {
        ErrorCode::QuotaExceeded
    } else if message.contains("content filtering policy") {
        ErrorCode::ContentFiltered
    } else {
        code
    }
}

/// An error inside a stream or a successful response.
fn reported_error(provider: &str, data: &str) -> UppError {
    let error = VendorError::of_body(data).into_error(provider);
    UppError { code: code_of_words(error.code, &error.message), ..error }
}
