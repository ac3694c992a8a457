//! Media as a URL or as base64.
//!
//! Spec: UAMP-1.0 §8.4.1

use std::fmt;

use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Value, json};
use turntree_core::json::object::Field;
use turntree_core::json::schema::{Definitions, JsonSchema};

object! {
    /// A reference to media.
    MediaUrl {
        /// The URL: absolute, `data:`, or a path of the server.
        pub url: String = "url",
    }
}

/// The data of an image, of audio, of a video or of a file.
#[derive(Debug, Clone, PartialEq)]
pub enum Media {
    /// An object with a URL.
    Url(MediaUrl),
    /// A string: base64, or a URL.
    Text(String),
}

impl Media {
    /// A reference to this URL.
    pub fn from_url(url: impl Into<String>) -> Self {
        Self::Url(MediaUrl { url: url.into(), ..MediaUrl::default() })
    }

    /// The URL. A string is a URL if it begins with `http:`, `https:`, `data:` or `/`, except for `//`, which is the
    /// beginning of base64 data too.
    pub fn url(&self) -> Option<&str> {
        match self {
            Self::Url(reference) => Some(&reference.url),
            Self::Text(text) => is_url(text).then_some(text),
        }
    }

    /// The base64 text, if the data is part of the event.
    pub fn base64(&self) -> Option<&str> {
        match self {
            Self::Url(_) => None,
            Self::Text(text) => (!is_url(text)).then_some(text),
        }
    }

    /// The id in a URL `/api/content/<uuid>`: the id of the content.
    ///
    /// Spec: UAMP-1.0 §8.5.4
    pub fn content_id(&self) -> Option<&str> {
        let (_, rest) = self.url()?.split_once("/api/content/")?;
        let id = rest.split(['/', '?', '#']).next()?;
        is_uuid(id).then_some(id)
    }
}

impl Default for Media {
    fn default() -> Self {
        Self::Text(String::new())
    }
}

fn is_url(text: &str) -> bool {
    let has_scheme = ["http:", "https:", "data:"]
        .iter()
        .any(|scheme| text.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme)));
    // `/9j/…` is how every JPEG begins in base64.
    has_scheme || (text.starts_with('/') && !text.starts_with("/9j/") && !text.starts_with("//"))
}

fn is_uuid(text: &str) -> bool {
    let groups = [8, 4, 4, 4, 12];
    let mut parts = text.split('-');
    groups.iter().all(|length| {
        parts.next().is_some_and(|part| part.len() == *length && part.bytes().all(|b| b.is_ascii_hexdigit()))
    }) && parts.next().is_none()
}

impl Serialize for Media {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Url(reference) => reference.serialize(serializer),
            Self::Text(text) => serializer.serialize_str(text),
        }
    }
}

impl<'de> Deserialize<'de> for Media {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;
        impl<'de> Visitor<'de> for Either {
            type Value = Media;
            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("base64 text or an object with \"url\"")
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<Media, E> {
                Ok(Media::Text(text.to_owned()))
            }
            fn visit_string<E: Error>(self, text: String) -> Result<Media, E> {
                Ok(Media::Text(text))
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Media, A::Error> {
                Ok(Media::Url(MediaUrl::from_members(map)?))
            }
        }
        deserializer.deserialize_any(Either)
    }
}

impl Field for Media {}

impl JsonSchema for Media {
    fn schema(definitions: &mut Definitions) -> Value {
        json!({ "anyOf": [{ "type": "string" }, MediaUrl::schema(definitions)] })
    }
}
