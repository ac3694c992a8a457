//! The Messages wire: Anthropic's own, and its clones. UPP-1.2 §10.5, §19.0, §19.1.
//!
//! `encode` writes requests, `decode` reads whole answers, `stream` reads them piece by piece. Both readers make
//! the same list of parts and put it together in one place (`answer`), so that a streamed answer cannot differ from a
//! whole one. What UPP has no words for (redacted thinking, the vendor's own tools, citations) is kept in the message's
//! metadata and sent back where it stood.

mod assembly;
mod decode;
mod encode;
mod metadata;
mod stream;

use super::common::VendorError;
use crate::dialect::{Dialect, Sources, StreamDecoder};
use crate::endpoint::{Endpoint, KeyHeader};
use crate::error::{ErrorCode, UppError};
use crate::provider::Capabilities;
use crate::request::{ModelRequest, ModelResponse};

/// The version of the wire that is spoken when the configuration names none.
pub const API_VERSION: &str = "2023-06-01";

/// The header that names the version of the API.
const VERSION_HEADER: &str = "anthropic-version";

/// The header that lists betas, separated by commas.
pub const BETA_HEADER: &str = "anthropic-beta";

/// The beta that makes the vendor follow a schema by itself.
pub const STRUCTURED_OUTPUTS_BETA: &str = "structured-outputs-2025-11-13";

/// The tool that stands in for structured output where the vendor has none (UPP-1.2 §10.5).
pub(super) const JSON_RESPONSE: &str = "json_response";

/// What tells one vendor of this wire from another.
#[derive(Debug, Clone, Copy)]
pub struct MessagesOptions {
    /// The provider's name, and the namespace of its metadata.
    pub provider: &'static str,
    /// The prefix of its URLs.
    pub base_url: &'static str,
    /// Environment variables that may hold the key.
    pub key_variables: &'static [&'static str],
    /// Whether it reads documents.
    pub documents: bool,
    /// Whether blocks and tools may be marked for its cache.
    pub cache_control: bool,
    /// Whether it has tools of its own.
    pub native_tools: bool,
    /// Whether an assistant who said nothing is sent with an empty text; else it is left out.
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
        fills_empty_answers: false,
    };
}

/// The Messages wire as one vendor speaks it.
#[derive(Debug, Clone)]
pub struct MessagesDialect {
    options: MessagesOptions,
    endpoint: Endpoint,
    betas: Vec<String>,
}

impl MessagesDialect {
    /// The wire of a vendor, without betas.
    pub fn new(options: MessagesOptions) -> Self {
        let vendor = Endpoint::vendor(options.provider, options.base_url, options.key_variables);
        let endpoint = Endpoint {
            key_header: KeyHeader::Named("x-api-key"),
            headers: vec![(VERSION_HEADER, API_VERSION.to_owned())],
            ..vendor
        };
        Self { options, endpoint, betas: Vec::new() }
    }

    /// With another version of the wire.
    #[must_use]
    pub fn with_api_version(self, api_version: impl Into<String>) -> Self {
        self.with_header(VERSION_HEADER, Some(api_version.into()))
    }

    /// With betas, in place of those set before. A name may also be a list with commas, as in a header.
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

    /// Whether the vendor follows a schema by itself.
    fn structures_natively(&self) -> bool {
        self.betas.iter().any(|beta| beta == STRUCTURED_OUTPUTS_BETA)
    }

    /// How the answer to a request is to be read.
    fn context(&self, request: &ModelRequest) -> DecodeContext {
        let structure = match (&request.structure, self.structures_natively()) {
            (None, _) => Structure::None,
            (Some(_), true) => Structure::Native,
            (Some(_), false) => Structure::Tool,
        };
        DecodeContext { provider: self.options.provider, structure }
    }
}

/// What a reader has to know of the request.
#[derive(Debug, Clone, Copy)]
struct DecodeContext {
    provider: &'static str,
    structure: Structure,
}

/// Where the structured answer will be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Structure {
    /// None was asked for.
    None,
    /// In the text.
    Native,
    /// In a call of [`JSON_RESPONSE`]; a model that was free to choose may have put it in the text all the same.
    Tool,
}

impl DecodeContext {
    /// Whether a call of this tool is the structured answer.
    fn is_answer(self, tool_name: &str) -> bool {
        self.structure == Structure::Tool && tool_name == JSON_RESPONSE
    }

    fn broken(self, what: impl std::fmt::Display) -> UppError {
        UppError::invalid_response(self.provider, format!("the answer breaks the messages format: {what}"))
    }
}

impl Dialect for MessagesDialect {
    fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { image_input: true, document_input: self.options.documents, ..Capabilities::TEXT }
    }

    fn path(&self, _model_id: &str, _streaming: bool) -> String {
        "/messages".to_owned()
    }

    fn takes_native_tools(&self) -> bool {
        self.options.native_tools
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

/// The vendor files two refusals under `invalid_request_error`, told apart by their words only.
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

/// An error that the vendor tells in a stream, or in a body with a status of success.
fn reported_error(provider: &str, data: &str) -> UppError {
    let error = VendorError::of_body(data).into_error(provider);
    UppError { code: code_of_words(error.code, &error.message), ..error }
}
