//! The names in which the generations of the Realtime protocol differ.

/// A generation of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Generation {
    /// That of today.
    Current,
    /// The beta.
    Beta,
}

impl Generation {
    /// The event with a piece of text.
    pub const fn text_delta(self) -> &'static str {
        match self {
            Self::Current => "response.output_text.delta",
            Self::Beta => "response.text.delta",
        }
    }

    /// The event with the whole text.
    pub const fn text_done(self) -> &'static str {
        match self {
            Self::Current => "response.output_text.done",
            Self::Beta => "response.text.done",
        }
    }

    /// The type of a part with text that the agent wrote.
    pub const fn text_part(self) -> &'static str {
        match self {
            Self::Current => "output_text",
            Self::Beta => "text",
        }
    }

    /// The event with a piece of audio.
    pub const fn audio_delta(self) -> &'static str {
        match self {
            Self::Current => "response.output_audio.delta",
            Self::Beta => "response.audio.delta",
        }
    }

    /// The event after the last piece of audio.
    pub const fn audio_done(self) -> &'static str {
        match self {
            Self::Current => "response.output_audio.done",
            Self::Beta => "response.audio.done",
        }
    }

    /// The event with a piece of the text of audio.
    pub const fn transcript_delta(self) -> &'static str {
        match self {
            Self::Current => "response.output_audio_transcript.delta",
            Self::Beta => "response.audio_transcript.delta",
        }
    }

    /// The event with the whole text of audio.
    pub const fn transcript_done(self) -> &'static str {
        match self {
            Self::Current => "response.output_audio_transcript.done",
            Self::Beta => "response.audio_transcript.done",
        }
    }

    /// The type of a part with audio that the agent made.
    pub const fn audio_part(self) -> &'static str {
        match self {
            Self::Current => "output_audio",
            Self::Beta => "audio",
        }
    }

    /// The modalities of output with audio.
    pub const fn with_audio(self) -> &'static [&'static str] {
        match self {
            Self::Current => &["audio"],
            Self::Beta => &["audio", "text"],
        }
    }

    /// The events that follow when an item has been added to the conversation.
    pub const fn item_events(self) -> &'static [&'static str] {
        match self {
            Self::Current => &["conversation.item.added", "conversation.item.done"],
            Self::Beta => &["conversation.item.created"],
        }
    }

    /// The member of sessions and responses with the modalities of the output.
    pub const fn modalities(self) -> &'static str {
        match self {
            Self::Current => "output_modalities",
            Self::Beta => "modalities",
        }
    }
}
