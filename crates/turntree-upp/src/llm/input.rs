//! Converts a call's inputs into messages.
//!
//! History and input are separate arguments here. Messages are used as they are. Consecutive texts and blocks become
//! one user message, as the specification requires ("convert input to `UserMessage`") and vendors prefer.
//!
//! Spec: UPP-1.2 §10.1

use std::sync::Arc;

use crate::error::UppError;
use turntree_core::ids::IdSource;
use turntree_core::message::{Body, ContentBlock, Message};
use turntree_core::time::Clock;

/// One input of a call.
#[derive(Debug, Clone, PartialEq)]
pub enum Input {
    /// A text: becomes part of a user message.
    Text(String),
    /// A block: becomes part of a user message.
    Block(ContentBlock),
    /// A message: used as it is, with its id and timestamp.
    Message(Arc<Message>),
}

impl Input {
    /// Converts the input into one message: a message as it is, a text or a block as a new user message.
    pub fn into_message(self, ids: &dyn IdSource, clock: &dyn Clock) -> Arc<Message> {
        let block = match self {
            Self::Message(message) => return message,
            Self::Text(text) => ContentBlock::text(text),
            Self::Block(block) => block,
        };
        Arc::new(Message::new(Body::User { content: vec![block] }, ids, clock))
    }
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

/// Converts inputs into messages: messages as they are, and one user message for each run of texts and blocks. The
/// sources provide ids and timestamps of new messages.
///
/// # Errors
/// [`crate::ErrorCode::InvalidRequest`] for a block that a user message cannot contain (reasoning, or an unknown
/// kind).
pub fn into_messages(
    inputs: impl IntoIterator<Item = Input>,
    provider: &str,
    ids: &dyn IdSource,
    clock: &dyn Clock,
) -> Result<Vec<Arc<Message>>, UppError> {
    let (mut messages, mut content) = (Vec::new(), Vec::new());
    let user = |mut content: Vec<ContentBlock>| {
        // Most inputs have one block, and a list of one has room for four (half a kilobyte).
        content.shrink_to_fit();
        Arc::new(Message::new(Body::User { content }, ids, clock))
    };
    for input in inputs {
        match input {
            Input::Text(text) => content.push(ContentBlock::text(text)),
            Input::Block(ContentBlock::Reasoning(_) | ContentBlock::Unknown(_)) => {
                let message_text = "Invalid inference input: a user cannot send this block; \
                             send text, an image, a document, audio, video or binary data";
                return Err(UppError::invalid_request(provider, message_text));
            }
            Input::Block(block) => content.push(block),
            Input::Message(message) => {
                if !content.is_empty() {
                    messages.push(user(std::mem::take(&mut content)));
                }
                messages.push(message);
            }
        }
    }
    if !content.is_empty() {
        messages.push(user(content));
    }
    Ok(messages)
}
