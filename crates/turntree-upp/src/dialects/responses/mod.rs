//! The Responses format: OpenAI, and vendors with a compatible API.
//!
//! | file | content |
//! |---|---|
//! | `options` | differences between vendors, as data |
//! | `encode` | writes requests |
//! | `decode` | reads whole responses |
//! | `stream` | reads streamed responses |
//! | `output_item` | the items of a response |
//! | `assembly` | combines items into a message, for both readers |
//! | `code_execution` | code that the vendor ran |
//! | `tools` | writes tools and structured output |
//! | `metadata` | encrypted reasoning and provider items, stored to be sent back |
//!
//! Vendors differ in data ([`ResponsesOptions`]), not in code.
//!
//! Spec: UPP-1.2 §19.0, §19.2

mod assembly;
mod code_execution;
mod context;
mod decode;
mod encode;
mod metadata;
mod options;
mod output_item;
mod stream;
mod tools;

use super::common::VendorError;
use crate::dialect::{Dialect, Sources, StreamDecoder};
use crate::endpoint::Endpoint;
use crate::error::{ErrorCode, UppError};
use crate::provider::Capabilities;
use crate::request::{ModelRequest, ModelResponse};
use crate::settings::SettingsTable;
use crate::structured_output::SchemaRules;

use self::context::DecodeContext;

pub use self::options::{Documents, Media, ResponsesOptions};

/// The Responses dialect of one vendor.
#[derive(Debug, Clone)]
pub struct ResponsesDialect {
    options: ResponsesOptions,
}

impl ResponsesDialect {
    /// Creates the dialect of a vendor.
    pub const fn new(options: ResponsesOptions) -> Self {
        Self { options }
    }

    fn context(&self, request: &ModelRequest) -> DecodeContext {
        DecodeContext {
            provider: self.options.endpoint.provider.clone(),
            is_structured: request.structure.is_some(),
            metadata_members: self.options.metadata_members,
            reports_cost: self.options.reports_cost,
        }
    }
}

impl Dialect for ResponsesDialect {
    fn endpoint(&self) -> &Endpoint {
        &self.options.endpoint
    }

    fn capabilities(&self) -> Capabilities {
        self.options.capabilities
    }

    fn settings(&self) -> &'static SettingsTable {
        &SettingsTable::RESPONSES
    }

    fn path(&self, _model_id: &str, _streaming: bool) -> String {
        "/responses".to_owned()
    }

    fn takes_native_tools(&self) -> bool {
        self.options.native_tools
    }

    fn schema_rules(&self, _model_id: &str) -> Option<&'static SchemaRules> {
        Some(&SchemaRules::OPENAI)
    }

    fn encode(&self, model_id: &str, request: &ModelRequest, streaming: bool) -> Result<Vec<u8>, UppError> {
        encode::encode(&self.options, model_id, request, streaming)
    }

    fn decode(
        &self,
        body: &str,
        request: &ModelRequest,
        sources: Sources<'_>,
    ) -> Result<ModelResponse, UppError> {
        decode::decode(body, &self.context(request), sources)
    }

    fn stream_decoder(&self, request: &ModelRequest) -> Box<dyn StreamDecoder> {
        Box::new(stream::Decoder::new(self.context(request)))
    }

    fn error_of_body(&self, status: u16, body: &str) -> Option<(ErrorCode, String)> {
        Some(VendorError::of_status(status, body))
    }
}
