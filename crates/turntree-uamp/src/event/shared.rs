//! Events of both directions.

use turntree_core::json::RawJson;

use crate::types::{Modality, Number};

event! {
    /// Ends a session.
    ///
    /// Spec: UAMP-1.0 §5.3
    SessionEnd = "session.end" {
        /// `user_left`, `timeout`, `error`, or another reason.
        pub reason: Option<String> = "reason",
    }
}

event! {
    /// A message was read. The specification defines no members.
    ///
    /// Spec: UAMP-1.0 §7.1
    MessageRead = "message.read" {}
}

macro_rules! voice_events {
    ($( $(#[$meta:meta])* $name:ident = $kind:literal, )*) => {$(
        event! {
            $(#[$meta])*
            ///
            /// Spec: UAMP-1.0 §7.3
            $name = $kind {
                /// The id of the voice session.
                pub call_id: Option<String> = "call_id",
                /// The offer or the answer of WebRTC.
                pub sdp: Option<String> = "sdp",
                /// The kinds of content.
                pub modalities: Option<Vec<Modality>> = "modalities",
                /// Why the voice session is declined or ended.
                pub reason: Option<String> = "reason",
                /// The duration in milliseconds.
                pub duration_ms: Option<Number> = "duration_ms",
            }
        }
    )*};
}

voice_events! {
    /// Proposes a voice session.
    VoiceInvite = "voice.invite",
    /// Accepts a voice session.
    VoiceAccept = "voice.accept",
    /// Declines a voice session.
    VoiceDecline = "voice.decline",
    /// Ends a voice session.
    VoiceEnd = "voice.end",
}

event! {
    /// A message of an extension, for the handler of its namespace.
    ExtensionMessage = "extension.message" {
        /// The namespace of the extension.
        pub namespace: String = "namespace",
        /// The version of the extension.
        pub extension_version: Option<String> = "extension_version",
        /// The content.
        pub payload: Option<RawJson> = "payload",
    }
}
