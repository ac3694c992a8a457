//! Runs one call through the middleware: success, error and abort paths.
//!
//! Spec: UPP-1.2 §17

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

/// The result of a call.
pub trait Outcome {
    /// The turn, if a language model was called.
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
    /// Runs a call with its hooks: start, request, `work`, end of the stream, response, turn, end.
    ///
    /// `work` starts after the request hooks and reads the request from the context. It emits events through
    /// [`MiddlewareStack::stream_event`]. If `cancellation` is cancelled before `work` starts, the call ends with
    /// [`ErrorCode::Cancelled`]; from then on, `work` must observe the token itself. The hooks at the end are not
    /// interrupted.
    ///
    /// # Errors
    /// The error of `work` or of a hook. `on_error` was called with it; for a cancelled stream `on_abort` was called
    /// instead.
    ///
    /// # Cancel safety
    /// Dropping the future after its first poll cancels the call: the stack's [`super::CleanupExecutor`] runs the
    /// hooks for it. Dropped before the first poll, no hook runs.
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
        // Embeddings and images emit no `StreamEvent`, so the stream hooks are for language models only.
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

/// Runs `hooks` until they end or the call is cancelled.
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
    let message = if context.streaming { "Stream cancelled" } else { "the request was cancelled" };
    let error = UppError::new(ErrorCode::Cancelled, &*context.provider, message);
    UppError { modality: context.modality, ..error }
}

/// Reports the call as cancelled when it is dropped before its end.
struct AbortGuard(Option<(MiddlewareStack, Arc<CallContext>)>);

impl Drop for AbortGuard {
    fn drop(&mut self) {
        if let Some((stack, context)) = self.0.take() {
            drop(FailureHooks::new(&stack, cancelled_call(&context), &context));
        }
    }
}

/// The hooks after a failure. If dropped before their end, the cleanup executor runs the rest.
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
