//! Code that a vendor ran, as the dialects encode it: as a text.
//!
//! A message has a block for each result of a vendor's code tool, and the vendor's own parts in its metadata. The vendor
//! that made them receives these parts, in place of the text; all others receive the text.

use std::borrow::Cow;
use std::sync::Arc;

use super::request::ModelRequest;
use turntree_core::message::{Body, ContentBlock, Message};

/// Replaces the code executions in the messages of a request by texts.
pub(crate) fn as_texts(request: Cow<'_, ModelRequest>) -> Cow<'_, ModelRequest> {
    if !request.messages.iter().any(|message| has_code(message)) {
        return request;
    }
    let mut request = request.into_owned();
    for place in 0..request.messages.len() {
        if let Some(message) = request.messages.get(place).filter(|message| has_code(message)) {
            let replaced = Arc::new(replaced(message));
            request.messages.set(place, replaced);
        }
    }
    Cow::Owned(request)
}

fn has_code(message: &Message) -> bool {
    message.content().iter().any(|block| matches!(block, ContentBlock::CodeExecution(_)))
}

fn replaced(message: &Message) -> Message {
    let mut message = message.clone();
    if let Body::User { content } | Body::Assistant { content, .. } = &mut message.body {
        for block in content {
            if let ContentBlock::CodeExecution(code) = block {
                *block = ContentBlock::text(code.to_markdown());
            }
        }
    }
    message
}
