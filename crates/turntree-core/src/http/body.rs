//! Streamed bodies, decoded in the background task that reads them.
//!
//! Moving a chunk of bytes to another thread costs more than decoding it. A [`BodyDecoder`] therefore runs in the
//! background task, and only decoded items cross to the consumer.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use ::http::{HeaderMap, StatusCode};
use bytes::Bytes;
use futures_util::Stream;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::attempt::{Attempt, IncomingResponse, RequestContext};
use super::error::{HttpError, request_id};
use crate::runtime::{Task, TaskError};

/// Maximum number of items that wait for the consumer. Above it, reading stops, which applies back-pressure to the server.
pub(super) const CAPACITY: usize = 256;

/// Decodes the chunks of a body into items, in the task that reads the body.
pub trait BodyDecoder: Send + 'static {
    /// The type of the decoded items.
    type Item: Send + 'static;
    /// The error that ends the stream early. Errors of the client are converted into it.
    type Error: From<HttpError> + Send + 'static;

    /// Decodes the next chunk and appends the items that it completes.
    ///
    /// # Errors
    /// Ends the stream, after the items in `out` are delivered.
    fn decode(&mut self, bytes: &Bytes, out: &mut Vec<Self::Item>) -> Result<Flow, Self::Error>;

    /// Called at the regular end of the body. The decoder checks whether its content is complete.
    ///
    /// # Errors
    /// Ends the stream with an error, after the items in `out` are delivered.
    fn finish(&mut self, out: &mut Vec<Self::Item>) -> Result<(), Self::Error>;
}

/// Whether a decoder needs more chunks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flow {
    /// Read the next chunk.
    Continue,
    /// The content is complete; [`BodyDecoder::finish`] is not called. A short rest of the body is read and discarded in
    /// the background, so that the connection can be used again.
    Done,
}

/// A message from the task to the stream.
enum StreamMessage<T, E> {
    Item(T),
    Failed(E),
    Finished,
}

/// The beginning of a stream: sent once the first chunk is decoded.
pub(super) struct StreamHead<T> {
    status: StatusCode,
    headers: HeaderMap,
    items: Vec<T>,
}

/// A failure before the first byte of the body. The unused decoder is returned for the next attempt.
type StartFailure<S> = (HttpError, S);

/// The items of a streamed body.
///
/// May be polled on any thread. After an error it ends.
///
/// # Cancel safety
/// Dropping the future of an item loses no items. Dropping the stream aborts the background task and closes the
/// connection. A stream that was read to its end leaves the connection open for the next request.
#[derive(Debug)]
pub struct BodyStream<T, E> {
    status: StatusCode,
    headers: HeaderMap,
    first: std::vec::IntoIter<T>,
    receiver: mpsc::Receiver<StreamMessage<T, E>>,
    /// None after the end of the stream.
    task: Option<Task<()>>,
    cancel: CancellationToken,
}

impl<T, E> BodyStream<T, E> {
    /// The response's status, always a success.
    pub fn status(&self) -> StatusCode {
        self.status
    }

    /// The response's headers.
    pub fn headers(&self) -> &HeaderMap {
        &self.headers
    }

    /// The server's id of the request.
    pub fn request_id(&self) -> Option<&str> {
        request_id(&self.headers)
    }

    /// Ends the stream and aborts the task.
    fn close(&mut self) {
        self.task = None;
        self.receiver.close();
    }
}

// Items and errors are moved out, never pinned.
impl<T, E> Unpin for BodyStream<T, E> {}

impl<T, E: From<HttpError>> BodyStream<T, E> {
    /// The error for a task that ended without a last message: it was cancelled, or it panicked.
    fn poll_interrupted(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<T, E>>> {
        let Some(task) = &mut self.task else { return Poll::Ready(None) };
        let error = if self.cancel.is_cancelled() {
            HttpError::Cancelled
        } else {
            let result = ready!(Pin::new(task).poll(context));
            HttpError::Task(result.err().unwrap_or(TaskError::ShutDown))
        };
        self.close();
        Poll::Ready(Some(Err(error.into())))
    }
}

impl<T, E: From<HttpError>> Stream for BodyStream<T, E> {
    type Item = Result<T, E>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        if this.task.is_none() {
            return Poll::Ready(None);
        }
        // Checked before the buffered items: after a cancellation the stream yields no more items.
        if this.cancel.is_cancelled() {
            this.close();
            return Poll::Ready(Some(Err(HttpError::Cancelled.into())));
        }
        if let Some(item) = this.first.next() {
            // Free the memory now: the stream may stay open for a long time.
            if this.first.as_slice().is_empty() {
                this.first = Vec::new().into_iter();
            }
            return Poll::Ready(Some(Ok(item)));
        }
        match ready!(this.receiver.poll_recv(context)) {
            Some(StreamMessage::Item(item)) => Poll::Ready(Some(Ok(item))),
            Some(StreamMessage::Failed(error)) => {
                this.close();
                Poll::Ready(Some(Err(error)))
            }
            Some(StreamMessage::Finished) => {
                if let Some(task) = this.task.take() {
                    task.detach();
                }
                Poll::Ready(None)
            }
            None => this.poll_interrupted(context),
        }
    }
}

/// The consumer's side of a stream that has not started.
pub(super) struct PendingStream<S: BodyDecoder> {
    started: oneshot::Receiver<Result<StreamHead<S::Item>, StartFailure<S>>>,
    receiver: mpsc::Receiver<StreamMessage<S::Item, S::Error>>,
}

/// The task's side of a stream.
pub(super) struct BodyReader<S: BodyDecoder> {
    started: oneshot::Sender<Result<StreamHead<S::Item>, StartFailure<S>>>,
    sender: mpsc::Sender<StreamMessage<S::Item, S::Error>>,
    decoder: S,
}

pub(super) fn connect<S: BodyDecoder>(decoder: S) -> (BodyReader<S>, PendingStream<S>) {
    let (started_sender, started) = oneshot::channel();
    let (sender, receiver) = mpsc::channel(CAPACITY);
    (BodyReader { started: started_sender, sender, decoder }, PendingStream { started, receiver })
}

impl<S: BodyDecoder> PendingStream<S> {
    /// Waits for the first chunk. On failure the decoder is returned, unless the task is gone.
    pub(super) async fn started(
        self,
        task: Task<()>,
        cancel: CancellationToken,
    ) -> Result<BodyStream<S::Item, S::Error>, (HttpError, Option<S>)> {
        match self.started.await {
            Ok(Ok(StreamHead { status, headers, items })) => Ok(BodyStream {
                status,
                headers,
                first: items.into_iter(),
                receiver: self.receiver,
                task: Some(task),
                cancel,
            }),
            Ok(Err((error, decoder))) => Err((error, Some(decoder))),
            Err(_) if cancel.is_cancelled() => Err((HttpError::Cancelled, None)),
            Err(_) => Err((task.await.err().unwrap_or(TaskError::ShutDown).into(), None)),
        }
    }
}

/// The state after a chunk.
enum Step<E> {
    More,
    Finished,
    Failed(E),
}

impl<S: BodyDecoder> BodyReader<S> {
    /// Reads the body until it ends, the decoder is done, or the consumer drops the stream.
    pub(super) async fn run(self, context: Arc<RequestContext>, attempt: Attempt) {
        let Self { started, sender, mut decoder } = self;
        // Boxed, as the end is, so that the state of sending a request is freed when the stream starts.
        let (mut response, first) = match Box::pin(begin(context, attempt)).await {
            Ok(begun) => begun,
            Err(error) => {
                // This fails only if the consumer is gone.
                let _ = started.send(Err((error, decoder)));
                return;
            }
        };
        let mut out = Vec::new();
        let mut step = feed(&mut decoder, Ok(first), &mut out);
        let mut last = step.last_item(&response, &mut out);
        let status = response.status;
        let headers = std::mem::take(&mut response.headers);
        if started.send(Ok(StreamHead { status, headers, items: std::mem::take(&mut out) })).is_err() {
            return;
        }
        loop {
            if deliver(&sender, &mut out).await.is_err() {
                return;
            }
            match step {
                Step::More => {
                    step = feed(&mut decoder, response.next_chunk().await, &mut out);
                    last = step.last_item(&response, &mut out);
                }
                Step::Failed(error) => {
                    let _ = sender.send(StreamMessage::Failed(error)).await;
                    return;
                }
                Step::Finished => return end(sender, response, last).await,
            }
        }
    }
}

impl<E> Step<E> {
    /// Takes the last item of a complete content, if the end of its body can fail.
    ///
    /// A consumer may take that item for the end of the stream and not wait for an error after it.
    fn last_item<T>(&self, response: &IncomingResponse, items: &mut Vec<T>) -> Option<T> {
        let is_held = matches!(self, Self::Finished) && response.can_fail_to_close();
        if is_held { items.pop() } else { None }
    }
}

/// Reports the end of the stream, and reads the rest of the body.
///
/// The consumer waits for the rest only if it can fail: a stream whose recording is not written ends with an error
/// instead of its last item.
async fn end<T, E: From<HttpError>>(
    sender: mpsc::Sender<StreamMessage<T, E>>,
    mut response: IncomingResponse,
    last: Option<T>,
) {
    // A message is not sent only if the consumer is gone.
    if response.can_fail_to_close() {
        if let Err(error) = Box::pin(response.finish()).await {
            let _ = sender.send(StreamMessage::Failed(error.into())).await;
            return;
        }
        if let Some(item) = last {
            let _ = sender.send(StreamMessage::Item(item)).await;
        }
        let _ = sender.send(StreamMessage::Finished).await;
        return;
    }
    let _ = sender.send(StreamMessage::Finished).await;
    drop(sender);
    // The content is complete; an error of the rest only closes the connection.
    let _ = Box::pin(response.drain()).await;
}

/// Sends the request and reads up to the first chunk. If this fails, the request may be retried.
async fn begin(
    context: Arc<RequestContext>,
    attempt: Attempt,
) -> Result<(IncomingResponse, Option<Bytes>), HttpError> {
    let limit = context.config.max_stream;
    let mut response = context.open(attempt, limit).await?;
    let first = response.next_chunk().await?;
    Ok((response, first))
}

fn feed<S: BodyDecoder>(
    decoder: &mut S,
    chunk: Result<Option<Bytes>, HttpError>,
    out: &mut Vec<S::Item>,
) -> Step<S::Error> {
    let result = match chunk {
        Ok(Some(bytes)) => decoder.decode(&bytes, out),
        Ok(None) => decoder.finish(out).map(|()| Flow::Done),
        Err(error) => Err(error.into()),
    };
    match result {
        Ok(Flow::Continue) => Step::More,
        Ok(Flow::Done) => Step::Finished,
        Err(error) => Step::Failed(error),
    }
}

/// Sends items to the consumer, and waits while its buffer is full. Fails if the consumer is gone.
async fn deliver<T, E>(
    sender: &mpsc::Sender<StreamMessage<T, E>>,
    items: &mut Vec<T>,
) -> Result<(), mpsc::error::SendError<()>> {
    while !items.is_empty() {
        let count = items.len().min(CAPACITY);
        let permits = sender.reserve_many(count).await?;
        for (permit, item) in permits.zip(items.drain(..count)) {
            permit.send(StreamMessage::Item(item));
        }
    }
    Ok(())
}
