//! The way of one call through its stack: in, out, or off the road. UPP-1.2 §17.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::future::{BoxFuture, Either, select};
use tokio_util::sync::CancellationToken;

use super::context::CallContext;
use super::stack::MiddlewareStack;
use crate::embedding::EmbeddingResult;
use crate::error::{ErrorCode, Modality, UppError};
use crate::image::ImageResult;
use turntree_core::message::Turn;

/// What a call comes to.
pub trait Outcome {
    /// The turn, where a language model was called.
    fn turn(&self) -> Option<&Arc<Turn>> {
        None
    }
}

impl Outcome for Arc<EmbeddingResult> {}
impl Outcome for Arc<ImageResult> {}

impl Outcome for Arc<Turn> {
    fn turn(&self) -> Option<&Arc<Turn>> {
        Some(self)
    }
}

impl MiddlewareStack {
    /// Makes a call with its hooks around it: start, request, `work`, the end of the stream, response, turn, end.
    ///
    /// `work` begins after the hooks of the request and reads what is asked from the context. It emits through
    /// [`MiddlewareStack::stream_event`]. When `cancellation` fires before `work` begins, the call ends with
    /// [`ErrorCode::Cancelled`]; once it has begun, `work` heeds it. Hooks of the end are not interrupted.
    ///
    /// # Errors
    /// What `work` or a hook failed with. `on_error` has heard of it; of the cancellation of a stream `on_abort` has,
    /// once, and `on_error` has not.
    ///
    /// # Cancel safety
    /// Dropped after it began and before its end, the call counts as cancelled: the hooks of that are run by the
    /// stack's [`super::CleanupExecutor`]. Dropped before it began, no hook has been called and none is.
    pub async fn call<T: Outcome, F: Future<Output = Result<T, UppError>>>(
        &self,
        context: &Arc<CallContext>,
        cancellation: Option<&CancellationToken>,
        work: impl FnOnce() -> F,
    ) -> Result<T, UppError> {
        if self.is_empty() {
            return work().await;
        }
        let mut unfinished = AbortGuard(Some((self.clone(), Arc::clone(context))));
        let outcome = self.through(context, cancellation, work).await;
        let outcome = outcome.map_err(|error| UppError { modality: context.modality, ..error });
        unfinished.0 = None;
        if let Err(error) = &outcome {
            FailureHooks::new(self, error.clone(), context).await;
        }
        outcome
    }

    async fn through<T: Outcome, F: Future<Output = Result<T, UppError>>>(
        &self,
        context: &Arc<CallContext>,
        cancellation: Option<&CancellationToken>,
        work: impl FnOnce() -> F,
    ) -> Result<T, UppError> {
        let inwards = async {
            self.start(context).await?;
            self.request(context).await
        };
        until(cancellation, context, inwards).await?;
        let outcome = work().await?;
        context.finish();
        // Events of other modalities are no `StreamEvent`s: the hooks of streams belong to language models.
        if context.streaming && context.modality == Modality::Llm {
            self.stream_end(context).await?;
        }
        self.response(context).await?;
        if let Some(turn) = outcome.turn() {
            self.turn(turn, context).await?;
        }
        self.end(context).await?;
        Ok(outcome)
    }

    async fn tell_failure(&self, error: &UppError, context: &Arc<CallContext>) {
        context.finish();
        if context.streaming && error.code == ErrorCode::Cancelled {
            self.abort(error, context).await;
        } else {
            self.error(error, context).await;
        }
    }
}

/// Runs `hooks` unless they are cancelled first.
async fn until(
    cancellation: Option<&CancellationToken>,
    context: &CallContext,
    hooks: impl Future<Output = Result<(), UppError>>,
) -> Result<(), UppError> {
    let Some(cancellation) = cancellation else {
        return hooks.await;
    };
    let (cancelled, hooks) = (pin!(cancellation.cancelled()), pin!(hooks));
    match select(cancelled, hooks).await {
        Either::Left(_) => Err(cancelled_call(context)),
        Either::Right((outcome, _)) => outcome,
    }
}

fn cancelled_call(context: &CallContext) -> UppError {
    let words = if context.streaming { "Stream cancelled" } else { "the request was cancelled" };
    let error = UppError::new(ErrorCode::Cancelled, &*context.provider, words);
    UppError { modality: context.modality, ..error }
}

/// A call on its way; dropped there, it counts as cancelled.
struct AbortGuard(Option<(MiddlewareStack, Arc<CallContext>)>);

impl Drop for AbortGuard {
    fn drop(&mut self) {
        if let Some((stack, context)) = self.0.take() {
            drop(FailureHooks::new(&stack, cancelled_call(&context), &context));
        }
    }
}

/// The hooks of a failed call. Dropped before they are through, they go on without it.
struct FailureHooks {
    stack: MiddlewareStack,
    rest: Option<BoxFuture<'static, ()>>,
}

impl FailureHooks {
    fn new(stack: &MiddlewareStack, error: UppError, context: &Arc<CallContext>) -> Self {
        let (telling, context) = (stack.clone(), Arc::clone(context));
        let rest = Box::pin(async move { telling.tell_failure(&error, &context).await });
        Self { stack: stack.clone(), rest: Some(rest) }
    }
}

impl Future for FailureHooks {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let polled = self.rest.as_mut().map_or(Poll::Ready(()), |rest| rest.as_mut().poll(context));
        if polled.is_ready() {
            self.rest = None;
        }
        polled
    }
}

impl Drop for FailureHooks {
    fn drop(&mut self) {
        if let Some(rest) = self.rest.take() {
            self.stack.clean_up(rest);
        }
    }
}
