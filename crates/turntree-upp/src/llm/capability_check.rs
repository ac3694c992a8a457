//! Rejects requests that the model does not support, before anything is sent.
//!
//! Spec: UPP-1.2 §10

use crate::error::UppError;
use crate::provider::{Capabilities, Model};
use turntree_core::message::{ContentBlock, Message, MessageKind};

/// Checks structured output and tools, which are the same for every request of a run.
///
/// # Errors
/// [`crate::ErrorCode::InvalidRequest`] if structured output or tools are requested and the model does not support
/// them.
pub fn check_features(model: &dyn Model, structure: bool, tools: bool) -> Result<(), UppError> {
    let capabilities = model.capabilities();
    if structure && !capabilities.structured_output {
        return Err(unsupported(model, "structured output"));
    }
    if tools && !capabilities.tools {
        return Err(unsupported(model, "tools"));
    }
    Ok(())
}

/// Checks that the model supports streams.
///
/// # Errors
/// [`crate::ErrorCode::InvalidRequest`] if it does not.
pub fn check_streaming(model: &dyn Model) -> Result<(), UppError> {
    if model.capabilities().streaming { Ok(()) } else { Err(unsupported(model, "streaming")) }
}

/// Checks the media in all user messages.
///
/// # Errors
/// [`crate::ErrorCode::InvalidRequest`] with the first kind of media that the model does not support.
pub fn check_media<'a>(
    model: &dyn Model,
    messages: impl IntoIterator<Item = &'a Message>,
) -> Result<(), UppError> {
    let capabilities = model.capabilities();
    if takes_all_media(capabilities) {
        return Ok(());
    }
    for message in messages {
        if message.kind() != MessageKind::User {
            continue;
        }
        if let Some(missing) = message.content().iter().find_map(|block| missing_input(capabilities, block)) {
            return Err(unsupported(model, missing));
        }
    }
    Ok(())
}

/// True if the model supports all media: the history need not be searched.
const fn takes_all_media(capabilities: Capabilities) -> bool {
    capabilities.image_input
        && capabilities.document_input
        && capabilities.video_input
        && capabilities.audio_input
}

const fn missing_input(capabilities: Capabilities, block: &ContentBlock) -> Option<&'static str> {
    match block {
        ContentBlock::Image(_) if !capabilities.image_input => Some("image input"),
        ContentBlock::Document(_) if !capabilities.document_input => Some("document input"),
        ContentBlock::Video(_) if !capabilities.video_input => Some("video input"),
        ContentBlock::Audio(_) if !capabilities.audio_input => Some("audio input"),
        _ => None,
    }
}

fn unsupported(model: &dyn Model, what: &str) -> UppError {
    let provider = model.provider();
    UppError::invalid_request(provider, format!("Provider '{provider}' does not support {what}"))
}
