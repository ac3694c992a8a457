//! Sessions and their configuration.
//!
//! Spec: UAMP-1.0 §8.1–8.3, §8.8

use turntree_core::json::union::tagged_union;
use turntree_core::json::{RawJson, RawObject};

use super::number::Number;
use super::tool::ToolDefinition;

text_enum! {
    /// A kind of content.
    Modality {
        /// Text.
        Text = "text",
        /// Audio.
        Audio = "audio",
        /// Images.
        Image = "image",
        /// Videos.
        Video = "video",
        /// Files.
        File = "file",
    }
}

text_enum! {
    /// The format of audio.
    AudioFormat {
        /// 16 bits a sample, without a header.
        Pcm16 = "pcm16",
        /// G.711 μ-law.
        G711Ulaw = "g711_ulaw",
        /// G.711 A-law.
        G711Alaw = "g711_alaw",
        /// MP3.
        Mp3 = "mp3",
        /// Opus.
        Opus = "opus",
        /// WAV.
        Wav = "wav",
        /// `WebM`.
        Webm = "webm",
        /// AAC.
        Aac = "aac",
    }
}

object! {
    /// A voice.
    VoiceConfig {
        /// The vendor.
        pub provider: Option<String> = "provider",
        /// The vendor's id of the voice.
        pub voice_id: Option<String> = "voice_id",
        /// The name of the voice.
        pub name: Option<String> = "name",
        /// The speed; 1 is normal.
        pub speed: Option<Number> = "speed",
        /// The pitch.
        pub pitch: Option<Number> = "pitch",
        /// The language.
        pub language: Option<String> = "language",
        /// Settings of vendors.
        pub extensions: Option<RawObject> = "extensions",
    }
}

text_enum! {
    /// Who decides that the user has finished speaking.
    TurnDetectionKind {
        /// The server.
        ServerVad = "server_vad",
        /// The client.
        ClientVad = "client_vad",
        /// A button.
        PushToTalk = "push_to_talk",
        /// Nobody: the client sends `response.create`.
        None = "none",
    }
}

object! {
    /// How the end of speech is found.
    TurnDetection {
        /// Who decides.
        pub kind: TurnDetectionKind = "type",
        /// The loudness from which sound counts as speech, 0 to 1.
        pub threshold: Option<Number> = "threshold",
        /// The silence that ends the speech, in milliseconds.
        pub silence_duration_ms: Option<Number> = "silence_duration_ms",
        /// The audio before the speech that is kept, in milliseconds.
        pub prefix_padding_ms: Option<Number> = "prefix_padding_ms",
    }
}

object! {
    /// Text in any form.
    TextFormat {
        tag "type" = "text",
    }
}

object! {
    /// Any JSON.
    JsonObjectFormat {
        tag "type" = "json_object",
    }
}

object! {
    /// A schema with its name.
    JsonSchemaDefinition {
        /// The name.
        pub name: Option<String> = "name",
        /// The JSON Schema.
        pub schema: RawJson = "schema",
        /// True if the vendor must enforce the schema.
        pub strict: Option<bool> = "strict",
    }
}

object! {
    /// JSON that conforms to a schema.
    JsonSchemaFormat {
        tag "type" = "json_schema",
        /// The schema.
        pub json_schema: JsonSchemaDefinition = "json_schema",
    }
}

tagged_union! {
    /// The form of the output.
    pub enum ResponseFormat by "type" {
        /// Text in any form.
        Text(TextFormat) = "text",
        /// Any JSON.
        JsonObject(JsonObjectFormat) = "json_object",
        /// JSON that conforms to a schema.
        JsonSchema(JsonSchemaFormat, boxed) = "json_schema",
    }
}

text_enum! {
    /// What happens to a `response.create` while the session has an active response.
    ConcurrentResponses {
        /// It is refused.
        Reject = "reject",
        /// The active response is cancelled.
        Supersede = "supersede",
        /// It waits.
        Queue = "queue",
    }
}

object! {
    /// A session to continue, and what the client has of it.
    Resume {
        /// The session.
        pub session_id: String = "session_id",
        /// The sequence number of the last event that the client has.
        pub after_seq: u64 = "after_seq", default,
    }
}

object! {
    /// The member `uamp` of a session's `extensions`: what the protocol itself does not define.
    UampExtension {
        /// True if `input.text` starts a response.
        pub auto_response: Option<bool> = "auto_response",
        /// What happens to concurrent requests for responses.
        pub on_concurrent: Option<ConcurrentResponses> = "on_concurrent",
        /// The session to continue.
        pub resume: Option<Resume> = "resume",
    }
}

object! {
    /// The configuration of a session.
    SessionConfig {
        /// The kinds of content of the session; `["text"]` if missing.
        pub modalities: Option<Vec<Modality>> = "modalities",
        /// Instructions for the agent.
        pub instructions: Option<String> = "instructions",
        /// Tools that the client runs.
        pub tools: Option<Vec<ToolDefinition>> = "tools",
        /// The voice of the agent.
        pub voice: Option<VoiceConfig> = "voice",
        /// The format of the client's audio.
        pub input_audio_format: Option<AudioFormat> = "input_audio_format",
        /// The format of the agent's audio.
        pub output_audio_format: Option<AudioFormat> = "output_audio_format",
        /// How the end of speech is found.
        pub turn_detection: Option<TurnDetection> = "turn_detection",
        /// The form of the output.
        pub response_format: Option<ResponseFormat> = "response_format",
        /// Settings by vendor; `uamp` has those of this server.
        pub extensions: Option<RawObject> = "extensions",
        /// The agent, if `session.create` has none.
        pub agent: Option<String> = "agent",
        /// The token, if `session.create` has none.
        pub token: Option<String> = "token",
    }
}

impl SessionConfig {
    /// The kinds of content of the session.
    pub fn modalities_or_text(&self) -> &[Modality] {
        self.modalities.as_deref().unwrap_or(&[Modality::Text])
    }

    /// Takes the members that `changes` has.
    pub fn merge(&mut self, changes: Self) {
        fn set<T>(member: &mut Option<T>, change: Option<T>) {
            if change.is_some() {
                *member = change;
            }
        }
        set(&mut self.modalities, changes.modalities);
        set(&mut self.instructions, changes.instructions);
        set(&mut self.tools, changes.tools);
        set(&mut self.voice, changes.voice);
        set(&mut self.input_audio_format, changes.input_audio_format);
        set(&mut self.output_audio_format, changes.output_audio_format);
        set(&mut self.turn_detection, changes.turn_detection);
        set(&mut self.response_format, changes.response_format);
        set(&mut self.extensions, changes.extensions);
    }

    /// The settings in `extensions.uamp`; the defaults if there are none.
    ///
    /// # Errors
    /// The member has another form.
    pub fn uamp_extension(&self) -> Result<UampExtension, serde_json::Error> {
        match self.extensions.as_ref().and_then(|extensions| extensions.get("uamp")) {
            Some(settings) => settings.to(),
            None => Ok(UampExtension::default()),
        }
    }
}

text_enum! {
    /// Whether a session accepts events.
    SessionStatus {
        /// It does.
        Active = "active",
        /// It has ended.
        Closed = "closed",
    }
}

object! {
    /// A session.
    Session {
        /// The id.
        pub id: String = "id",
        /// When it was created, in seconds since 1970.
        pub created_at: Option<Number> = "created_at",
        /// The configuration.
        pub config: Option<SessionConfig> = "config",
        /// Whether it accepts events.
        pub status: Option<SessionStatus> = "status",
        /// The agent.
        pub agent: Option<String> = "agent",
    }
}
