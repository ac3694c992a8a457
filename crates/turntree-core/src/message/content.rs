//! Content blocks: the pieces of a message. UPP-1.2 §3.

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
    /// What a model thought before it answered. In assistant messages only.
    #[derive(Debug, Clone, PartialEq, Default)]
    pub struct ReasoningBlock {
        tag "type" = "reasoning",
        /// The thinking, as far as the vendor shows it.
        pub text: String = "text",
    }
}

json_object! {
    /// A picture.
    #[derive(Debug, Clone, PartialEq)]
    pub struct ImageBlock {
        tag "type" = "image",
        /// Where its data is.
        pub source: ImageSource = "source",
        /// Its media type, as `image/png`.
        pub mime_type: String = "mimeType",
        /// Width in pixels.
        pub width: Option<u32> = "width",
        /// Height in pixels.
        pub height: Option<u32> = "height",
    }
}

impl Field for ImageBlock {}

json_object! {
    /// A document: PDF or plain text. In user messages only.
    #[derive(Debug, Clone, PartialEq)]
    pub struct DocumentBlock {
        tag "type" = "document",
        /// Where its data is.
        pub source: DocumentSource = "source",
        /// `application/pdf` or `text/plain`.
        pub mime_type: String = "mimeType",
        /// Its title or file name.
        pub title: Option<String> = "title",
    }
}

json_object! {
    /// A sound.
    #[derive(Debug, Clone, PartialEq)]
    pub struct AudioBlock {
        tag "type" = "audio",
        /// The encoded sound.
        pub data: Binary = "data",
        /// Its media type, as `audio/wav`.
        pub mime_type: String = "mimeType",
        /// Length in seconds.
        pub duration: Option<f64> = "duration",
    }
}

json_object! {
    /// A film.
    #[derive(Debug, Clone, PartialEq)]
    pub struct VideoBlock {
        tag "type" = "video",
        /// The encoded film.
        pub data: Binary = "data",
        /// Its media type, as `video/mp4`.
        pub mime_type: String = "mimeType",
        /// Length in seconds.
        pub duration: Option<f64> = "duration",
        /// Width in pixels.
        pub width: Option<u32> = "width",
        /// Height in pixels.
        pub height: Option<u32> = "height",
    }
}

json_object! {
    /// Any other data. In user messages only.
    #[derive(Debug, Clone, PartialEq)]
    pub struct BinaryBlock {
        tag "type" = "binary",
        /// The data.
        pub data: Binary = "data",
        /// Its media type.
        pub mime_type: String = "mimeType",
        /// Facts about it, for the application.
        pub metadata: Option<RawObject> = "metadata",
    }
}

json_object! {
    /// Data as base64 text, kept as it was given.
    #[derive(Debug, Clone, PartialEq)]
    pub struct Base64Source {
        tag "type" = "base64",
        /// Base64, standard alphabet.
        pub data: String = "data",
    }
}

json_object! {
    /// Data that somebody else serves.
    #[derive(Debug, Clone, PartialEq)]
    pub struct UrlSource {
        tag "type" = "url",
        /// Where it is served.
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
    /// A document that is text.
    #[derive(Debug, Clone, PartialEq)]
    pub struct TextSource {
        tag "type" = "text",
        /// The text.
        pub data: String = "data",
    }
}

tagged_union! {
    /// Where the data of an image is.
    pub enum ImageSource by "type" {
        /// As base64 text.
        Base64(Base64Source) = "base64",
        /// At a URL.
        Url(UrlSource) = "url",
        /// In memory.
        Bytes(BytesSource) = "bytes",
    }
}

tagged_union! {
    /// Where the data of a document is.
    pub enum DocumentSource by "type" {
        /// As base64 text.
        Base64(Base64Source) = "base64",
        /// At a URL.
        Url(UrlSource) = "url",
        /// It is text.
        Text(TextSource) = "text",
    }
}

tagged_union! {
    /// One piece of a message.
    pub enum ContentBlock by "type" {
        /// Plain text.
        Text(TextBlock) = "text",
        /// Thinking.
        Reasoning(ReasoningBlock) = "reasoning",
        /// A picture.
        Image(ImageBlock) = "image",
        /// A document.
        Document(DocumentBlock) = "document",
        /// A sound.
        Audio(AudioBlock) = "audio",
        /// A film.
        Video(VideoBlock) = "video",
        /// Any other data.
        Binary(BinaryBlock) = "binary",
    }
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

    /// The text of a text block.
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

/// A raw value as content: text stays text, anything else becomes its JSON (UPP-1.2 §4, tool results).
pub fn raw_as_text(raw: &RawJson) -> String {
    raw.as_string().unwrap_or_else(|| raw.get().to_owned())
}
