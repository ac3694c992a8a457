//! Runs the calls of models that return a result instead of a message: embeddings and images.
//!
//! One call has the middleware around it and one span in it. Both are optional.
//!
//! Spec: UPP-1.2 §15, §16, §17

use std::fmt;
use std::sync::Arc;
use std::task::Poll;

use futures_util::{StreamExt as _, stream};
use tokio_util::sync::CancellationToken;

use super::error::{Modality, UppError};
use super::middleware::call::Outcome;
use super::middleware::context::CalledModel;
use super::middleware::{CallContext, MiddlewareStack, Request, Response};
use super::result_stream::{ResultStream, Step, Steps};
use super::telemetry::{ErrorOutcome, MediaOperation, ResultOutcome};
use turntree_core::telemetry::{Outcome as SpanOutcome, SpanGuard, Tracer};
use turntree_core::time::SystemClock;

/// Middleware and telemetry of a call.
#[derive(Clone, Default)]
pub struct CallLayers {
    /// The middleware around the call.
    pub middleware: MiddlewareStack,
    /// Receives one span for each call. Default: none.
    pub tracer: Option<Arc<dyn Tracer>>,
}

impl fmt::Debug for CallLayers {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("CallLayers")
            .field("middleware", &self.middleware)
            .field("is_traced", &self.tracer.is_some())
            .finish()
    }
}

impl From<MiddlewareStack> for CallLayers {
    fn from(middleware: MiddlewareStack) -> Self {
        Self { middleware, tracer: None }
    }
}

/// The request of one modality.
pub(crate) trait ResultRequest: Clone + Into<Request> + Send + 'static {
    /// The kind of model that takes it.
    const MODALITY: Modality;
    /// What an event of the stream contains.
    type Event: Send + 'static;
    /// What the call returns.
    type Result: Send + Sync + 'static;

    /// The name of the operation in the span, and the type of its output if the conventions name it.
    const OPERATION: (&'static str, Option<&'static str>);

    /// The request of a call, as the middleware left it.
    fn of_context(context: &CallContext) -> Option<Self>;
}

/// One call that has not started.
pub(crate) struct ResultCall<Q> {
    pub(crate) provider: Arc<str>,
    pub(crate) model_id: Arc<str>,
    pub(crate) request: Q,
    pub(crate) layers: CallLayers,
}

impl<Q: ResultRequest> ResultCall<Q>
where
    Arc<Q::Result>: Outcome + Into<Response>,
    for<'a> ResultOutcome<'a, Q::Result>: SpanOutcome,
{
    fn context(&self, streaming: bool) -> Arc<CallContext> {
        let called = CalledModel {
            modality: Q::MODALITY,
            model_id: Arc::clone(&self.model_id),
            provider: Arc::clone(&self.provider),
            streaming,
        };
        Arc::new(CallContext::of_request(called, self.request.clone().into(), Arc::new(SystemClock)))
    }

    fn span(&self) -> CallSpan {
        CallSpan {
            tracer: self.layers.tracer.clone(),
            operation: Q::OPERATION,
            provider: Arc::clone(&self.provider),
            model_id: Arc::clone(&self.model_id),
        }
    }

    /// Runs the call and returns its result only.
    ///
    /// # Errors
    /// Those of `call` and of the middleware.
    pub(crate) async fn complete<F: Future<Output = Result<Q::Result, UppError>> + Send>(
        self,
        call: impl FnOnce(Q) -> F + Send,
    ) -> Result<Arc<Q::Result>, UppError> {
        let (context, span) = (self.context(false), self.span());
        let work = || async {
            let request = Q::of_context(&context).unwrap_or(self.request);
            let span = span.start(None);
            let result = call(request).await.map_err(|error| error.with_modality(Q::MODALITY)).map(Arc::new);
            match &result {
                Ok(result) => span.end(&ResultOutcome(&**result)),
                Err(error) => span.end(&ErrorOutcome(error)),
            }
            let result = result?;
            context.set_response(Arc::clone(&result).into());
            Ok(result)
        };
        self.layers.middleware.call(&context, None, work).await
    }

    /// Starts the call as a stream. `chunked` tells the middleware whether the caller reads the events.
    ///
    /// # Errors
    /// Those of `begin` if there is no middleware. With middleware, which may change the request and sees all errors,
    /// they come from the stream.
    pub(crate) fn stream(
        self,
        chunked: bool,
        begin: impl FnOnce(Q) -> Result<Steps<Q::Event, Q::Result>, UppError> + Send + 'static,
    ) -> Result<ResultStream<Q::Event, Q::Result>, UppError> {
        let (abort, span) = (CancellationToken::new(), self.span());
        if self.layers.middleware.is_empty() {
            let steps = traced(begin(self.request)?, span, chunked, abort.clone());
            return Ok(ResultStream::with_abort(steps, self.provider, Q::MODALITY, abort));
        }
        let context = self.context(chunked);
        let (current, given, token) = (Arc::clone(&context), self.request, abort.clone());
        let begin = move || {
            let request = Q::of_context(&current).unwrap_or(given);
            Ok(traced(begin(request)?, span, chunked, token))
        };
        Ok(ResultStream::with_middleware(self.layers.middleware, context, abort, begin))
    }
}

/// The span of one call, before it starts.
struct CallSpan {
    tracer: Option<Arc<dyn Tracer>>,
    operation: (&'static str, Option<&'static str>),
    provider: Arc<str>,
    model_id: Arc<str>,
}

impl CallSpan {
    /// Starts the span. If the guard is dropped after `abort` was cancelled, the span ends as aborted.
    fn start(&self, abort: Option<CancellationToken>) -> SpanGuard {
        let Some(tracer) = &self.tracer else { return SpanGuard::default() };
        let (operation, output) = self.operation;
        let (provider, model_id) = (&*self.provider, &*self.model_id);
        SpanGuard::new(tracer.start(&MediaOperation { operation, output, provider, model_id }, None), abort)
    }
}

/// Adds a span to the steps. It starts when they are first polled; with `chunked` the first event is marked in it.
fn traced<E: Send + 'static, R: Send + Sync + 'static>(
    mut steps: Steps<E, R>,
    span: CallSpan,
    chunked: bool,
    abort: CancellationToken,
) -> Steps<E, R>
where
    for<'a> ResultOutcome<'a, R>: SpanOutcome,
{
    if span.tracer.is_none() {
        return steps;
    }
    let mut open: Option<SpanGuard> = None;
    let mut waits_for_first = chunked;
    Box::pin(stream::poll_fn(move |context| {
        let guard = open.get_or_insert_with(|| span.start(Some(abort.clone())));
        let polled = steps.poll_next_unpin(context);
        match &polled {
            Poll::Ready(Some(Ok(Step::Event(_)))) if std::mem::take(&mut waits_for_first) => {
                guard.first_chunk();
            }
            Poll::Ready(Some(Ok(Step::Done(result)))) => std::mem::take(guard).end(&ResultOutcome(&**result)),
            Poll::Ready(Some(Err(error))) => std::mem::take(guard).end(&ErrorOutcome(error)),
            _ => {}
        }
        polled
    }))
}
