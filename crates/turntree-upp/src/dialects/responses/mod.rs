//! The Responses format: OpenAI, and vendors with a compatible API.
//!
//! | file | content |
//! |---|---|
//! | `encode` | writes requests |
//! | `decode` | reads whole responses |
//! | `stream` | reads streamed responses |
//! | `output_item` | the items of a response |
//! | `assembly` | combines items into a message, for both readers |
//! | `metadata` | encrypted reasoning and provider items, stored to be sent back |
//!
//! Vendors differ in data ([`ResponsesOptions`]), not in code.
//!
//! Spec: UPP-1.2 §19.0, §19.2

mod assembly;
mod decode;
mod encode;
mod metadata;
mod output_item;
mod stream;

use std::borrow::Cow;

use super::common::VendorError;
use crate::dialect::{Dialect, Sources, StreamDecoder};
use crate::endpoint::Endpoint;
use crate::error::{ErrorCode, UppError};
use crate::provider::Capabilities;
use crate::request::{ModelRequest, ModelResponse};

/// The differences between vendors of this format.
#[derive(Debug, Clone)]
pub struct ResponsesOptions {
    /// Where the API is, and how requests authenticate.
    pub endpoint: Endpoint,
    /// What the API supports.
    pub capabilities: Capabilities,
    /// Which documents are supported.
    pub documents: Documents,
    /// The format of audio and video, if the capabilities include them.
    pub media: Media,
    /// The `detail` of images, if the vendor requires one.
    pub image_detail: Option<&'static str>,
    /// True if provider tools from `params.tools` may be combined with functions.
    pub native_tools: bool,
    /// True if the texts of an assistant message are joined.
    pub joins_texts: bool,
    /// True if items require an id and a status even if the vendor did not create them.
    pub items_need_ids: bool,
    /// True if reasoning may be sent back only with its encrypted content.
    pub reasoning_needs_content: bool,
    /// True if the vendor requires `stream_options` to report the usage of a stream.
    pub stream_options: bool,
    /// True if the usage contains the cost, in US dollars.
    pub reports_cost: bool,
    /// Members of a response that are stored in the metadata, such as `citations`.
    pub metadata_members: &'static [&'static str],
}

/// Which documents a vendor supports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Documents {
    /// None.
    None,
    /// PDF, as base64 or at a URL.
    Pdf,
    /// Any type, including plain text.
    Any,
}

/// The format of audio and video.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Media {
    /// Audio as a file, video as `input_video` with its data in `video`.
    Files,
    /// Audio as `input_audio`, video as `input_video` with its data in `video_url`.
    Parts,
}

impl ResponsesOptions {
    /// OpenAI.
    pub const OPENAI: Self = Self {
        endpoint: Endpoint::vendor("openai", "https://api.openai.com/v1", &["OPENAI_API_KEY"]),
        capabilities: Capabilities { image_input: true, document_input: true, ..Capabilities::TEXT },
        documents: Documents::Pdf,
        media: Media::Files,
        image_detail: None,
        native_tools: true,
        joins_texts: false,
        items_need_ids: false,
        reasoning_needs_content: false,
        stream_options: false,
        reports_cost: false,
        metadata_members: &["service_tier"],
    };

    /// The options of another vendor: those of OpenAI with another endpoint.
    pub fn vendor(
        provider: &'static str,
        base_url: &'static str,
        key_variables: &'static [&'static str],
    ) -> Self {
        Self { endpoint: Endpoint::vendor(provider, base_url, key_variables), ..Self::OPENAI }
    }
}

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

/// What the decoder needs to know of vendor and request.
#[derive(Debug, Clone)]
struct DecodeContext {
    provider: Cow<'static, str>,
    is_structured: bool,
    metadata_members: &'static [&'static str],
    reports_cost: bool,
}

impl DecodeContext {
    fn broken(&self, what: impl std::fmt::Display) -> UppError {
        let message = format!("the answer breaks the responses format: {what}");
        UppError::invalid_response(self.provider.as_ref(), message)
    }

    /// An error inside a stream or a successful response.
    fn reported(&self, data: &str) -> UppError {
        VendorError::of_body(data).into_error(&self.provider)
    }
}

impl Dialect for ResponsesDialect {
    fn endpoint(&self) -> &Endpoint {
        &self.options.endpoint
    }

    fn capabilities(&self) -> Capabilities {
        self.options.capabilities
    }

    fn path(&self, _model_id: &str, _streaming: bool) -> String {
        "/responses".to_owned()
    }

    fn takes_native_tools(&self) -> bool {
        self.options.native_tools
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
