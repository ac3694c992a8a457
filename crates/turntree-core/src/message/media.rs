//! Binary data: bytes in memory, base64 in JSON.
//!
//! Spec: UPP-1.2 §2

use std::fmt;

use base64::Engine as _;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig, STANDARD};
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Serialize};

use crate::json::object::Field;
use crate::json::schema::{Definitions, JsonSchema};

/// Decodes base64 with or without padding.
const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &base64::alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// The bytes of an image, audio, a video or a file. Cloning shares the bytes.
///
/// Serializes as standard base64 with padding. Deserializes base64 in the standard or the URL-safe alphabet, with or
/// without padding, and the form `{"0": 104, "1": 105}` that JavaScript writes for a byte array.
#[derive(Clone, PartialEq, Eq, Hash, Default)]
pub struct Binary(bytes::Bytes);

/// The error of a text that is not base64.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not base64: {0}; encode the bytes with the standard alphabet")]
pub struct Base64Error(#[from] base64::DecodeError);

impl Binary {
    /// Wraps bytes.
    pub fn new(bytes: impl Into<bytes::Bytes>) -> Self {
        Self(bytes.into())
    }

    /// The bytes.
    pub fn as_slice(&self) -> &[u8] {
        &self.0
    }

    /// The bytes, without a copy.
    pub fn into_bytes(self) -> bytes::Bytes {
        self.0
    }

    /// Standard base64 with padding.
    pub fn to_base64(&self) -> String {
        STANDARD.encode(&self.0)
    }

    /// Decodes base64 in the standard or the URL-safe alphabet, with or without padding.
    ///
    /// # Errors
    /// [`Base64Error`] for an invalid character or length.
    pub fn from_base64(text: &str) -> Result<Self, Base64Error> {
        let decoded = if text.contains(['-', '_']) {
            LENIENT.decode(text.replace('-', "+").replace('_', "/"))
        } else {
            LENIENT.decode(text)
        };
        Ok(Self(decoded?.into()))
    }
}

impl Field for Binary {}

impl JsonSchema for Binary {
    fn schema(_: &mut Definitions) -> serde_json::Value {
        serde_json::json!({ "type": "string", "contentEncoding": "base64" })
    }
}

impl fmt::Debug for Binary {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "<{} bytes>", self.0.len())
    }
}

impl Serialize for Binary {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.to_base64())
    }
}

impl<'de> Deserialize<'de> for Binary {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Bytes;
        impl<'de> Visitor<'de> for Bytes {
            type Value = Binary;
            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("base64 text")
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<Binary, E> {
                Binary::from_base64(text).map_err(E::custom)
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Binary, A::Error> {
                let mut bytes = Vec::new();
                while let Some((index, byte)) = map.next_entry::<String, u8>()? {
                    if index.parse() != Ok(bytes.len()) {
                        return Err(A::Error::custom("byte indices are not 0, 1, 2 …; send base64 text"));
                    }
                    bytes.push(byte);
                }
                Ok(Binary::new(bytes))
            }
        }
        deserializer.deserialize_any(Bytes)
    }
}
