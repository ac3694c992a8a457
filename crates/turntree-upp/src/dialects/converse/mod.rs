//! Converse: the format of Amazon Bedrock for models of any vendor.
//!
//! | file | content |
//! |---|---|
//! | `encode` | writes requests |
//! | `content` | blocks of messages and tool results, and which are supported |
//! | `tools` | writes tools, their choice and structured output |
//! | `decode` | reads whole responses |
//! | `stream` | reads the events of streamed responses |
//! | `assembly` | combines blocks into a message, for both readers |
//! | `code_execution` | code that the vendor ran |
//! | `metadata` | signatures and blocks that UPP does not define, stored to be sent back |
//! | `models` | what the models support, by name |
//!
//! Spec: <https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_Converse.html>

mod assembly;
mod code_execution;
mod content;
mod decode;
mod encode;
mod image;
mod metadata;
mod models;
mod stream;
mod tools;

use std::sync::Arc;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use turntree_core::http::TransportLayer;

pub use self::metadata::PROVIDER;
use super::common::VendorError;
use crate::aws::{AwsCredentials, AwsSigning};
use crate::dialect::{Dialect, Framing, Sources, StreamDecoder};
use crate::endpoint::Endpoint;
use crate::error::{ErrorCode, UppError};
use crate::provider::Capabilities;
use crate::request::{ModelRequest, ModelResponse};
use crate::settings::SettingsTable;
use crate::structured_output::SchemaRules;

/// The tool that replaces structured output if the model does not enforce schemas (UPP-1.2 §10.5).
const JSON_RESPONSE: &str = "json_response";

/// Characters of a path that are not encoded.
const UNRESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// The Converse dialect in a region.
#[derive(Debug, Clone)]
pub struct ConverseDialect {
    endpoint: Endpoint,
    signing: Arc<dyn TransportLayer>,
}

impl ConverseDialect {
    /// Creates the dialect of a region. A key of Bedrock is sent as a bearer token; without one, requests are signed.
    pub fn new(region: &str, credentials: &AwsCredentials) -> Self {
        let host = if region.starts_with("cn-") { "amazonaws.com.cn" } else { "amazonaws.com" };
        let endpoint = Endpoint {
            key_is_optional: true,
            base_url: format!("https://bedrock-runtime.{region}.{host}").into(),
            ..Endpoint::vendor(PROVIDER, "", &["AWS_BEARER_TOKEN_BEDROCK"])
        };
        Self { endpoint, signing: Arc::new(AwsSigning::new(PROVIDER, region, credentials)) }
    }

    /// The properties of the request that the decoder needs.
    fn context(request: &ModelRequest) -> DecodeContext {
        DecodeContext {
            structure: match (&request.structure, request.strict) {
                (None, _) => Structure::None,
                (Some(_), Some(true)) => Structure::Native,
                (Some(_), _) => Structure::Tool,
            },
        }
    }
}

/// The properties of the request that the decoder needs.
#[derive(Debug, Clone, Copy)]
struct DecodeContext {
    structure: Structure,
}

/// Where the structured output is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Structure {
    /// None was requested.
    None,
    /// In the text: the model enforces schemas.
    Native,
    /// In a call of [`JSON_RESPONSE`], or in the text if the model was not forced to call it.
    Tool,
}

impl DecodeContext {
    /// True if a call of this tool is the structured output.
    fn is_answer(self, tool_name: &str) -> bool {
        self.structure == Structure::Tool && tool_name == JSON_RESPONSE
    }
}

fn broken(what: impl std::fmt::Display) -> UppError {
    UppError::invalid_response(PROVIDER, format!("invalid Converse response: {what}"))
}

impl Dialect for ConverseDialect {
    fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            image_input: true,
            document_input: true,
            video_input: true,
            audio_input: true,
            ..Capabilities::TEXT
        }
    }

    fn path(&self, model_id: &str, streaming: bool) -> String {
        let action = if streaming { "converse-stream" } else { "converse" };
        format!("/model/{}/{action}", utf8_percent_encode(model_id, UNRESERVED))
    }

    fn takes_native_tools(&self) -> bool {
        true
    }

    fn counts_cache_apart(&self) -> bool {
        true
    }

    fn schema_rules(&self, model_id: &str) -> Option<&'static SchemaRules> {
        models::enforces_schemas(model_id).then_some(&SchemaRules::ANTHROPIC)
    }

    fn settings(&self) -> &'static SettingsTable {
        &SettingsTable::CONVERSE
    }

    fn signing(&self) -> Option<&Arc<dyn TransportLayer>> {
        Some(&self.signing)
    }

    fn framing(&self) -> Framing {
        Framing::AmazonEventStream
    }

    fn encode(&self, model_id: &str, request: &ModelRequest, _streaming: bool) -> Result<Vec<u8>, UppError> {
        encode::encode(model_id, request)
    }

    fn decode(
        &self,
        body: &str,
        request: &ModelRequest,
        sources: Sources<'_>,
    ) -> Result<ModelResponse, UppError> {
        decode::decode(body, Self::context(request), sources)
    }

    fn stream_decoder(&self, request: &ModelRequest) -> Box<dyn StreamDecoder> {
        Box::new(stream::Decoder::new(Self::context(request)))
    }

    fn error_of_body(&self, status: u16, body: &str) -> Option<(ErrorCode, String)> {
        let (code, message) = VendorError::of_status(status, body);
        Some((code_of_words(code, &message), message))
    }
}

/// The vendor reports these as validation errors; only the message tells the difference.
fn code_of_words(code: ErrorCode, message: &str) -> ErrorCode {
    match code {
        ErrorCode::InvalidRequest if message.contains("model identifier is invalid") => {
            ErrorCode::ModelNotFound
        }
        code => code,
    }
}

/// An exception inside a stream.
fn reported_error(exception: &str, data: &str) -> UppError {
    let error = VendorError::of_body(data).into_error(PROVIDER);
    let code = match exception {
        "throttlingException" => ErrorCode::RateLimited,
        "modelTimeoutException" => ErrorCode::Timeout,
        "accessDeniedException" => ErrorCode::AuthenticationFailed,
        "validationException" if error.code == ErrorCode::ProviderError => ErrorCode::InvalidRequest,
        _ => error.code,
    };
    UppError { code: code_of_words(code, &error.message), ..error }
}
