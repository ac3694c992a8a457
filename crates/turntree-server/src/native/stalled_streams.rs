//! Response bodies of HTTP/2 that a client does not read.
//!
//! A client can leave the flow control window of a stream closed and still answer pings. hyper asks for the next piece of a
//! body only when the window has room: a body that is not asked after it has given a piece waits for the client.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
use tokio::time::{Instant, sleep};

use crate::body::Body;

/// The largest piece that is given at once: what follows a piece is held back until the window has room.
const MAX_PIECE: usize = 16 * 1024;

/// The streams of one connection that wait for the client.
#[derive(Debug, Default)]
pub(super) struct StalledStreams {
    waiting: Mutex<HashMap<u64, Instant>>,
    next: AtomicU64,
}

impl StalledStreams {
    fn waiting(&self) -> MutexGuard<'_, HashMap<u64, Instant>> {
        // Each operation leaves the map consistent.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Watches the body of a response.
    pub(super) fn watch(self: &Arc<Self>, body: Body) -> WatchedBody {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        WatchedBody { body, rest: Bytes::new(), watched: Some((Arc::clone(self), id)) }
    }

    /// Ends when a stream has waited for the client for as long as the limit.
    pub(super) async fn expired(&self, limit: Duration) {
        loop {
            let oldest = self.waiting().values().min().copied();
            let left = oldest.map_or(limit, |since| limit.saturating_sub(since.elapsed()));
            if left.is_zero() {
                return;
            }
            sleep(left).await;
        }
    }
}

/// The body of a response. On HTTP/2 it is watched.
pub(super) struct WatchedBody {
    body: Body,
    /// What is left of the last chunk.
    rest: Bytes,
    watched: Option<(Arc<StalledStreams>, u64)>,
}

impl WatchedBody {
    /// A body that is not watched: the socket's own limit applies.
    pub(super) const fn unwatched(body: Body) -> Self {
        Self { body, rest: Bytes::new(), watched: None }
    }

    fn piece(&mut self) -> Bytes {
        let size = self.rest.len().min(MAX_PIECE);
        self.rest.split_to(size)
    }

    fn set_waiting(&self, is_waiting: bool) {
        let Some((streams, id)) = &self.watched else { return };
        if is_waiting {
            streams.waiting().insert(*id, Instant::now());
        } else {
            streams.waiting().remove(id);
        }
    }
}

impl HttpBody for WatchedBody {
    type Data = Bytes;
    type Error = <Body as HttpBody>::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        if self.watched.is_none() {
            return Pin::new(&mut self.body).poll_frame(context);
        }
        self.set_waiting(false);
        if self.rest.is_empty() {
            let frame = std::task::ready!(Pin::new(&mut self.body).poll_frame(context));
            match frame.map(|frame| frame.map(Frame::into_data)) {
                Some(Ok(Ok(data))) => self.rest = data,
                Some(Ok(Err(other))) => return Poll::Ready(Some(Ok(other))),
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None => return Poll::Ready(None),
            }
        }
        let piece = self.piece();
        self.set_waiting(true);
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let rest = u64::try_from(self.rest.len()).unwrap_or(u64::MAX);
        let hint = self.body.size_hint();
        let mut sum = SizeHint::new();
        sum.set_lower(hint.lower().saturating_add(rest));
        if let Some(upper) = hint.upper() {
            sum.set_upper(upper.saturating_add(rest));
        }
        sum
    }
}

impl Drop for WatchedBody {
    fn drop(&mut self) {
        self.set_waiting(false);
    }
}
