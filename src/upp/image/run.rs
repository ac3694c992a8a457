//! Calls of image models: what a model cannot do is refused before anything is sent. UPP-1.2 §16.

use std::sync::Arc;

use super::{ImageEvent, ImageModel, ImageRequest, ImageResult};
use crate::upp::error::{Modality, UppError};
use crate::upp::result_stream::ResultStream;

/// A call that is listened to: previews and finished pictures, then all of them.
pub type ImageStream = ResultStream<ImageEvent, ImageResult>;

/// What is wanted of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operation {
    Generate,
    Edit,
    Stream,
}

/// Makes pictures.
///
/// # Errors
/// [`ErrorCode::InvalidRequest`](crate::upp::ErrorCode::InvalidRequest) when the model makes none or the prompt is
/// empty; those of the model.
///
/// # Cancel safety
/// Dropping the future stops the call.
pub async fn generate(model: Arc<dyn ImageModel>, request: ImageRequest) -> Result<ImageResult, UppError> {
    draw(model, ImageRequest { source: None, ..request }, Operation::Generate).await
}

/// Changes a picture, which is the request's `source`.
///
/// # Errors
/// As [`generate`]; also without a source.
///
/// # Cancel safety
/// Dropping the future stops the call.
pub async fn edit(model: Arc<dyn ImageModel>, request: ImageRequest) -> Result<ImageResult, UppError> {
    draw(model, request, Operation::Edit).await
}

/// Makes pictures and shows them on the way.
///
/// # Errors
/// As [`generate`]; the model's own errors come from the stream.
pub fn stream(model: &Arc<dyn ImageModel>, request: ImageRequest) -> Result<ImageStream, UppError> {
    check(&**model, &request, Operation::Stream)?;
    let steps = model.stream(ImageRequest { source: None, ..request });
    Ok(ImageStream::new(steps, model.provider(), Modality::Image))
}

/// Where every call that is not streamed starts and ends.
async fn draw(
    model: Arc<dyn ImageModel>,
    request: ImageRequest,
    operation: Operation,
) -> Result<ImageResult, UppError> {
    check(&*model, &request, operation)?;
    model.draw(request).await.map_err(|error| error.with_modality(Modality::Image))
}

fn check(model: &dyn ImageModel, request: &ImageRequest, operation: Operation) -> Result<(), UppError> {
    let (provider, can) = (model.provider(), model.capabilities());
    let (is_able, what) = match operation {
        Operation::Generate => (can.generate, "image generation"),
        Operation::Edit => (can.edit, "image editing"),
        Operation::Stream => (can.generate && can.streaming, "image streaming"),
    };
    let wrong =
        |message: String| Err(UppError::invalid_request(provider, message).with_modality(Modality::Image));
    if !is_able {
        let model_id = model.model_id();
        return wrong(format!("Provider '{provider}' does not support {what} with model '{model_id}'"));
    }
    if request.prompt.trim().is_empty() {
        return wrong("the prompt is empty; say what to draw".to_owned());
    }
    if operation == Operation::Edit && request.source.is_none() {
        return wrong("there is no picture to change; give an image".to_owned());
    }
    Ok(())
}
