//! Events of servers.
//!
//! Spec: UAMP-1.0 §6, §7.1

use super::payment::{PaymentAccepted, PaymentBalance, PaymentError, PaymentRequired};
use super::shared::{
    ExtensionMessage, MessageRead, SessionEnd, VoiceAccept, VoiceDecline, VoiceEnd, VoiceInvite,
};
use crate::types::{
    Capabilities, ContentItem, Delta, ErrorDetails, Number, ProgressTarget, Response, Session, UsageStats,
};

event! {
    /// The session exists.
    SessionCreated = "session.created" {
        /// The version of the server.
        pub uamp_version: String = "uamp_version",
        /// The session.
        pub session: Session = "session",
        /// The chat that the session belongs to.
        pub chat: Option<String> = "chat",
        /// The agent.
        pub agent: Option<String> = "agent",
        /// True if the session existed before and is continued.
        pub resumed: Option<bool> = "resumed",
    }
}

event! {
    /// The session has changed.
    SessionUpdated = "session.updated" {}
}

event! {
    /// An error of the session.
    SessionError = "session.error" {
        /// The error.
        pub error: ErrorDetails = "error",
        /// The id of the event that caused it.
        pub reply_to: Option<String> = "reply_to",
    }
}

event! {
    /// What the agent can do.
    CapabilitiesEvent = "capabilities" {
        /// The capabilities.
        pub capabilities: Capabilities = "capabilities",
    }
}

event! {
    /// A response has started.
    ResponseCreated = "response.created" {
        /// The response.
        pub response_id: String = "response_id",
    }
}

event! {
    /// A piece of a response.
    ResponseDelta = "response.delta" {
        /// The response.
        pub response_id: String = "response_id",
        /// The piece.
        pub delta: Delta = "delta",
    }
}

event! {
    /// A response is complete.
    ResponseDone = "response.done" {
        /// The response.
        pub response_id: Option<String> = "response_id",
        /// The complete response.
        pub response: Response = "response",
        /// The signature, a JWT.
        pub signature: Option<String> = "signature",
    }
}

event! {
    /// A response has failed, or a request for one is refused.
    ResponseError = "response.error" {
        /// The response; `None` if no response ends with this error.
        pub response_id: Option<String> = "response_id",
        /// The error.
        pub error: ErrorDetails = "error",
        /// The id of the event that caused it.
        pub reply_to: Option<String> = "reply_to",
    }
}

event! {
    /// A response was cancelled.
    ResponseCancelled = "response.cancelled" {
        /// The response.
        pub response_id: Option<String> = "response_id",
        /// The output until then.
        pub partial_output: Option<Vec<ContentItem>> = "partial_output",
    }
}

event! {
    /// Asks the client to run a tool.
    ToolCallEvent = "tool.call" {
        /// The id of the call.
        pub call_id: String = "call_id",
        /// The name of the tool.
        pub name: String = "name",
        /// The arguments as JSON text.
        pub arguments: String = "arguments",
        /// The response.
        pub response_id: Option<String> = "response_id",
    }
}

event! {
    /// A tool of the server has finished.
    ToolCallDone = "tool.call_done" {
        /// The id of the call.
        pub call_id: String = "call_id",
        /// The response.
        pub response_id: Option<String> = "response_id",
    }
}

event! {
    /// The progress of a longer operation.
    Progress = "progress" {
        /// What makes progress.
        pub target: ProgressTarget = "target",
        /// Its id.
        pub target_id: Option<String> = "target_id",
        /// The name of the stage.
        pub stage: Option<String> = "stage",
        /// The status for people.
        pub message: Option<String> = "message",
        /// From 0 to 100.
        pub percent: Option<Number> = "percent",
        /// The number of the step.
        pub step: Option<Number> = "step",
        /// The number of steps.
        pub total_steps: Option<Number> = "total_steps",
        /// The response.
        pub response_id: Option<String> = "response_id",
    }
}

event! {
    /// Reasoning of the model.
    Thinking = "thinking" {
        /// The text.
        pub content: String = "content",
        /// `analyzing`, `planning` or `reflecting`.
        pub stage: Option<String> = "stage",
        /// True if the vendor removed the content.
        pub redacted: Option<bool> = "redacted",
        /// True for a piece that is appended to the one before.
        pub is_delta: Option<bool> = "is_delta",
        /// The response.
        pub response_id: Option<String> = "response_id",
    }
}

event! {
    /// A piece of audio.
    AudioDeltaEvent = "audio.delta" {
        /// The response.
        pub response_id: Option<String> = "response_id",
        /// The piece as base64.
        pub audio: String = "audio",
    }
}

event! {
    /// The audio is complete.
    AudioDone = "audio.done" {
        /// The response.
        pub response_id: Option<String> = "response_id",
        /// The duration in milliseconds.
        pub duration_ms: Option<Number> = "duration_ms",
    }
}

event! {
    /// A piece of the text of audio.
    TranscriptDelta = "transcript.delta" {
        /// The response.
        pub response_id: Option<String> = "response_id",
        /// The piece.
        pub transcript: String = "transcript",
    }
}

event! {
    /// The text of audio is complete.
    TranscriptDone = "transcript.done" {
        /// The response.
        pub response_id: Option<String> = "response_id",
        /// The text.
        pub transcript: Option<String> = "transcript",
    }
}

event! {
    /// An increase of the usage.
    UsageDelta = "usage.delta" {
        /// The response.
        pub response_id: Option<String> = "response_id",
        /// The increase.
        pub delta: UsageStats = "delta",
    }
}

event! {
    /// How many requests the client may still make.
    RateLimit = "rate_limit" {
        /// The number of requests in a period, or at the same time; missing if the vendor of the model does not say it.
        pub limit: Option<Number> = "limit",
        /// How many of them remain.
        pub remaining: Number = "remaining",
        /// When a request may be accepted again, in seconds since 1970.
        pub reset_at: Option<Number> = "reset_at",
    }
}

event! {
    /// Another participant types, or has stopped typing.
    PresenceTyping = "presence.typing" {
        /// The participant.
        pub user_id: Option<String> = "user_id",
        /// The name of the participant.
        pub username: Option<String> = "username",
        /// True if the participant types.
        pub is_typing: Option<bool> = "is_typing",
        /// The chat.
        pub chat_id: Option<String> = "chat_id",
    }
}

event! {
    /// A participant is there.
    PresenceOnline = "presence.online" {
        /// The participant.
        pub user_id: Option<String> = "user_id",
        /// The name of the participant.
        pub username: Option<String> = "username",
    }
}

event! {
    /// A participant has left.
    PresenceOffline = "presence.offline" {
        /// The participant.
        pub user_id: Option<String> = "user_id",
        /// The name of the participant.
        pub username: Option<String> = "username",
    }
}

event! {
    /// A chat has a new message. The specification defines no members.
    MessageCreated = "message.created" {}
}

event! {
    /// Answers a `ping`.
    Pong = "pong" {
        /// The id of the `ping`.
        pub reply_to: Option<String> = "reply_to",
    }
}

events! {
    /// An event of a server.
    ServerEvent {
        /// The session exists.
        SessionCreated(SessionCreated, boxed) = "session.created",
        /// The session has changed.
        SessionUpdated(SessionUpdated, boxed) = "session.updated",
        /// An error of the session.
        SessionError(SessionError, boxed) = "session.error",
        /// What the agent can do.
        Capabilities(CapabilitiesEvent, boxed) = "capabilities",
        /// A response has started.
        ResponseCreated(ResponseCreated, boxed) = "response.created",
        /// A piece of a response.
        ResponseDelta(ResponseDelta, boxed) = "response.delta",
        /// A response is complete.
        ResponseDone(ResponseDone, boxed) = "response.done",
        /// A response has failed, or a request for one is refused.
        ResponseError(ResponseError, boxed) = "response.error",
        /// A response was cancelled.
        ResponseCancelled(ResponseCancelled, boxed) = "response.cancelled",
        /// Asks the client to run a tool.
        ToolCall(ToolCallEvent, boxed) = "tool.call",
        /// A tool of the server has finished.
        ToolCallDone(ToolCallDone, boxed) = "tool.call_done",
        /// The progress of a longer operation.
        Progress(Progress, boxed) = "progress",
        /// Reasoning of the model.
        Thinking(Thinking, boxed) = "thinking",
        /// A piece of audio.
        AudioDelta(AudioDeltaEvent, boxed) = "audio.delta",
        /// The audio is complete.
        AudioDone(AudioDone, boxed) = "audio.done",
        /// A piece of the text of audio.
        TranscriptDelta(TranscriptDelta, boxed) = "transcript.delta",
        /// The text of audio is complete.
        TranscriptDone(TranscriptDone, boxed) = "transcript.done",
        /// An increase of the usage.
        UsageDelta(UsageDelta, boxed) = "usage.delta",
        /// How many requests the client may still make.
        RateLimit(RateLimit, boxed) = "rate_limit",
        /// Another participant types, or has stopped typing.
        PresenceTyping(PresenceTyping, boxed) = "presence.typing",
        /// A participant is there.
        PresenceOnline(PresenceOnline, boxed) = "presence.online",
        /// A participant has left.
        PresenceOffline(PresenceOffline, boxed) = "presence.offline",
        /// A chat has a new message.
        MessageCreated(MessageCreated, boxed) = "message.created",
        /// A message was read.
        MessageRead(MessageRead, boxed) = "message.read",
        /// The response waits for a payment.
        PaymentRequired(PaymentRequired, boxed) = "payment.required",
        /// The payment is valid.
        PaymentAccepted(PaymentAccepted, boxed) = "payment.accepted",
        /// The balance of the client.
        PaymentBalance(PaymentBalance, boxed) = "payment.balance",
        /// The payment is refused.
        PaymentError(PaymentError, boxed) = "payment.error",
        /// Proposes a voice session.
        VoiceInvite(VoiceInvite, boxed) = "voice.invite",
        /// Accepts a voice session.
        VoiceAccept(VoiceAccept, boxed) = "voice.accept",
        /// Declines a voice session.
        VoiceDecline(VoiceDecline, boxed) = "voice.decline",
        /// Ends a voice session.
        VoiceEnd(VoiceEnd, boxed) = "voice.end",
        /// Answers a `ping`.
        Pong(Pong, boxed) = "pong",
        /// Ends a session.
        SessionEnd(SessionEnd, boxed) = "session.end",
        /// A message of an extension.
        ExtensionMessage(ExtensionMessage, boxed) = "extension.message",
    }
}
