//! Inputs become messages. UPP-1.2 §10.1.
//!
//! Which argument is history and which is input is told apart where the language has no types for it; here each has
//! its own. Every input becomes one message.

use std::sync::Arc;

use crate::core::ids::IdSource;
use crate::core::time::Clock;
use crate::message::{Body, ContentBlock, Message};
use crate::upp::error::UppError;

/// What a caller says to a model.
#[derive(Debug, Clone, PartialEq)]
pub enum Input {
    /// A text: becomes a user message.
    Text(String),
    /// One block: becomes a user message that holds it.
    Block(ContentBlock),
    /// A message: used as it is, with its id and time.
    Message(Arc<Message>),
}

impl From<&str> for Input {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Input {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<ContentBlock> for Input {
    fn from(block: ContentBlock) -> Self {
        Self::Block(block)
    }
}

impl From<Arc<Message>> for Input {
    fn from(message: Arc<Message>) -> Self {
        Self::Message(message)
    }
}

impl From<Message> for Input {
    fn from(message: Message) -> Self {
        Self::Message(Arc::new(message))
    }
}

impl Input {
    /// The message that this input is. Id and time of a new one come from the given sources.
    ///
    /// # Errors
    /// [`crate::upp::ErrorCode::InvalidRequest`] for a block that no user can send (reasoning, or an unknown kind).
    pub fn into_message(
        self,
        provider: &str,
        ids: &dyn IdSource,
        clock: &dyn Clock,
    ) -> Result<Arc<Message>, UppError> {
        match self {
            Self::Message(message) => Ok(message),
            Self::Text(text) => Ok(Arc::new(Message::user(text, ids, clock))),
            Self::Block(ContentBlock::Reasoning(_) | ContentBlock::Unknown(_)) => {
                let words = "Invalid inference input: a user cannot send this block; \
                             send text, an image, a document, audio, video or binary data";
                Err(UppError::invalid_request(provider, words))
            }
            Self::Block(block) => Ok(Arc::new(Message::new(Body::User { content: vec![block] }, ids, clock))),
        }
    }
}
