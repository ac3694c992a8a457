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
