//! Work that is listened to: events while it goes on, a result at its end. UPP-1.2 §15 and §16.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::{Stream, StreamExt as _};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

use super::error::{ErrorCode, Modality, UppError};

/// One step of the work.
#[derive(Debug, Clone, PartialEq)]
pub enum Step<E, R> {
    /// Something happened.
    Event(E),
    /// It is done; the last item of every stream that does not fail.
    Done(R),
}

/// The steps of the work; an error is the last item.
pub type Steps<E, R> = Pin<Box<dyn Stream<Item = Result<Step<E, R>, UppError>> + Send>>;

/// Events of some work, then its result.
///
/// Lazy: nothing is sent before it is polled. May be polled on any executor. Ends after an error; an aborted one ends
/// with [`ErrorCode::Cancelled`].
///
/// # Cancel safety
/// Polling may be interrupted anywhere; no event is lost. Dropping it stops the work.
pub struct ResultStream<E, R> {
    /// Gone when it is over.
    steps: Option<Steps<E, R>>,
    cancellation: CancellationToken,
    cancelled: Pin<Box<WaitForCancellationFutureOwned>>,
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

impl<E, R> ResultStream<E, R> {
    /// Work that has not started; `provider` and `modality` are those of its errors.
    pub fn new(steps: Steps<E, R>, provider: impl Into<Arc<str>>, modality: Modality) -> Self {
        let cancellation = CancellationToken::new();
        let cancelled = Box::pin(cancellation.clone().cancelled_owned());
        let provider = provider.into();
        Self { steps: Some(steps), cancellation, cancelled, outcome: None, provider, modality }
    }

    /// Stops the work: it ends with [`ErrorCode::Cancelled`]. No effect when it is over.
    pub fn abort(&self) {
        self.cancellation.cancel();
    }

    /// What aborts the work from elsewhere: cancelling it is [`Self::abort`].
    pub const fn abort_token(&self) -> &CancellationToken {
        &self.cancellation
    }

    /// The result, when it is over.
    pub const fn outcome(&self) -> Option<&Result<Arc<R>, UppError>> {
        self.outcome.as_ref()
    }

    /// Drives the work to its end and gives its result. Events that nobody takes are dropped. May be asked again.
    ///
    /// # Errors
    /// Those of the work.
    ///
    /// # Cancel safety
    /// Interrupted, it drops the events that came meanwhile; the work goes on when it is polled again.
    pub async fn result(&mut self) -> Result<Arc<R>, UppError> {
        while self.next().await.is_some() {}
        self.outcome.clone().unwrap_or_else(|| Err(self.stopped()))
    }

    fn stopped(&self) -> UppError {
        UppError::cancelled(&*self.provider).with_modality(self.modality)
    }

    /// Ends with an error, which is given to whoever iterates, and kept.
    fn fail(&mut self, error: UppError) -> Poll<Option<Result<E, UppError>>> {
        let error = error.with_modality(self.modality);
        self.steps = None;
        self.outcome = Some(Err(error.clone()));
        Poll::Ready(Some(Err(error)))
    }
}

// Steps are boxed; nothing is pinned in place.
impl<E, R> Unpin for ResultStream<E, R> {}

impl<E, R> Stream for ResultStream<E, R> {
    type Item = Result<E, UppError>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        let Some(steps) = &mut this.steps else { return Poll::Ready(None) };
        if this.cancelled.as_mut().poll(context).is_ready() {
            let error = this.stopped();
            return this.fail(error);
        }
        match steps.as_mut().poll_next(context) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Some(Ok(Step::Event(event)))) => Poll::Ready(Some(Ok(event))),
            Poll::Ready(Some(Ok(Step::Done(result)))) => {
                this.steps = None;
                this.outcome = Some(Ok(Arc::new(result)));
                Poll::Ready(None)
            }
            Poll::Ready(Some(Err(error))) => this.fail(error),
            Poll::Ready(None) => {
                let message = "the model ended without a result; report this to its provider's author";
                let error = UppError::new(ErrorCode::ProviderError, &*this.provider, message);
                this.fail(error)
            }
        }
    }
}
