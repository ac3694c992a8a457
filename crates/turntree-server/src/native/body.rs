//! The body of a request on the native server.

use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use futures_util::Stream;
use futures_util::future::{poll_fn, select};
use http_body::Body as _;
use hyper::body::{Frame, Incoming};
use turntree_core::runtime;

use crate::body::Body;
use crate::error::ServerError;

/// How much of a body that nobody reads is discarded.
const DISCARD_BYTES: usize = 32 * 1024 * 1024;

/// How long a body that nobody reads is discarded.
const DISCARD_TIME: Duration = Duration::from_secs(5);

/// The body of a request as the application sees it.
///
/// With `discards`, a body that is dropped before its end is read on and discarded, within limits: a client that still
/// sends would otherwise see a reset connection instead of the response. `waits_for_continue`: the client sends nothing
/// before it is told to.
pub(super) fn of(incoming: Incoming, discards: bool, waits_for_continue: bool) -> Body {
    if incoming.is_end_stream() {
        return Body::empty();
    }
    let length = incoming.size_hint().exact();
    let is_sent = !waits_for_continue;
    Body::stream_with_length(Chunks { incoming: Some(incoming), discards, is_sent }, length)
}

struct Chunks {
    /// `None` after the end.
    incoming: Option<Incoming>,
    discards: bool,
    /// True if the client sends the body, or was told to: hyper says so when the body is first polled.
    is_sent: bool,
}

impl Stream for Chunks {
    type Item = Result<Bytes, ServerError>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        this.is_sent = true;
        loop {
            let Some(incoming) = &mut this.incoming else { return Poll::Ready(None) };
            match ready!(Pin::new(incoming).poll_frame(context)).map(|frame| frame.map(Frame::into_data)) {
                Some(Ok(Ok(data))) => return Poll::Ready(Some(Ok(data))),
                // Trailers.
                Some(Ok(Err(_))) => {}
                Some(Err(error)) => {
                    this.incoming = None;
                    return Poll::Ready(Some(Err(ServerError::Body { reason: error.to_string() })));
                }
                None => this.incoming = None,
            }
        }
    }
}

impl Drop for Chunks {
    fn drop(&mut self) {
        let Some(incoming) = self.incoming.take() else { return };
        if self.discards && self.is_sent && !incoming.is_end_stream() {
            runtime::spawn(discard(incoming)).detach();
        }
    }
}

/// Reads a body to its end, up to the limits.
async fn discard(mut incoming: Incoming) {
    let reading = async {
        let mut size = 0;
        while size < DISCARD_BYTES {
            match poll_fn(|context| Pin::new(&mut incoming).poll_frame(context)).await {
                Some(Ok(frame)) => size += frame.data_ref().map_or(0, Bytes::len),
                Some(Err(_)) | None => return,
            }
        }
    };
    select(pin!(reading), pin!(runtime::sleep(DISCARD_TIME))).await;
}
