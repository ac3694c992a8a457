//! Reads and writes events.

use serde::de::DeserializeOwned;
use turntree_core::json;
use turntree_core::limits::Limits;

use super::client::ClientEvent;
use super::server::ServerEvent;
use super::system::SystemEvent;
use crate::error::UampError;

/// Limits on one event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EventLimits {
    /// Maximum size in bytes. Default: 16 MiB, which has room for 12 MB of media in base64.
    pub bytes: usize,
    /// Maximum nesting of objects and arrays. Default: 64.
    pub depth: usize,
    /// Maximum number of values. Default: 200 000.
    pub values: usize,
}

impl Default for EventLimits {
    fn default() -> Self {
        Self { bytes: 16 << 20, depth: 64, values: 200_000 }
    }
}

impl EventLimits {
    /// Reads an event from text.
    fn read<T: DeserializeOwned>(&self, text: &str) -> Result<T, UampError> {
        if text.len() > self.bytes {
            return Err(UampError::EventTooLarge { found: text.len(), limit: self.bytes });
        }
        let limits = Limits { bytes: self.bytes, depth: self.depth, values: self.values };
        Ok(json::parse(text, &limits)?)
    }
}

macro_rules! readable {
    ($($name:ident),*) => {$(
        impl $name {
            /// Reads an event. An unknown type is read as [`Self::Unknown`].
            ///
            /// # Errors
            /// [`UampError`] with the place, the rule and the remedy.
            pub fn parse(text: &str, limits: &EventLimits) -> Result<Self, UampError> {
                limits.read(text)
            }

            /// Reads an event from bytes.
            ///
            /// # Errors
            /// As [`Self::parse`], and for bytes that are not UTF-8.
            pub fn parse_bytes(bytes: &[u8], limits: &EventLimits) -> Result<Self, UampError> {
                limits.read(json::check_utf8(bytes)?)
            }

            /// The event as JSON on one line.
            pub fn to_json(&self) -> String {
                json::write(self).unwrap_or_default()
            }
        }
    )*};
}

readable!(ClientEvent, ServerEvent, SystemEvent);

impl ClientEvent {
    /// True for an event that only applications use among themselves (`system.…`). A server ignores it.
    ///
    /// Spec: UAMP-1.0 §11
    pub fn is_internal(&self) -> bool {
        matches!(self, Self::Unknown(unknown) if SystemEvent::KINDS.contains(&&*unknown.kind))
    }
}
