//! What the client has sent since the last response started.

use turntree_core::ids::IdSource;

use crate::event::InputText;
use crate::types::{ContentItem, Message, Role};

/// How many bytes of text and media may wait for a response.
pub(super) const MAX_BYTES: usize = 32 << 20;

/// The messages that the conversation does not have yet.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Input {
    /// Messages of the operator: instructions for all responses of the session.
    system: Vec<Message>,
    messages: Vec<Message>,
    /// Content that is not part of a message yet.
    pending: Vec<ContentItem>,
    replaces: bool,
    bytes: usize,
}

/// Too much input waits for a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("more than {MAX_BYTES} bytes of input wait for a response; send `response.create`, or media as URLs")]
pub struct InputTooLarge;

impl Input {
    /// Replaces the whole conversation.
    ///
    /// # Errors
    /// The messages are too large. The input does not change.
    pub fn replace(&mut self, messages: Vec<Message>) -> Result<(), InputTooLarge> {
        let bytes = size_of(&messages);
        if bytes > MAX_BYTES {
            return Err(InputTooLarge);
        }
        let (system, others) = messages.into_iter().partition(|message| message.role == Role::System);
        *self = Self { system, messages: others, pending: Vec::new(), replaces: true, bytes };
        Ok(())
    }

    /// Adds text. `messages` replaces the conversation; the text is then added only if it is not already the last
    /// message of the user.
    ///
    /// # Errors
    /// Too much input waits.
    pub fn add_text(&mut self, input: InputText) -> Result<(), InputTooLarge> {
        let role = input.role.unwrap_or_default();
        if let Some(messages) = input.messages {
            let is_included = messages.last().is_some_and(|last| {
                last.role == Role::User && last.content.as_deref().unwrap_or_default() == input.text
            });
            self.replace(messages)?;
            if is_included {
                return Ok(());
            }
        }
        if input.text.is_empty() {
            return Ok(());
        }
        self.grow(input.text.len())?;
        match role {
            Role::User => self.pending.push(ContentItem::text(input.text)),
            Role::System => self.system.push(Message::text(role, input.text)),
            role => {
                self.flush();
                self.messages.push(Message::text(role, input.text));
            }
        }
        Ok(())
    }

    /// Adds media. Media without an id gets one.
    ///
    /// # Errors
    /// Too much input waits.
    pub fn add_media(&mut self, mut item: ContentItem, ids: &dyn IdSource) -> Result<(), InputTooLarge> {
        self.grow(size_of_item(&item))?;
        item.assign_content_id(|| ids.string());
        self.pending.push(item);
        Ok(())
    }

    fn grow(&mut self, bytes: usize) -> Result<(), InputTooLarge> {
        let bytes = self.bytes.saturating_add(bytes);
        if bytes > MAX_BYTES {
            return Err(InputTooLarge);
        }
        self.bytes = bytes;
        Ok(())
    }

    /// Makes a message of the user from the pending content.
    fn flush(&mut self) {
        if !self.pending.is_empty() {
            let items = std::mem::take(&mut self.pending);
            self.messages.push(user_message(items));
        }
    }

    /// Takes the new messages, those of the operator first, and whether they replace the conversation. The messages of
    /// the operator stay for later responses.
    pub fn take(&mut self) -> (Vec<Message>, bool) {
        self.flush();
        let mut messages = self.system.clone();
        messages.append(&mut self.messages);
        self.bytes = size_of(&self.system);
        (messages, std::mem::take(&mut self.replaces))
    }
}

/// A message whose `content` is the text of its items.
fn user_message(items: Vec<ContentItem>) -> Message {
    let texts: Vec<&str> = items
        .iter()
        .filter_map(|item| match item {
            ContentItem::Text(text) => Some(text.text.as_str()),
            _ => None,
        })
        .collect();
    let content = Some(texts.join("\n"));
    let has_more = texts.len() < items.len();
    Message { role: Role::User, content, content_items: has_more.then_some(items), ..Message::default() }
}

fn size_of_item(item: &ContentItem) -> usize {
    match item {
        ContentItem::Text(text) => text.text.len(),
        item => item.media().and_then(|media| media.base64().or_else(|| media.url())).map_or(64, str::len),
    }
}

/// The bytes of text and media.
pub(super) fn size_of(messages: &[Message]) -> usize {
    messages.iter().map(size_of_message).fold(0, usize::saturating_add)
}

fn size_of_message(message: &Message) -> usize {
    let items = message.content_items.iter().flatten().map(size_of_item).fold(0, usize::saturating_add);
    message.content.as_ref().map_or(0, String::len).saturating_add(items).saturating_add(64)
}
