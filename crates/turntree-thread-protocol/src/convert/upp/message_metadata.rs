//! `metadata.turntree` of an action: what no action holds of the message it belongs to.

use turntree_core::json::{RawJson, RawObject, json_object};

/// The namespace of what the way back needs.
pub(super) const NAMESPACE: &str = "turntree";

json_object! {
    /// What an action says about the message it belongs to.
    #[derive(Debug, Clone, PartialEq)]
    pub(super) struct MessageMetadata {
        /// The place of the message in the history.
        pub m: u64 = "m",
        /// In the first action of a message: its id.
        pub id: Option<String> = "id",
        /// In the first action of a message: vendor facts.
        pub metadata: Option<RawObject> = "metadata",
        /// The whole message, where nothing else gives it back.
        pub raw: Option<RawJson> = "raw",
    }
}
