//! Checks and runs calls of image models.
//!
//! Spec: UPP-1.2 §16

use std::sync::Arc;

use super::{ImageEvent, ImageModel, ImageRequest, ImageResult};
use crate::error::{Modality, UppError};
use crate::middleware::CallContext;
use crate::result_call::{CallLayers, ResultCall, ResultRequest};
use crate::result_stream::ResultStream;

/// A running call: previews and finished images, then the result.
pub type ImageStream = ResultStream<ImageEvent, ImageResult>;

/// The operation that the caller requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operation {
    Generate,
    Edit,
    Stream,
}

/// Generates images.
///
/// # Errors
/// [`ErrorCode::InvalidRequest`](crate::ErrorCode::InvalidRequest) if the model does not support generation or the
/// prompt is empty; errors of the model and of the middleware.
///
/// # Cancel safety
/// Dropping the future cancels the request.
pub async fn generate(
    model: Arc<dyn ImageModel>,
    request: ImageRequest,
    layers: impl Into<CallLayers>,
) -> Result<Arc<ImageResult>, UppError> {
    complete(model, ImageRequest { source: None, ..request }, Operation::Generate, layers.into()).await
}

/// Edits the image in the request's `source`.
///
/// # Errors
/// As [`generate`]; also if there is no source.
///
/// # Cancel safety
/// Dropping the future cancels the request.
pub async fn edit(
    model: Arc<dyn ImageModel>,
    request: ImageRequest,
    layers: impl Into<CallLayers>,
) -> Result<Arc<ImageResult>, UppError> {
    complete(model, request, Operation::Edit, layers.into()).await
}

/// Generates images with previews.
///
/// Image events are not [`StreamEvent`](turntree_core::message::StreamEvent)s, so `on_stream_event` of the middleware
/// does not see them.
///
/// # Errors
/// As [`generate`]. With middleware, which may change the prompt and sees all errors, they come from the stream. The
/// model's own errors always come from the stream.
pub fn stream(
    model: &Arc<dyn ImageModel>,
    request: ImageRequest,
    layers: impl Into<CallLayers>,
) -> Result<ImageStream, UppError> {
    let request = ImageRequest { source: None, ..request };
    let call = call_of(&**model, request, layers.into());
    let model = Arc::clone(model);
    call.stream(true, move |request| {
        check(&*model, &request, Operation::Stream)?;
        Ok(model.stream(request))
    })
}

async fn complete(
    model: Arc<dyn ImageModel>,
    request: ImageRequest,
    operation: Operation,
    layers: CallLayers,
) -> Result<Arc<ImageResult>, UppError> {
    let call = call_of(&*model, request, layers);
    call.complete(|request| async move {
        check(&*model, &request, operation)?;
        model.generate(request).await
    })
    .await
}

fn call_of(model: &dyn ImageModel, request: ImageRequest, layers: CallLayers) -> ResultCall<ImageRequest> {
    ResultCall { provider: model.provider().into(), model_id: model.model_id().into(), request, layers }
}

impl ResultRequest for ImageRequest {
    const MODALITY: Modality = Modality::Image;
    type Event = ImageEvent;
    type Result = ImageResult;
    const OPERATION: (&'static str, Option<&'static str>) = ("generate_content", Some("image"));

    fn of_context(context: &CallContext) -> Option<Self> {
        context.image_request()
    }
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
        return wrong("the prompt is empty; describe the image".to_owned());
    }
    if operation == Operation::Edit && request.source.is_none() {
        return wrong("there is no image to edit; pass an image".to_owned());
    }
    Ok(())
}
