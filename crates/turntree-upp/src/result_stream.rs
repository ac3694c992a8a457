//! Streams with a result: events while the call runs, then one result.
//!
//! Spec: UPP-1.2 §15, §16

use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use futures_util::future::poll_fn;
use futures_util::{Stream, StreamExt as _, stream};
use tokio_util::sync::CancellationToken;

use super::error::{ErrorCode, Modality, UppError};
use super::middleware::call::Outcome;
use super::middleware::{CallContext, MiddlewareStack, Response};

/// One item of a running call.
#[derive(Debug, Clone, PartialEq)]
pub enum Step<E, R> {
    /// An event.
    Event(E),
    /// The result; the last item of every stream that does not fail.
    Done(Arc<R>),
}

/// The items of a running call; an error is the last item.
pub type Steps<E, R> = Pin<Box<dyn Stream<Item = Result<Step<E, R>, UppError>> + Send>>;

/// Events of a call, then its result.
///
/// Lazy: nothing is sent before the first poll. May be polled on any executor. Ends after an error; an aborted stream
/// ends with [`ErrorCode::Cancelled`].
///
/// # Cancel safety
/// Polling may be interrupted at any point without losing events. Dropping the stream cancels the call.
pub struct ResultStream<E, R> {
    /// `None` after the end.
    steps: Option<Steps<E, R>>,
    cancellation: CancellationToken,
    outcome: Option<Result<Arc<R>, UppError>>,
    provider: Arc<str>,
    modality: Modality,
}

impl<E, R> fmt::Debug for ResultStream<E, R> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match &self.outcome {
            None => "open",
            Some(Ok(_)) => "done",
            Some(Err(_)) => "failed",
        };
        formatter.debug_struct("ResultStream").field("state", &state).finish_non_exhaustive()
    }
}

impl<E: Send + 'static, R: Send + Sync + 'static> ResultStream<E, R> {
    /// Creates a stream that has not started; `provider` and `modality` are used in its errors.
    pub fn new(steps: Steps<E, R>, provider: impl Into<Arc<str>>, modality: Modality) -> Self {
        Self::with_abort(steps, provider.into(), modality, CancellationToken::new())
    }

    /// As [`Self::new`]; cancelling `cancellation` aborts the stream.
    pub(crate) fn with_abort(
        steps: Steps<E, R>,
        provider: Arc<str>,
        modality: Modality,
        cancellation: CancellationToken,
    ) -> Self {
        let steps = until_cancelled(steps, &cancellation, cancelled(&provider, modality));
        Self { steps: Some(steps), cancellation, outcome: None, provider, modality }
    }

    /// Work inside middleware. `begin` runs after the hooks of the request.
    ///
    /// An abort ends the work; the hooks after it still run.
    pub(crate) fn with_middleware(
        stack: MiddlewareStack,
        context: Arc<CallContext>,
        cancellation: CancellationToken,
        begin: impl FnOnce() -> Result<Steps<E, R>, UppError> + Send + 'static,
    ) -> Self
    where
        Arc<R>: Outcome + Into<Response>,
    {
        let (provider, modality) = (Arc::clone(&context.provider), context.modality);
        let steps = inside_middleware(stack, context, cancellation.clone(), begin);
        Self { steps: Some(steps), cancellation, outcome: None, provider, modality }
    }
}

impl<E, R> ResultStream<E, R> {
    /// Aborts the call: it ends with [`ErrorCode::Cancelled`]. Has no effect after the end.
    pub fn abort(&self) {
        self.cancellation.cancel();
    }

    /// The token that aborts the call; cancelling it is the same as [`Self::abort`].
    pub const fn abort_token(&self) -> &CancellationToken {
        &self.cancellation
    }

    /// The result, after the end.
    pub const fn outcome(&self) -> Option<&Result<Arc<R>, UppError>> {
        self.outcome.as_ref()
    }

    /// Runs the call to its end and returns the result. Remaining events are discarded. May be called again.
    ///
    /// # Errors
    /// Those of the call.
    ///
    /// # Cancel safety
    /// Dropping the future discards the events so far; the call continues at the next poll.
    pub async fn result(&mut self) -> Result<Arc<R>, UppError> {
        while self.next().await.is_some() {}
        self.outcome.clone().unwrap_or_else(|| Err(cancelled(&self.provider, self.modality)))
    }

    /// Ends the stream with an error, and stores it.
    fn fail(&mut self, error: UppError) -> Poll<Option<Result<E, UppError>>> {
        let error = error.with_modality(self.modality);
        self.steps = None;
        self.outcome = Some(Err(error.clone()));
        Poll::Ready(Some(Err(error)))
    }
}

// Steps are boxed, so the struct needs no pinning.
impl<E, R> Unpin for ResultStream<E, R> {}

impl<E, R> Stream for ResultStream<E, R> {
    type Item = Result<E, UppError>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        let Some(steps) = &mut this.steps else { return Poll::Ready(None) };
        match steps.as_mut().poll_next(context) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Some(Ok(Step::Event(event)))) => Poll::Ready(Some(Ok(event))),
            Poll::Ready(Some(Ok(Step::Done(result)))) => {
                this.steps = None;
                this.outcome = Some(Ok(result));
                Poll::Ready(None)
            }
            Poll::Ready(Some(Err(error))) => this.fail(error),
            Poll::Ready(None) => {
                let error = without_result(&this.provider);
                this.fail(error)
            }
        }
    }
}

fn cancelled(provider: &str, modality: Modality) -> UppError {
    UppError::cancelled(provider).with_modality(modality)
}

fn without_result(provider: &str) -> UppError {
    let message = "the model ended without a result; report this to its provider's author";
    UppError::new(ErrorCode::ProviderError, provider, message)
}

/// Ends the steps with `error` when `cancellation` is cancelled.
fn until_cancelled<E: 'static, R: 'static>(
    steps: Steps<E, R>,
    cancellation: &CancellationToken,
    error: UppError,
) -> Steps<E, R> {
    let mut on_cancel = Box::pin(cancellation.clone().cancelled_owned());
    let mut open = Some((steps, error));
    Box::pin(stream::poll_fn(move |context| {
        if on_cancel.as_mut().poll(context).is_ready() {
            return Poll::Ready(open.take().map(|(_, error)| Err(error)));
        }
        open.as_mut().map_or(Poll::Ready(None), |(steps, _)| steps.as_mut().poll_next(context))
    }))
}

/// Runs the steps inside the middleware.
///
/// The call passes one event at a time and waits until it is taken, so it never runs ahead of the reader.
fn inside_middleware<E: Send + 'static, R: Send + Sync + 'static>(
    stack: MiddlewareStack,
    context: Arc<CallContext>,
    cancellation: CancellationToken,
    begin: impl FnOnce() -> Result<Steps<E, R>, UppError> + Send + 'static,
) -> Steps<E, R>
where
    Arc<R>: Outcome + Into<Response>,
{
    let slot = Arc::new(EventSlot(Mutex::new(None)));
    let events = Arc::clone(&slot);
    let call = async move {
        let work = || async {
            let error = cancelled(&context.provider, context.modality);
            let mut steps = until_cancelled(begin()?, &cancellation, error);
            while let Some(step) = steps.next().await {
                match step.map_err(|error| error.with_modality(context.modality))? {
                    Step::Event(event) => events.put(event).await,
                    Step::Done(result) => {
                        context.set_response(Arc::clone(&result).into());
                        return Ok(result);
                    }
                }
            }
            Err(without_result(&context.provider))
        };
        stack.call(&context, Some(&cancellation), work).await
    };
    let mut call = Some(Box::pin(call));
    Box::pin(stream::poll_fn(move |context| {
        let Some(running) = &mut call else { return Poll::Ready(None) };
        let polled = running.as_mut().poll(context);
        if let Some(event) = slot.take() {
            return Poll::Ready(Some(Ok(Step::Event(event))));
        }
        polled.map(|outcome| {
            call = None;
            Some(outcome.map(Step::Done))
        })
    }))
}

/// Holds one event until the stream is polled.
struct EventSlot<E>(Mutex<Option<E>>);

impl<E> EventSlot<E> {
    fn take(&self) -> Option<E> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Stores an event and waits until it is taken. No wakeup is needed: the poll that takes the event also polls the
    /// call.
    async fn put(&self, event: E) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(event);
        poll_fn(|_| {
            let is_taken = self.0.lock().unwrap_or_else(PoisonError::into_inner).is_none();
            if is_taken { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }
}
