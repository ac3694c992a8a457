//! The HTTP client: retries, deadlines and cancellation around a transport.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;

use futures_util::future::{Either, select};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::attempt::{Attempt, HttpResponse, RequestContext};
use super::body::{BodyDecoder, BodyStream, connect};
use super::config::HttpConfig;
use super::error::{HttpError, TimeoutPhase};
use super::request::{HttpRequest, PreparedRequest};
use super::retry::{Attempts, RetryPolicy};
use super::transport::{Credentials, ReqwestTransport, Transport, TransportLayer};
use crate::runtime;

/// Sends requests. Cloning shares the transport.
///
/// Redirects within one origin are followed only if they preserve method and body (307, 308), so that keys never
/// reach another host; other redirects are an [`HttpError::Status`].
#[derive(Debug, Clone)]
pub struct HttpClient {
    transport: Arc<dyn Transport>,
    config: Arc<HttpConfig>,
}

impl HttpClient {
    /// A client that sends its requests through a transport.
    pub fn new(transport: Arc<dyn Transport>, config: &HttpConfig) -> Self {
        Self { transport, config: Arc::new(config.clone()) }
    }

    /// A client over the network. Configurations with the same connection settings share their connections.
    ///
    /// # Errors
    /// [`HttpError::Request`] if the settings are invalid, for example a proxy URL that does not parse.
    pub fn shared(config: &HttpConfig) -> Result<Self, HttpError> {
        Ok(Self::new(ReqwestTransport::shared(config)?, config))
    }

    /// A client over the network with connections of its own; in a fork it uses the shared ones.
    ///
    /// # Errors
    /// As [`HttpClient::shared`].
    pub fn isolated(config: &HttpConfig) -> Result<Self, HttpError> {
        Ok(Self::new(Arc::new(ReqwestTransport::isolated(config)?), config))
    }

    /// Wraps the transport.
    #[must_use]
    pub fn layer(self, layer: &dyn TransportLayer) -> Self {
        Self { transport: layer.layer(self.transport), config: self.config }
    }

    /// The same client with another limit for bodies that are read whole.
    #[must_use]
    pub fn with_max_body(mut self, limit: usize) -> Self {
        Arc::make_mut(&mut self.config).max_body = limit;
        self
    }

    /// The configuration.
    pub fn config(&self) -> &HttpConfig {
        &self.config
    }

    /// Whether a request needs credentials; see [`Transport::credentials`].
    pub fn credentials(&self, request: &HttpRequest) -> Credentials {
        self.transport.credentials(request)
    }

    /// Sends a request and reads the whole body. May be polled on any thread.
    ///
    /// # Errors
    /// [`HttpError`], after the retries that the policy allows.
    ///
    /// # Cancel safety
    /// Dropping the future, or cancelling the token, aborts the request and closes its connection; the
    /// server may have processed it.
    pub fn send(
        &self,
        request: HttpRequest,
        retry: &RetryPolicy,
        cancel: &CancellationToken,
    ) -> impl Future<Output = Result<HttpResponse, HttpError>> + Send + use<> {
        let (client, retry, cancel) = (self.clone(), retry.clone(), cancel.clone());
        async move {
            let mut call = client.call(request, false, &retry)?;
            let context = Arc::clone(&call.context);
            // Boxed, here and below: each layer around a future stores it again, and all of it is copied when it moves.
            let work = Box::pin(async move {
                loop {
                    let attempt = call.next_attempt().await?;
                    let task = runtime::spawn(Arc::clone(&call.context).fetch(attempt));
                    match task.await.map_err(HttpError::from).and_then(|result| result) {
                        Ok(response) => {
                            call.attempts.succeeded().await?;
                            return Ok(response);
                        }
                        Err(error) => call.attempts.after_failure(error).await?,
                    }
                }
            });
            bounded(work, &context, &cancel).await
        }
    }

    /// Sends a request and decodes its body in the task that reads it. May be polled on any thread.
    ///
    /// Resolves when the first chunk is decoded, or when the body ended without one. Before that a failure may be
    /// retried; after it the stream reports failures. At most 256 items are buffered for the consumer.
    ///
    /// # Errors
    /// [`HttpError`] before the first byte of the body, after the retries that the policy allows.
    ///
    /// # Cancel safety
    /// Dropping the future or the stream, or cancelling the token, aborts the request and closes its
    /// connection.
    pub fn stream<S: BodyDecoder>(
        &self,
        request: HttpRequest,
        retry: &RetryPolicy,
        cancel: &CancellationToken,
        decoder: S,
    ) -> impl Future<Output = Result<BodyStream<S::Item, S::Error>, HttpError>> + Send + use<S> {
        let (client, retry, cancel) = (self.clone(), retry.clone(), cancel.clone());
        async move {
            let mut call = client.call(request, true, &retry)?;
            let context = Arc::clone(&call.context);
            let token = cancel.clone();
            let work = Box::pin(async move {
                let mut decoder = decoder;
                loop {
                    let attempt = call.next_attempt().await?;
                    let (reader, pending) = connect(decoder);
                    let reading = reader.run(Arc::clone(&call.context), attempt);
                    let task = runtime::spawn(until_cancelled(token.clone(), reading));
                    match pending.started(task, token.clone()).await {
                        Ok(stream) => {
                            call.attempts.succeeded().await?;
                            return Ok(stream);
                        }
                        Err((error, None)) => return Err(error),
                        Err((error, Some(unused))) => {
                            call.attempts.after_failure(error).await?;
                            decoder = unused;
                        }
                    }
                }
            });
            bounded(work, &context, &cancel).await
        }
    }

    fn call(&self, request: HttpRequest, streamed: bool, retry: &RetryPolicy) -> Result<Call, HttpError> {
        let response_type = request.accepted();
        let request = request.prepare(streamed)?;
        let context = RequestContext {
            config: Arc::clone(&self.config),
            url: request.url.clone(),
            response_type,
            deadline: self.config.total_deadline.and_then(|total| Instant::now().checked_add(total)),
        };
        Ok(Call {
            transport: Arc::clone(&self.transport),
            context: Arc::new(context),
            request: Some(request),
            attempts: retry.attempts(),
        })
    }
}

/// One request with all its attempts.
struct Call {
    transport: Arc<dyn Transport>,
    context: Arc<RequestContext>,
    /// None once the last attempt was sent.
    request: Option<PreparedRequest>,
    attempts: Attempts,
}

impl Call {
    /// Waits until the retry strategy and the concurrency limit permit the next attempt.
    ///
    /// [`Transport::send`] is called here, on the polling thread: transports see concurrent requests in the order in
    /// which they were made.
    async fn next_attempt(&mut self) -> Result<Attempt, HttpError> {
        self.attempts.before_request().await?;
        // Without retries the only attempt takes the request; otherwise each gets a copy, which shares the body.
        let request = if self.attempts.may_repeat() { self.request.clone() } else { self.request.take() };
        let request = request
            .ok_or_else(|| HttpError::Request { message: "its body can be sent only once".to_owned() })?;
        Ok(self.context.start(&*self.transport, request).await)
    }
}

/// Ends the work when the deadline of the whole operation passes or the token is cancelled.
async fn bounded<T>(
    work: impl Future<Output = Result<T, HttpError>> + Unpin,
    context: &RequestContext,
    cancel: &CancellationToken,
) -> Result<T, HttpError> {
    let work = async {
        let Some(total) = context.config.total_deadline else { return work.await };
        match select(work, pin!(runtime::sleep(total))).await {
            Either::Left((result, _)) => result,
            Either::Right(_) => Err(context.timed_out(TimeoutPhase::Total, total)),
        }
    };
    cancel.run_until_cancelled(work).await.unwrap_or(Err(HttpError::Cancelled))
}

async fn until_cancelled(cancel: CancellationToken, work: impl Future<Output = ()>) {
    // The stream checks the token itself.
    let _ = cancel.run_until_cancelled(work).await;
}
