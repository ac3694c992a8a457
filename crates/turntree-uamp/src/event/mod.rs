//! Events: what a client and a server send each other.
//!
//! Unknown members and unknown types are preserved as they were read, so that an event can be forwarded.
//!
//! Spec: UAMP-1.0 §4–7, §11, §15

#[macro_use]
mod macros;

mod client;
mod media;
mod parse;
mod payment;
mod server;
mod shared;
mod system;
mod unknown;

use std::borrow::Cow;

pub use self::client::{
    CapabilitiesQuery, ClientCapabilities, ClientEvent, InputText, InputTyping, Ping, ResponseCancel,
    ResponseCreate, SessionCreate, SessionUpdate, ToolResultEvent,
};
pub use self::media::{InputAudio, InputFile, InputImage, InputVideo};
pub use self::parse::EventLimits;
pub use self::payment::{PaymentAccepted, PaymentBalance, PaymentError, PaymentRequired, PaymentSubmit};
pub use self::server::{
    AudioDeltaEvent, AudioDone, CapabilitiesEvent, MessageCreated, Pong, PresenceOffline, PresenceOnline,
    PresenceTyping, Progress, RateLimit, ResponseCancelled, ResponseCreated, ResponseDelta, ResponseDone,
    ResponseError, ServerEvent, SessionCreated, SessionError, SessionUpdated, Thinking, ToolCallDone,
    ToolCallEvent, TranscriptDelta, TranscriptDone, UsageDelta,
};
pub use self::shared::{
    ExtensionMessage, MessageRead, SessionEnd, VoiceAccept, VoiceDecline, VoiceEnd, VoiceInvite,
};
pub use self::system::{
    SystemCancel, SystemError, SystemEvent, SystemPing, SystemPong, SystemStop, SystemUnroutable,
};

/// The members that all events have.
///
/// Spec: UAMP-1.0 §4
pub trait Envelope {
    /// The id of the event.
    fn event_id(&self) -> Option<Cow<'_, str>>;
    /// The session.
    fn session_id(&self) -> Option<Cow<'_, str>>;
    /// The position of the event in the log of its session.
    fn seq(&self) -> Option<u64>;
    /// Sets the id of the event.
    fn set_event_id(&mut self, id: String);
    /// Sets the time, in milliseconds since 1970.
    fn set_timestamp(&mut self, milliseconds: i64);
    /// Sets the session.
    fn set_session_id(&mut self, id: String);
    /// Sets the position of the event in the log of its session.
    fn set_seq(&mut self, seq: u64);
}
