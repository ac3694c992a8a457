//! What is said: text or a list of parts, and attachments. ThreadProtocol 1.0.0, "Content Types"; the fields of audio,
//! video and files by analogy with images (decision 15).

use std::fmt;

use serde::de::{MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};

use crate::core::json::object::Field;
use crate::core::json::tagged::{self, Tagged};
use crate::core::json::{RawObject, json_object};
use crate::message::content::Unknown;

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
        /// Its media type, as `video/mp4`.
        pub media_type: Option<String> = "media_type",
        /// Its file name.
        pub name: Option<String> = "name",
    }
}

/// One part of a message.
#[derive(Debug, Clone, PartialEq)]
pub enum ContentPart {
    /// Text.
    Text(TextContent),
    /// A picture.
    Image(ImageContent),
    /// A document or other data.
    File(FileContent),
    /// A sound.
    Audio(AudioContent),
    /// A film.
    Video(VideoContent),
    /// A type this version does not know; carried as it was read.
    Unknown(Unknown),
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

    /// Its `type`.
    pub fn kind(&self) -> &str {
        match self {
            Self::Text(_) => "text",
            Self::Image(_) => "image",
            Self::File(_) => "file",
            Self::Audio(_) => "audio",
            Self::Video(_) => "video",
            Self::Unknown(unknown) => &unknown.kind,
        }
    }
}

impl<'de> Tagged<'de> for ContentPart {
    const TAG: &'static str = "type";

    fn variant<A: MapAccess<'de>>(tag: &str, members: A) -> Result<Self, A::Error> {
        Ok(match tag {
            "text" => Self::Text(TextContent::from_members(members)?),
            "image" => Self::Image(ImageContent::from_members(members)?),
            "file" => Self::File(FileContent::from_members(members)?),
            "audio" => Self::Audio(AudioContent::from_members(members)?),
            "video" => Self::Video(VideoContent::from_members(members)?),
            _ => {
                let members = serde::de::value::MapAccessDeserializer::new(members);
                Self::Unknown(Unknown { kind: tag.into(), members: RawObject::deserialize(members)? })
            }
        })
    }
}

impl<'de> Deserialize<'de> for ContentPart {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        tagged::read(deserializer)
    }
}

impl Serialize for ContentPart {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Text(part) => part.serialize(serializer),
            Self::Image(part) => part.serialize(serializer),
            Self::File(part) => part.serialize(serializer),
            Self::Audio(part) => part.serialize(serializer),
            Self::Video(part) => part.serialize(serializer),
            Self::Unknown(unknown) => {
                use serde::ser::SerializeMap as _;
                let mut map = serializer.serialize_map(None)?;
                map.serialize_entry("type", &unknown.kind)?;
                for (key, value) in unknown.members.iter() {
                    map.serialize_entry(key, value)?;
                }
                map.end()
            }
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
