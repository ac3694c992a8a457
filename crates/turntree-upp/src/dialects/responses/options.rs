//! The differences between vendors of the Responses format, as data.

use crate::endpoint::Endpoint;
use crate::provider::Capabilities;

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
