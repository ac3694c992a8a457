//! Streamed bodies: decoded in the task that reads them, handed over item by item.
//!
//! A chunk of bytes that changes threads costs more than decoding it, so the decoder goes to the bytes: a
//! [`BodyDecoder`] runs in the background task and only what it makes crosses to the consumer.

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

/// Items that wait for the consumer before reading stops; the server then feels the back-pressure.
pub(super) const CAPACITY: usize = 256;

/// Turns the chunks of a body into items, in the task that reads the body.
pub trait BodyDecoder: Send + 'static {
    /// What crosses to the consumer.
    type Item: Send + 'static;
    /// What ends the stream early. Failures of the transport are converted into it.
    type Error: From<HttpError> + Send + 'static;

    /// Takes the next chunk and appends what it completes.
    ///
    /// # Errors
    /// Ends the stream; what is in `out` is still delivered first.
    fn decode(&mut self, bytes: &Bytes, out: &mut Vec<Self::Item>) -> Result<Flow, Self::Error>;

    /// The body ended as it should; whether the content did is for the decoder to judge.
    ///
    /// # Errors
    /// Ends the stream with an error; what is in `out` is still delivered first.
    fn finish(&mut self, out: &mut Vec<Self::Item>) -> Result<(), Self::Error>;
}

/// Whether a decoder wants more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flow {
    /// Go on.
    Continue,
    /// The content is complete, whatever still follows; [`BodyDecoder::finish`] is not called. A short rest is
    /// read in the background, so that the connection can be used again.
    Done,
}

/// What crosses from the task to the stream.
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

/// A failure before the first byte of the body; the decoder is unused and comes back for the next attempt.
type StartFailure<S> = (HttpError, S);

/// The items of a streamed body.
///
/// May be polled on any thread. After an error it ends.
///
/// # Cancel safety
/// Waiting for an item may be given up and resumed; nothing is lost. Dropping the stream aborts the
/// background task and closes the connection. A stream that was read to its end leaves the connection
/// open for the next request.
#[derive(Debug)]
pub struct BodyStream<T, E> {
    status: StatusCode,
    headers: HeaderMap,
    first: std::vec::IntoIter<T>,
    receiver: mpsc::Receiver<StreamMessage<T, E>>,
    /// Gone when the stream is over.
    task: Option<Task<()>>,
    cancel: CancellationToken,
}

impl<T, E> BodyStream<T, E> {
    /// The response's status, a success.
    pub fn status(&self) -> StatusCode {
        self.status
    }

    /// The response's headers.
    pub fn headers(&self) -> &HeaderMap {
        &self.headers
    }

    /// The server's name for the request.
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
    /// The task is gone without a last word: it was cancelled, or it panicked.
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
        // Before what is buffered: after a cancellation nothing more may come.
        if this.cancel.is_cancelled() {
            this.close();
            return Poll::Ready(Some(Err(HttpError::Cancelled.into())));
        }
        if let Some(item) = this.first.next() {
            // With the last of them, whenever the next comes: a stream may stay open for long.
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

/// The consumer's side of an attempt that is under way.
pub(super) struct PendingStream<S: BodyDecoder> {
    started: oneshot::Receiver<Result<StreamHead<S::Item>, StartFailure<S>>>,
    receiver: mpsc::Receiver<StreamMessage<S::Item, S::Error>>,
}

/// The task's side of it.
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
    /// Waits for the first chunk. Without it the decoder comes back, unless the task is gone.
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

/// What a decoder made of a chunk.
enum Step<E> {
    More,
    Finished,
    Failed(E),
}

impl<S: BodyDecoder> BodyReader<S> {
    /// Reads the body to its end, until the decoder has enough, or until nobody listens.
    pub(super) async fn run(self, context: Arc<RequestContext>, attempt: Attempt) {
        let Self { started, sender, mut decoder } = self;
        // Apart, as the end is: what it takes to send a request would be kept for as long as the stream.
        let (mut response, first) = match Box::pin(begin(context, attempt)).await {
            Ok(begun) => begun,
            Err(error) => {
                // Nobody listens if this fails, and then it does not matter.
                let _ = started.send(Err((error, decoder)));
                return;
            }
        };
        let mut out = Vec::new();
        let mut step = feed(&mut decoder, Ok(first), &mut out);
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
                Step::More => step = feed(&mut decoder, response.next_chunk().await, &mut out),
                Step::Failed(error) => {
                    let _ = sender.send(StreamMessage::Failed(error)).await;
                    return;
                }
                Step::Finished => {
                    let _ = sender.send(StreamMessage::Finished).await;
                    drop(sender);
                    Box::pin(response.drain()).await;
                    return;
                }
            }
        }
    }
}

/// Everything up to the first chunk: as long as this fails, the request may be repeated.
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

/// Hands items over, waiting while the consumer has enough. Fails when nobody listens any more.
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
