//! Answer bodies: one JSON document, or a list of events, each sent as one frame.

use std::convert::Infallible;
use std::future::Future as _;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Frame, SizeHint};
use serde::Serialize;
use tokio::time::Sleep;

/// Time between two events of a paced stream.
const PACE: Duration = Duration::from_millis(1);

/// A precomputed body; clones share their bytes.
#[derive(Debug)]
pub(crate) enum Body {
    /// One document with a `Content-Length`; `None` once it is sent.
    Json(Option<Bytes>),
    /// Events; each is one chunk of the transfer encoding.
    Events(Events),
}

/// A stream of events.
#[derive(Debug)]
pub(crate) struct Events {
    frames: Arc<[Bytes]>,
    next: usize,
    /// The timer of the next event of a paced stream.
    wait: Option<Pin<Box<Sleep>>>,
}

impl Body {
    /// Creates a body of one JSON document.
    pub(crate) fn json(value: &impl Serialize) -> Self {
        Self::Json(Some(to_bytes(value)))
    }

    /// Sends events as fast as the socket takes them.
    pub(crate) fn events(frames: &Arc<[Bytes]>) -> Self {
        Self::Events(Events { frames: Arc::clone(frames), next: 0, wait: None })
    }

    /// Sends one event a millisecond; needs a running tokio timer.
    pub(crate) fn paced_events(frames: &Arc<[Bytes]>) -> Self {
        let wait = Some(Box::pin(tokio::time::sleep(PACE)));
        Self::Events(Events { frames: Arc::clone(frames), next: 0, wait })
    }

    /// Whether this is a stream of server-sent events.
    pub(crate) fn is_events(&self) -> bool {
        matches!(self, Self::Events(_))
    }
}

impl hyper::body::Body for Body {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let frame = match self.get_mut() {
            Self::Json(document) => document.take(),
            Self::Events(events) => ready!(events.poll_next(context)),
        };
        Poll::Ready(frame.map(|bytes| Ok(Frame::data(bytes))))
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Json(Some(bytes)) => SizeHint::with_exact(bytes.len() as u64),
            Self::Json(None) => SizeHint::with_exact(0),
            Self::Events(_) => SizeHint::default(),
        }
    }
}

impl Events {
    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        let Some(frame) = self.frames.get(self.next) else { return Poll::Ready(None) };
        if let Some(wait) = &mut self.wait {
            ready!(wait.as_mut().poll(context));
            let deadline = wait.deadline() + PACE;
            wait.as_mut().reset(deadline);
        }
        self.next += 1;
        Poll::Ready(Some(frame.clone()))
    }
}

/// One event: `event:` if it has a name, and its data.
pub(crate) fn event(name: Option<&str>, data: &impl Serialize) -> Bytes {
    let mut frame = Vec::new();
    if let Some(name) = name {
        frame.extend_from_slice(b"event: ");
        frame.extend_from_slice(name.as_bytes());
        frame.push(b'\n');
    }
    frame.extend_from_slice(b"data: ");
    frame.extend_from_slice(&to_bytes(data));
    frame.extend_from_slice(b"\n\n");
    frame.into()
}

/// The JSON of a value; empty if serialization fails.
pub(crate) fn to_bytes(value: &impl Serialize) -> Bytes {
    serde_json::to_vec(value).unwrap_or_default().into()
}
