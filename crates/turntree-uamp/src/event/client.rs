//! Events of clients.
//!
//! Spec: UAMP-1.0 §5

use turntree_core::json::RawObject;

use super::media::{InputAudio, InputFile, InputImage, InputVideo};
use super::payment::PaymentSubmit;
use super::shared::{
    ExtensionMessage, MessageRead, SessionEnd, VoiceAccept, VoiceDecline, VoiceEnd, VoiceInvite,
};
use crate::types::{Capabilities, Message, ResponseFormat, ResponseOptions, Role, SessionConfig};

event! {
    /// Creates a session.
    SessionCreate = "session.create" {
        /// The version; 1.0 if missing.
        pub uamp_version: Option<String> = "uamp_version",
        /// The configuration.
        pub session: Option<SessionConfig> = "session",
        /// The agent.
        pub agent: Option<String> = "agent",
        /// The chat that the session belongs to.
        pub chat: Option<String> = "chat",
        /// The token of this session.
        pub token: Option<String> = "token",
        /// The payment token of this session.
        pub payment_token: Option<String> = "payment_token",
        /// What the client can do.
        pub client_capabilities: Option<Capabilities> = "client_capabilities",
    }
}

impl SessionCreate {
    /// The agent, also where it is a member of the configuration.
    pub fn agent_name(&self) -> Option<&str> {
        self.agent.as_deref().or_else(|| self.session.as_ref()?.agent.as_deref())
    }

    /// The token, also where it is a member of the configuration.
    pub fn session_token(&self) -> Option<&str> {
        self.token.as_deref().or_else(|| self.session.as_ref()?.token.as_deref())
    }
}

event! {
    /// Changes a session, or renews its tokens.
    SessionUpdate = "session.update" {
        /// The new token.
        pub token: Option<String> = "token",
        /// The new payment token.
        pub payment_token: Option<String> = "payment_token",
        /// The members of the configuration that change.
        pub session: Option<SessionConfig> = "session",
    }
}

event! {
    /// Asks for the capabilities of the server.
    CapabilitiesQuery = "capabilities.query" {
        /// The model; that of the agent if missing.
        pub model: Option<String> = "model",
    }
}

event! {
    /// Announces the capabilities of the client.
    ClientCapabilities = "client.capabilities" {
        /// The capabilities.
        pub capabilities: Capabilities = "capabilities",
    }
}

event! {
    /// Text, or the history of a conversation.
    InputText = "input.text" {
        /// The text.
        pub text: String = "text",
        /// Who speaks; the user if missing.
        pub role: Option<Role> = "role",
        /// The history, instead of that of the session.
        pub messages: Option<Vec<Message>> = "messages",
        /// The payment token of this input.
        pub payment_token: Option<String> = "payment_token",
        /// Where the input comes from.
        pub context: Option<RawObject> = "context",
    }
}

event! {
    /// The user types, or has stopped typing.
    InputTyping = "input.typing" {
        /// True if the user types.
        pub is_typing: bool = "is_typing",
        /// The chat.
        pub chat_id: Option<String> = "chat_id",
    }
}

event! {
    /// Asks for a response.
    ResponseCreate = "response.create" {
        /// Settings of this response.
        pub response: Option<ResponseOptions> = "response",
        /// The form of the output.
        pub response_format: Option<ResponseFormat> = "response_format",
    }
}

event! {
    /// Cancels a response.
    ResponseCancel = "response.cancel" {
        /// The response; the active one if missing.
        pub response_id: Option<String> = "response_id",
    }
}

event! {
    /// The result of a tool that the client ran.
    ToolResultEvent = "tool.result" {
        /// The id of the call.
        pub call_id: String = "call_id",
        /// The result as JSON text.
        pub result: String = "result",
        /// True if the tool failed.
        pub is_error: Option<bool> = "is_error",
    }
}

event! {
    /// Asks for a `pong`.
    Ping = "ping" {}
}

events! {
    /// An event of a client.
    ClientEvent {
        /// Creates a session.
        SessionCreate(SessionCreate, boxed) = "session.create",
        /// Changes a session, or renews its tokens.
        SessionUpdate(SessionUpdate, boxed) = "session.update",
        /// Ends a session.
        SessionEnd(SessionEnd, boxed) = "session.end",
        /// Asks for the capabilities of the server.
        CapabilitiesQuery(CapabilitiesQuery, boxed) = "capabilities.query",
        /// Announces the capabilities of the client.
        ClientCapabilities(ClientCapabilities, boxed) = "client.capabilities",
        /// Text, or the history of a conversation.
        InputText(InputText, boxed) = "input.text",
        /// Audio of the user.
        InputAudio(InputAudio, boxed) = "input.audio",
        /// An image.
        InputImage(InputImage, boxed) = "input.image",
        /// A video.
        InputVideo(InputVideo, boxed) = "input.video",
        /// A file.
        InputFile(InputFile, boxed) = "input.file",
        /// The user types, or has stopped typing.
        InputTyping(InputTyping, boxed) = "input.typing",
        /// Asks for a response.
        ResponseCreate(ResponseCreate, boxed) = "response.create",
        /// Cancels a response.
        ResponseCancel(ResponseCancel, boxed) = "response.cancel",
        /// The result of a tool that the client ran.
        ToolResult(ToolResultEvent, boxed) = "tool.result",
        /// The client pays.
        PaymentSubmit(PaymentSubmit, boxed) = "payment.submit",
        /// Proposes a voice session.
        VoiceInvite(VoiceInvite, boxed) = "voice.invite",
        /// Accepts a voice session.
        VoiceAccept(VoiceAccept, boxed) = "voice.accept",
        /// Declines a voice session.
        VoiceDecline(VoiceDecline, boxed) = "voice.decline",
        /// Ends a voice session.
        VoiceEnd(VoiceEnd, boxed) = "voice.end",
        /// Asks for a `pong`.
        Ping(Ping, boxed) = "ping",
        /// A message was read.
        MessageRead(MessageRead, boxed) = "message.read",
        /// A message of an extension.
        ExtensionMessage(ExtensionMessage, boxed) = "extension.message",
    }
}
