//! The Responses wire: OpenAI's own, and that of others who took it over. UPP-1.2 §19.0, §19.2.
//!
//! `encode` writes requests, `decode` reads whole answers, `stream` reads them piece by piece; both readers make
//! output items (`output`) and put them together in one place (`answer`). Reasoning is kept sealed as it came and
//! goes back in its place; so do items that UPP has no words for. What tells vendors apart is data: [`ResponsesOptions`].

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

/// What tells one vendor of this wire from another.
#[derive(Debug, Clone)]
pub struct ResponsesOptions {
    /// Where the API is, and how requests authenticate.
    pub endpoint: Endpoint,
    /// What it can take and do.
    pub capabilities: Capabilities,
    /// Which documents it reads.
    pub documents: Documents,
    /// How it takes sound and film, where its capabilities say that it does.
    pub media: Media,
    /// How closely it is to look at images, where it must be told.
    pub image_detail: Option<&'static str>,
    /// Whether its own tools, from `params.tools`, may stand beside ours.
    pub native_tools: bool,
    /// Whether an assistant's texts are sent as one.
    pub joins_texts: bool,
    /// Whether items need ids and a status even when they are not the vendor's.
    pub items_need_ids: bool,
    /// Whether reasoning may go back only with its encrypted content.
    pub reasoning_needs_content: bool,
    /// Whether it wants `stream_options`, to tell the usage of a stream.
    pub stream_options: bool,
    /// Whether its usage tells the cost, in US dollars.
    pub reports_cost: bool,
    /// Members of an answer that are kept in its metadata, as `citations`.
    pub kept_members: &'static [&'static str],
}

/// Which documents a vendor reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Documents {
    /// None.
    None,
    /// PDF, as base64 or at a URL.
    Pdf,
    /// Any, also plain text.
    Any,
}

/// How a vendor takes sound and film.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Media {
    /// Sound as a file, film as `input_video` with its data under `video`.
    Files,
    /// Sound as `input_audio`, film as `input_video` with its data under `video_url`.
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
        kept_members: &["service_tier"],
    };

    /// Another vendor, who speaks the wire as OpenAI does until its data say otherwise.
    pub fn vendor(
        provider: &'static str,
        base_url: &'static str,
        key_variables: &'static [&'static str],
    ) -> Self {
        Self { endpoint: Endpoint::vendor(provider, base_url, key_variables), ..Self::OPENAI }
    }
}

/// The Responses wire as one vendor speaks it.
#[derive(Debug, Clone)]
pub struct ResponsesDialect {
    options: ResponsesOptions,
}

impl ResponsesDialect {
    /// The wire of a vendor.
    pub const fn new(options: ResponsesOptions) -> Self {
        Self { options }
    }

    fn context(&self, request: &ModelRequest) -> DecodeContext {
        DecodeContext {
            provider: self.options.endpoint.provider.clone(),
            is_structured: request.structure.is_some(),
            kept_members: self.options.kept_members,
            reports_cost: self.options.reports_cost,
        }
    }
}

/// What a reader has to know of the vendor and the request.
#[derive(Debug, Clone)]
struct DecodeContext {
    provider: Cow<'static, str>,
    is_structured: bool,
    kept_members: &'static [&'static str],
    reports_cost: bool,
}

impl DecodeContext {
    fn broken(&self, what: impl std::fmt::Display) -> UppError {
        let message = format!("the answer breaks the responses format: {what}");
        UppError::invalid_response(self.provider.as_ref(), message)
    }

    /// An error that the vendor tells in a stream, or in a body with a status of success.
    fn told(&self, data: &str) -> UppError {
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
