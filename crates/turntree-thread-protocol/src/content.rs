//! Message content: text or a list of parts, and attachments. The fields of audio, video and files follow those of
//! images (decision 15).
//!
//! Spec: ThreadProtocol 1.0.0, "Content Types".

use std::fmt;

use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Serialize};

use turntree_core::json::json_object;
use turntree_core::json::object::Field;
use turntree_core::json::union::tagged_union;

/// The content of a message: plain text, or a list of parts.
#[derive(Debug, Clone, PartialEq)]
pub enum MessageContent {
    /// Plain text.
    Text(String),
    /// Parts.
    Parts(Vec<ContentPart>),
}

impl MessageContent {
    /// The text of all text parts, joined without a separator.
    pub fn text(&self) -> std::borrow::Cow<'_, str> {
        match self {
            Self::Text(text) => text.as_str().into(),
            Self::Parts(parts) => parts.iter().filter_map(ContentPart::as_text).collect::<String>().into(),
        }
    }
}

impl Default for MessageContent {
    fn default() -> Self {
        Self::Text(String::new())
    }
}

impl From<&str> for MessageContent {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<Vec<ContentPart>> for MessageContent {
    fn from(parts: Vec<ContentPart>) -> Self {
        Self::Parts(parts)
    }
}

impl Field for MessageContent {}

impl Serialize for MessageContent {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Text(text) => serializer.serialize_str(text),
            Self::Parts(parts) => parts.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for MessageContent {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Content;
        impl<'de> Visitor<'de> for Content {
            type Value = MessageContent;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a string or a list of content parts")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<MessageContent, E> {
                Ok(MessageContent::Text(text.to_owned()))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<MessageContent, A::Error> {
                let mut parts = Vec::new();
                while let Some(part) = sequence.next_element()? {
                    parts.push(part);
                }
                Ok(MessageContent::Parts(parts))
            }
        }
        deserializer.deserialize_any(Content)
    }
}

json_object! {
    /// A piece of text.
    #[derive(Debug, Clone, PartialEq, Default)]
    pub struct TextContent {
        tag "type" = "text",
        /// The text.
        pub text: String = "text",
    }
}

json_object! {
    /// An image: a URL, inline data, or a file stored by a provider.
    #[derive(Debug, Clone, PartialEq, Default)]
    pub struct ImageContent {
        tag "type" = "image",
        /// The URL.
        pub url: Option<String> = "image_url",
        /// Inline data: base64, standard alphabet, padded.
        pub base64: Option<String> = "image_base64",
        /// The id of the file at its provider.
        pub file_id: Option<String> = "file_id",
        /// The provider that stores the file: `openai`.
        pub provider: Option<String> = "provider",
        /// The media type: `image/png`.
        pub media_type: Option<String> = "media_type",
        /// The file name.
        pub name: Option<String> = "name",
    }
}

json_object! {
    /// A document or other file: a URL, inline data, or a file stored by a provider.
    #[derive(Debug, Clone, PartialEq, Default)]
    pub struct FileContent {
        tag "type" = "file",
        /// The URL.
        pub url: Option<String> = "file_url",
        /// Inline data: base64, standard alphabet, padded.
        pub base64: Option<String> = "file_base64",
        /// The id of the file at its provider.
        pub file_id: Option<String> = "file_id",
        /// The provider that stores the file: `openai`.
        pub provider: Option<String> = "provider",
        /// The media type: `application/pdf`.
        pub media_type: Option<String> = "media_type",
        /// The file name.
        pub name: Option<String> = "name",
    }
}

json_object! {
    /// Audio: a URL, inline data, or a file stored by a provider.
    #[derive(Debug, Clone, PartialEq, Default)]
    pub struct AudioContent {
        tag "type" = "audio",
        /// The URL.
        pub url: Option<String> = "audio_url",
        /// Inline data: base64, standard alphabet, padded.
        pub base64: Option<String> = "audio_base64",
        /// The id of the file at its provider.
        pub file_id: Option<String> = "file_id",
        /// The provider that stores the file: `openai`.
        pub provider: Option<String> = "provider",
        /// The media type: `audio/wav`.
        pub media_type: Option<String> = "media_type",
        /// The file name.
        pub name: Option<String> = "name",
    }
}

json_object! {
    /// A video: a URL, inline data, or a file stored by a provider.
    #[derive(Debug, Clone, PartialEq, Default)]
    pub struct VideoContent {
        tag "type" = "video",
        /// The URL.
        pub url: Option<String> = "video_url",
        /// Inline data: base64, standard alphabet, padded.
        pub base64: Option<String> = "video_base64",
        /// The id of the file at its provider.
        pub file_id: Option<String> = "file_id",
        /// The provider that stores the file: `openai`.
        pub provider: Option<String> = "provider",
        /// The media type: `video/mp4`.
        pub media_type: Option<String> = "media_type",
        /// The file name.
        pub name: Option<String> = "name",
    }
}

tagged_union! {
    /// One part of a message.
    pub enum ContentPart by "type" {
        /// Text.
        Text(TextContent) = "text",
        /// An image.
        Image(ImageContent) = "image",
        /// A document or another file.
        File(FileContent) = "file",
        /// Audio.
        Audio(AudioContent) = "audio",
        /// A video.
        Video(VideoContent) = "video",
    }
}

impl ContentPart {
    /// Creates a text part.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(TextContent { text: text.into(), ..TextContent::default() })
    }

    /// The text of a text part.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(part) => Some(&part.text),
            _ => None,
        }
    }

    /// The inline data of the part, in base64.
    pub fn base64(&self) -> Option<&String> {
        match self {
            Self::Image(part) => part.base64.as_ref(),
            Self::File(part) => part.base64.as_ref(),
            Self::Audio(part) => part.base64.as_ref(),
            Self::Video(part) => part.base64.as_ref(),
            Self::Text(_) | Self::Unknown(_) => None,
        }
    }

    /// As [`Self::base64`], mutable.
    pub fn base64_mut(&mut self) -> Option<&mut String> {
        match self {
            Self::Image(part) => part.base64.as_mut(),
            Self::File(part) => part.base64.as_mut(),
            Self::Audio(part) => part.base64.as_mut(),
            Self::Video(part) => part.base64.as_mut(),
            Self::Text(_) | Self::Unknown(_) => None,
        }
    }
}

json_object! {
    /// A file attached to a user message.
    #[derive(Debug, Clone, PartialEq, Default)]
    pub struct Attachment {
        /// The file name.
        pub name: String = "name",
        /// The URL, if it is not inline.
        pub url: Option<String> = "url",
        /// Inline data: base64, standard alphabet, padded.
        pub data: Option<String> = "data",
        /// The media type.
        pub media_type: String = "media_type",
        /// The size in bytes.
        pub size_bytes: Option<u64> = "size_bytes",
    }
}

impl Attachment {
    /// The content part with the same data; `None` if the attachment has neither data nor a URL.
    pub fn part(&self) -> Option<ContentPart> {
        if self.url.is_none() && self.data.is_none() {
            return None;
        }
        macro_rules! part {
            ($variant:ident($class:ident)) => {
                ContentPart::$variant($class {
                    url: self.url.clone(),
                    base64: self.data.clone(),
                    media_type: Some(self.media_type.clone()),
                    name: Some(self.name.clone()),
                    ..$class::default()
                })
            };
        }
        Some(match self.media_type.split('/').next() {
            Some("image") => part!(Image(ImageContent)),
            Some("audio") => part!(Audio(AudioContent)),
            Some("video") => part!(Video(VideoContent)),
            _ => part!(File(FileContent)),
        })
    }
}
