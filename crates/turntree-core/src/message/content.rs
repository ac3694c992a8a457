//! Content blocks: the parts of a message.
//!
//! Spec: UPP-1.2 §3

use super::media::Binary;
use crate::json::object::Field;
pub use crate::json::union::Unknown;
use crate::json::union::tagged_union;
use crate::json::{RawJson, RawObject, json_object};

json_object! {
    /// Plain text.
    #[derive(Debug, Clone, PartialEq, Default)]
    pub struct TextBlock {
        tag "type" = "text",
        /// The text.
        pub text: String = "text",
    }
}

json_object! {
    /// The reasoning of a model. Only in assistant messages.
    #[derive(Debug, Clone, PartialEq, Default)]
    pub struct ReasoningBlock {
        tag "type" = "reasoning",
        /// The reasoning text that the vendor exposes.
        pub text: String = "text",
    }
}

json_object! {
    /// An image.
    #[derive(Debug, Clone, PartialEq)]
    pub struct ImageBlock {
        tag "type" = "image",
        /// The source of the data.
        pub source: ImageSource = "source",
        /// The media type, for example `image/png`.
        pub mime_type: String = "mimeType",
        /// The width in pixels.
        pub width: Option<u32> = "width",
        /// The height in pixels.
        pub height: Option<u32> = "height",
    }
}

impl Field for ImageBlock {}

json_object! {
    /// A document: PDF or plain text. Only in user messages.
    #[derive(Debug, Clone, PartialEq)]
    pub struct DocumentBlock {
        tag "type" = "document",
        /// The source of the data.
        pub source: DocumentSource = "source",
        /// `application/pdf` or `text/plain`.
        pub mime_type: String = "mimeType",
        /// The title or the file name.
        pub title: Option<String> = "title",
    }
}

json_object! {
    /// An audio clip.
    #[derive(Debug, Clone, PartialEq)]
    pub struct AudioBlock {
        tag "type" = "audio",
        /// The encoded audio.
        pub data: Binary = "data",
        /// The media type, for example `audio/wav`.
        pub mime_type: String = "mimeType",
        /// The duration in seconds.
        pub duration: Option<f64> = "duration",
    }
}

json_object! {
    /// A video.
    #[derive(Debug, Clone, PartialEq)]
    pub struct VideoBlock {
        tag "type" = "video",
        /// The encoded video.
        pub data: Binary = "data",
        /// The media type, for example `video/mp4`.
        pub mime_type: String = "mimeType",
        /// The duration in seconds.
        pub duration: Option<f64> = "duration",
        /// The width in pixels.
        pub width: Option<u32> = "width",
        /// The height in pixels.
        pub height: Option<u32> = "height",
    }
}

json_object! {
    /// Other binary data. Only in user messages.
    #[derive(Debug, Clone, PartialEq)]
    pub struct BinaryBlock {
        tag "type" = "binary",
        /// The data.
        pub data: Binary = "data",
        /// The media type.
        pub mime_type: String = "mimeType",
        /// Metadata of the application.
        pub metadata: Option<RawObject> = "metadata",
    }
}

json_object! {
    /// Code that a vendor ran for the model, and its output. Only in assistant messages. UPP-1.2 does not define it.
    #[derive(Debug, Clone, PartialEq, Default)]
    pub struct CodeExecutionBlock {
        tag "type" = "code_execution",
        /// The code, if the vendor reports it.
        pub code: Option<String> = "code",
        /// The language of the code, such as `python` or `bash`.
        pub language: Option<String> = "language",
        /// What the code wrote, errors included; `None` if the vendor does not report it.
        pub output: Option<String> = "output",
        /// True if the code failed.
        pub is_error: Option<bool> = "isError",
    }
}

json_object! {
    /// Data as base64 text. The text is preserved as given.
    #[derive(Debug, Clone, PartialEq)]
    pub struct Base64Source {
        tag "type" = "base64",
        /// Base64 in the standard alphabet.
        pub data: String = "data",
    }
}

json_object! {
    /// Data at a URL.
    #[derive(Debug, Clone, PartialEq)]
    pub struct UrlSource {
        tag "type" = "url",
        /// The URL.
        pub url: String = "url",
    }
}

json_object! {
    /// Data in memory.
    #[derive(Debug, Clone, PartialEq)]
    pub struct BytesSource {
        tag "type" = "bytes",
        /// The data.
        pub data: Binary = "data",
    }
}

json_object! {
    /// A plain text document.
    #[derive(Debug, Clone, PartialEq)]
    pub struct TextSource {
        tag "type" = "text",
        /// The text.
        pub data: String = "data",
    }
}

tagged_union! {
    /// The source of an image.
    pub enum ImageSource by "type" {
        /// Base64 text.
        Base64(Base64Source) = "base64",
        /// A URL.
        Url(UrlSource) = "url",
        /// Bytes in memory.
        Bytes(BytesSource) = "bytes",
    }
}

tagged_union! {
    /// The source of a document.
    pub enum DocumentSource by "type" {
        /// Base64 text.
        Base64(Base64Source) = "base64",
        /// A URL.
        Url(UrlSource) = "url",
        /// Plain text.
        Text(TextSource) = "text",
    }
}

tagged_union! {
    /// One part of a message.
    pub enum ContentBlock by "type" {
        /// Plain text.
        Text(TextBlock) = "text",
        /// The reasoning of a model.
        Reasoning(ReasoningBlock) = "reasoning",
        /// An image.
        Image(ImageBlock, boxed) = "image",
        /// A document.
        Document(DocumentBlock, boxed) = "document",
        /// An audio clip.
        Audio(AudioBlock, boxed) = "audio",
        /// A video.
        Video(VideoBlock, boxed) = "video",
        /// Other binary data.
        Binary(BinaryBlock, boxed) = "binary",
        /// Code that a vendor ran, and its output.
        CodeExecution(CodeExecutionBlock, boxed) = "code_execution",
    }
}

impl CodeExecutionBlock {
    /// Code and output as fenced texts, for readers that have no such block.
    pub fn to_markdown(&self) -> String {
        let language = self.language.as_deref().unwrap_or_default();
        let code = self.code.as_ref().map(|code| fenced(language, code));
        let output = self.output.as_ref().filter(|output| !output.is_empty());
        let texts: Vec<String> = code.into_iter().chain(output.map(|output| fenced("", output))).collect();
        texts.join("\n\n")
    }
}

fn fenced(language: &str, text: &str) -> String {
    // A fence is longer than any run of backticks in the text.
    let longest = text.split(|character| character != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.saturating_add(1).max(3));
    let text = text.strip_suffix('\n').unwrap_or(text);
    format!("{fence}{language}\n{text}\n{fence}")
}

impl ContentBlock {
    /// A text block.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(TextBlock { text: text.into(), ..TextBlock::default() })
    }

    /// A reasoning block.
    pub fn reasoning(text: impl Into<String>) -> Self {
        Self::Reasoning(ReasoningBlock { text: text.into(), ..ReasoningBlock::default() })
    }

    /// About the size of the JSON in bytes: that of its texts and data.
    pub fn size_hint(&self) -> usize {
        match self {
            Self::Text(block) => block.text.len(),
            Self::Reasoning(block) => block.text.len(),
            Self::Image(block) => match &block.source {
                ImageSource::Base64(source) => source.data.len(),
                ImageSource::Url(source) => source.url.len(),
                ImageSource::Bytes(source) => source.data.as_slice().len(),
                ImageSource::Unknown(_) => 0,
            },
            Self::Document(block) => match &block.source {
                DocumentSource::Base64(source) => source.data.len(),
                DocumentSource::Url(source) => source.url.len(),
                DocumentSource::Text(source) => source.data.len(),
                DocumentSource::Unknown(_) => 0,
            },
            Self::Audio(block) => block.data.as_slice().len(),
            Self::Video(block) => block.data.as_slice().len(),
            Self::Binary(block) => block.data.as_slice().len(),
            Self::CodeExecution(block) => {
                let output = block.output.as_ref().map_or(0, String::len);
                block.code.as_ref().map_or(0, String::len).saturating_add(output)
            }
            Self::Unknown(_) => 0,
        }
    }

    /// The text of a text block; `None` for other blocks.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(block) => Some(&block.text),
            _ => None,
        }
    }
}

impl ImageSource {
    /// The data as base64; `None` for a URL.
    pub fn to_base64(&self) -> Option<std::borrow::Cow<'_, str>> {
        match self {
            Self::Base64(source) => Some(source.data.as_str().into()),
            Self::Bytes(source) => Some(source.data.to_base64().into()),
            Self::Url(_) | Self::Unknown(_) => None,
        }
    }
}

/// Converts the result of a tool to text: a string to its text, other values to their JSON.
///
/// Spec: UPP-1.2 §4
pub fn raw_as_text(raw: &RawJson) -> String {
    raw.as_string().unwrap_or_else(|| raw.get().to_owned())
}
