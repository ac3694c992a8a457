//! Models made of other models: the next one after a failure, or the one that a function chooses.

pub mod answered;
pub mod fallback;
pub mod router;

pub use fallback::{Fallback, FallbackRule, is_transient};
pub use router::{ChooseFunction, Router};

use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use futures_util::stream;

use crate::error::UppError;
use crate::provider::{Capabilities, Model, ModelEvent, ModelStream};
use crate::request::ModelRequest;
use turntree_core::message::{ContentBlock, MessageKind};

/// A stream whose first item has arrived.
type Opened = (ModelEvent, ModelStream);

/// Calls a model and waits for the first item of its stream.
fn open(model: &dyn Model, request: ModelRequest) -> BoxFuture<'static, Result<Opened, UppError>> {
    let (mut events, provider) = (model.stream(request), model.provider().to_owned());
    Box::pin(async move {
        let first = events.next().await;
        let first = first.unwrap_or_else(|| {
            Err(UppError::invalid_response(provider, "the stream ended without a response"))
        });
        Ok((first?, events))
    })
}

/// The whole stream; the response says which model answered.
fn reopened((first, rest): Opened, answer: answered::Answer) -> ModelStream {
    let events = stream::iter([Ok(first)]).chain(rest);
    Box::pin(events.map(move |mut item| {
        if let Ok(ModelEvent::Done(response)) = &mut item {
            answer.clone().record(response);
        }
        item
    }))
}

/// True if a model with these capabilities can answer the request.
fn can_answer(capabilities: Capabilities, request: &ModelRequest) -> bool {
    let takes = |block: &ContentBlock| match block {
        ContentBlock::Image(_) => capabilities.image_input,
        ContentBlock::Document(_) => capabilities.document_input,
        ContentBlock::Video(_) => capabilities.video_input,
        ContentBlock::Audio(_) => capabilities.audio_input,
        _ => true,
    };
    let mut asked = request.messages.iter().filter(|message| message.kind() == MessageKind::User);
    (capabilities.tools || request.tools.is_empty())
        && (capabilities.structured_output || request.structure.is_none())
        && asked.all(|message| message.content().iter().all(takes))
}
