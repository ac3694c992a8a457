//! Calls of image models: what a model cannot do is refused before anything is sent. UPP-1.2 §16.

use std::sync::Arc;

use super::{ImageEvent, ImageModel, ImageRequest, ImageResult};
use crate::error::{Modality, UppError};
use crate::middleware::context::Called;
use crate::middleware::{CallContext, MiddlewareStack, Response};
use crate::result_stream::ResultStream;
use turntree_core::time::SystemClock;

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
/// [`ErrorCode::InvalidRequest`](crate::ErrorCode::InvalidRequest) when the model makes none or the prompt is
/// empty; those of the model and of the middleware.
///
/// # Cancel safety
/// Dropping the future stops the call.
pub async fn generate(
    model: Arc<dyn ImageModel>,
    request: ImageRequest,
    middleware: MiddlewareStack,
) -> Result<Arc<ImageResult>, UppError> {
    complete(model, ImageRequest { source: None, ..request }, Operation::Generate, middleware).await
}

/// Changes a picture, which is the request's `source`.
///
/// # Errors
/// As [`generate`]; also without a source.
///
/// # Cancel safety
/// Dropping the future stops the call.
pub async fn edit(
    model: Arc<dyn ImageModel>,
    request: ImageRequest,
    middleware: MiddlewareStack,
) -> Result<Arc<ImageResult>, UppError> {
    complete(model, request, Operation::Edit, middleware).await
}

/// Makes pictures and shows them on the way.
///
/// Pictures are no [`StreamEvent`](turntree_core::message::StreamEvent)s: middleware hears of the call, not of its events.
///
/// # Errors
/// As [`generate`]; with middleware they come from the stream, because hooks may change the prompt and hear of what is
/// refused. The model's own errors come from the stream.
pub fn stream(
    model: &Arc<dyn ImageModel>,
    request: ImageRequest,
    middleware: MiddlewareStack,
) -> Result<ImageStream, UppError> {
    let request = ImageRequest { source: None, ..request };
    if middleware.is_empty() {
        check(&**model, &request, Operation::Stream)?;
        return Ok(ImageStream::new(model.stream(request), model.provider(), Modality::Image));
    }
    let context = context_of(&**model, &request, Operation::Stream);
    let (model, asked) = (Arc::clone(model), Arc::clone(&context));
    let begin = move || {
        let request = asked.image_request().unwrap_or(request);
        check(&*model, &request, Operation::Stream)?;
        Ok(model.stream(request))
    };
    Ok(ImageStream::around(middleware, context, begin))
}

/// Where every call that is not streamed starts and ends.
async fn complete(
    model: Arc<dyn ImageModel>,
    request: ImageRequest,
    operation: Operation,
    middleware: MiddlewareStack,
) -> Result<Arc<ImageResult>, UppError> {
    let context = context_of(&*model, &request, operation);
    let work = || async {
        let request = context.image_request().unwrap_or(request);
        check(&*model, &request, operation)?;
        let result = model.generate(request).await.map_err(|error| error.with_modality(Modality::Image))?;
        let result = Arc::new(result);
        context.set_response(Response::Image(Arc::clone(&result)));
        Ok(result)
    };
    middleware.around(&context, None, work).await
}

fn context_of(model: &dyn ImageModel, request: &ImageRequest, operation: Operation) -> Arc<CallContext> {
    let called = Called {
        modality: Modality::Image,
        model_id: model.model_id().into(),
        provider: model.provider().into(),
        streaming: operation == Operation::Stream,
    };
    Arc::new(CallContext::image(called, request.clone(), Arc::new(SystemClock)))
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
