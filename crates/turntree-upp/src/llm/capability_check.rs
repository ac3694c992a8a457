//! Gates: what a model cannot do is refused before anything is sent. UPP-1.2 §10.

use crate::error::UppError;
use crate::provider::{Capabilities, Model};
use turntree_core::message::{ContentBlock, Message, MessageKind};

/// Checks what every request of a run will ask for, whatever is said in it.
///
/// # Errors
/// [`crate::ErrorCode::InvalidRequest`] when a structured answer or tools are wanted that the model does not
/// have.
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

/// Checks that the model can answer piece by piece.
///
/// # Errors
/// [`crate::ErrorCode::InvalidRequest`] when it cannot.
pub fn check_streaming(model: &dyn Model) -> Result<(), UppError> {
    if model.capabilities().streaming { Ok(()) } else { Err(unsupported(model, "streaming")) }
}

/// Checks the media in user messages, history included.
///
/// # Errors
/// [`crate::ErrorCode::InvalidRequest`] naming the first kind of media that the model does not take.
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

/// A model that takes everything spares the walk through a long history.
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
