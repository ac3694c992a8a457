//! What is said: text or a list of parts, and attachments. ThreadProtocol 1.0.0, "Content Types"; the fields of audio,
//! video and files by analogy with images (decision 15).

use std::fmt;

use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Serialize};

use turntree_core::json::json_object;
use turntree_core::json::object::Field;
use turntree_core::json::union::tagged_union;

/// The content of a message: plain text, or parts in order.
#[derive(Debug, Clone, PartialEq)]
pub enum MessageContent {
    /// Plain text.
    Text(String),
    /// Parts.
    Parts(Vec<ContentPart>),
}

impl MessageContent {
    /// The text of all text parts, joined without separator.
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
    /// A picture: by URL, inline, or as a file that a provider keeps.
    #[derive(Debug, Clone, PartialEq, Default)]
    pub struct ImageContent {
        tag "type" = "image",
        /// Where it is served.
        pub url: Option<String> = "image_url",
        /// Its data: base64, standard alphabet, padded.
        pub base64: Option<String> = "image_base64",
        /// The id under which a provider keeps it.
        pub file_id: Option<String> = "file_id",
        /// Who keeps it, as `openai`.
        pub provider: Option<String> = "provider",
        /// Its media type, as `image/png`.
        pub media_type: Option<String> = "media_type",
        /// Its file name.
        pub name: Option<String> = "name",
    }
}

json_object! {
    /// A file that is neither picture, sound nor film: a document or any other data.
    #[derive(Debug, Clone, PartialEq, Default)]
    pub struct FileContent {
        tag "type" = "file",
        /// Where it is served.
        pub url: Option<String> = "file_url",
        /// Its data: base64, standard alphabet, padded.
        pub base64: Option<String> = "file_base64",
        /// The id under which a provider keeps it.
        pub file_id: Option<String> = "file_id",
        /// Who keeps it, as `openai`.
        pub provider: Option<String> = "provider",
        /// Its media type, as `application/pdf`.
        pub media_type: Option<String> = "media_type",
        /// Its file name.
        pub name: Option<String> = "name",
    }
}

json_object! {
    /// A sound.
    #[derive(Debug, Clone, PartialEq, Default)]
    pub struct AudioContent {
        tag "type" = "audio",
        /// Where it is served.
        pub url: Option<String> = "audio_url",
        /// Its data: base64, standard alphabet, padded.
        pub base64: Option<String> = "audio_base64",
        /// The id under which a provider keeps it.
        pub file_id: Option<String> = "file_id",
        /// Who keeps it, as `openai`.
        pub provider: Option<String> = "provider",
        /// Its media type, as `audio/wav`.
        pub media_type: Option<String> = "media_type",
        /// Its file name.
        pub name: Option<String> = "name",
    }
}

json_object! {
    /// A film.
    #[derive(Debug, Clone, PartialEq, Default)]
    pub struct VideoContent {
        tag "type" = "video",
        /// Where it is served.
        pub url: Option<String> = "video_url",
        /// Its data: base64, standard alphabet, padded.
        pub base64: Option<String> = "video_base64",
        /// The id under which a provider keeps it.
        pub file_id: Option<String> = "file_id",
        /// Who keeps it, as `openai`.
        pub provider: Option<String> = "provider",
        /// Its media type, as `video/mp4`.
        pub media_type: Option<String> = "media_type",
        /// Its file name.
        pub name: Option<String> = "name",
    }
}

tagged_union! {
    /// One part of a message.
    pub enum ContentPart by "type" {
        /// Text.
        Text(TextContent) = "text",
        /// A picture.
        Image(ImageContent) = "image",
        /// A document or other data.
        File(FileContent) = "file",
        /// A sound.
        Audio(AudioContent) = "audio",
        /// A film.
        Video(VideoContent) = "video",
    }
}

impl ContentPart {
    /// A text part.
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

    /// The data of a part that holds its own, in base64.
    pub fn base64(&self) -> Option<&String> {
        match self {
            Self::Image(part) => part.base64.as_ref(),
            Self::File(part) => part.base64.as_ref(),
            Self::Audio(part) => part.base64.as_ref(),
            Self::Video(part) => part.base64.as_ref(),
            Self::Text(_) | Self::Unknown(_) => None,
        }
    }

    /// As [`Self::base64`], to change it.
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
    /// Something that came with a user message, beside its content.
    #[derive(Debug, Clone, PartialEq, Default)]
    pub struct Attachment {
        /// Its file name.
        pub name: String = "name",
        /// Where it is served.
        pub url: Option<String> = "url",
        /// Its data: base64, standard alphabet, padded.
        pub data: Option<String> = "data",
        /// Its media type.
        pub media_type: String = "media_type",
        /// Its size.
        pub size_bytes: Option<u64> = "size_bytes",
    }
}

impl Attachment {
    /// The content part that it would be in the content itself; `None` where it says neither its data nor its place.
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
