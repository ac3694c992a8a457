//! Capabilities of models, clients and agents, in one form.
//!
//! Spec: UAMP-1.0 §9

use turntree_core::json::RawObject;

use super::number::Number;
use super::session::{AudioFormat, Modality};

object! {
    /// Support of images.
    ImageCapabilities {
        /// The formats.
        pub formats: Option<Vec<String>> = "formats",
        /// The largest size in bytes.
        pub max_size_bytes: Option<Number> = "max_size_bytes",
        /// The levels of detail.
        pub detail_levels: Option<Vec<String>> = "detail_levels",
        /// The largest number of images in a request.
        pub max_images_per_request: Option<Number> = "max_images_per_request",
    }
}

object! {
    /// Support of audio.
    AudioCapabilities {
        /// The formats of input.
        pub input_formats: Option<Vec<AudioFormat>> = "input_formats",
        /// The formats of output.
        pub output_formats: Option<Vec<AudioFormat>> = "output_formats",
        /// The sample rates in hertz.
        pub sample_rates: Option<Vec<Number>> = "sample_rates",
        /// True if audio is processed while it is spoken.
        pub supports_realtime: Option<bool> = "supports_realtime",
        /// The voices.
        pub voices: Option<Vec<String>> = "voices",
    }
}

object! {
    /// Support of files.
    FileCapabilities {
        /// The media types.
        pub supported_mime_types: Option<Vec<String>> = "supported_mime_types",
        /// True for PDF.
        pub supports_pdf: Option<bool> = "supports_pdf",
        /// True for source code.
        pub supports_code: Option<bool> = "supports_code",
        /// True for structured data.
        pub supports_structured_data: Option<bool> = "supports_structured_data",
    }
}

object! {
    /// Support of tools.
    ToolCapabilities {
        /// True if tools can be called.
        pub supports_tools: Option<bool> = "supports_tools",
        /// True if several tools run at once.
        pub supports_parallel_tools: Option<bool> = "supports_parallel_tools",
        /// True if arguments are streamed.
        pub supports_streaming_tools: Option<bool> = "supports_streaming_tools",
        /// The largest number of tools in a request.
        pub max_tools_per_request: Option<Number> = "max_tools_per_request",
        /// Tools that need no definition.
        pub built_in_tools: Option<Vec<String>> = "built_in_tools",
    }
}

object! {
    /// What a model, a client or an agent can do.
    Capabilities {
        /// The id of the model, client or agent.
        pub id: String = "id",
        /// The vendor.
        pub provider: String = "provider",
        /// The kinds of content.
        pub modalities: Vec<Modality> = "modalities", default,
        /// True if responses are streamed. Missing means false.
        pub supports_streaming: bool = "supports_streaming", default,
        /// True for reasoning.
        pub supports_thinking: bool = "supports_thinking", default,
        /// True if contexts are cached.
        pub supports_caching: bool = "supports_caching", default,
        /// The largest number of input tokens.
        pub context_window: Option<Number> = "context_window",
        /// The largest number of output tokens.
        pub max_output_tokens: Option<Number> = "max_output_tokens",
        /// Support of images.
        pub image: Option<ImageCapabilities> = "image",
        /// Support of audio.
        pub audio: Option<AudioCapabilities> = "audio",
        /// Support of files.
        pub file: Option<FileCapabilities> = "file",
        /// Support of tools.
        pub tools: Option<ToolCapabilities> = "tools",
        /// What an agent provides to others.
        pub provides: Option<Vec<String>> = "provides",
        /// Widgets that a client can show.
        pub widgets: Option<Vec<String>> = "widgets",
        /// Endpoints of an agent.
        pub endpoints: Option<Vec<String>> = "endpoints",
        /// Settings by vendor.
        pub extensions: Option<RawObject> = "extensions",
    }
}
