//! `metadata.turntree` of an action: the fields of its source message that no action holds.

use turntree_core::json::{RawJson, RawObject, json_object};

/// The namespace of the round-trip metadata.
pub(super) use crate::roundtrip_metadata::TURNTREE as NAMESPACE;

json_object! {
    /// Round-trip metadata of an action.
    #[derive(Debug, Clone, PartialEq)]
    pub(super) struct MessageMetadata {
        /// The index of the message in the history.
        pub m: u64 = "m",
        /// The id of the message, in its first action.
        pub id: Option<String> = "id",
        /// The provider metadata of the message, in its first action.
        pub metadata: Option<RawObject> = "metadata",
        /// The whole message, if the actions cannot reproduce it.
        pub raw: Option<RawJson> = "raw",
    }
}
