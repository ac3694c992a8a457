//! Events inside an application. They are not sent to clients, and a server ignores those that a client sends.
//!
//! Spec: UAMP-1.0 §11

use turntree_core::json::RawJson;

use crate::types::ErrorDetails;

event! {
    /// The processing failed.
    SystemError = "system.error" {
        /// The error.
        pub error: Option<ErrorDetails> = "error",
    }
}

event! {
    /// Asks to stop the processing.
    SystemStop = "system.stop" {
        /// Why.
        pub reason: Option<String> = "reason",
    }
}

event! {
    /// Asks to cancel the processing and to release its resources.
    SystemCancel = "system.cancel" {
        /// Why.
        pub reason: Option<String> = "reason",
    }
}

event! {
    /// Asks for a `system.pong`.
    SystemPing = "system.ping" {}
}

event! {
    /// Answers a `system.ping`.
    SystemPong = "system.pong" {}
}

event! {
    /// Nothing handles a message.
    SystemUnroutable = "system.unroutable" {
        /// The message.
        pub message: Option<RawJson> = "message",
    }
}

events! {
    /// An event inside an application.
    SystemEvent {
        /// The processing failed.
        Error(SystemError, boxed) = "system.error",
        /// Asks to stop the processing.
        Stop(SystemStop, boxed) = "system.stop",
        /// Asks to cancel the processing and to release its resources.
        Cancel(SystemCancel, boxed) = "system.cancel",
        /// Asks for a `system.pong`.
        Ping(SystemPing, boxed) = "system.ping",
        /// Answers a `system.ping`.
        Pong(SystemPong, boxed) = "system.pong",
        /// Nothing handles a message.
        Unroutable(SystemUnroutable, boxed) = "system.unroutable",
    }
}
