//! Server-sent events, as the server writes them.

use std::fmt::{self, Write as _};
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;
use futures_util::{Stream, StreamExt as _};
use memchr::memchr2;
use turntree_core::runtime;

use crate::error::ServerError;

/// How often a comment is sent while no event comes, so that proxies and clients do not close the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeepAlive(pub Option<Duration>);

impl Default for KeepAlive {
    /// Every 15 seconds; proxies close idle connections after 30 s or more.
    fn default() -> Self {
        Self(Some(Duration::from_secs(15)))
    }
}

/// One event of an event stream.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SseEvent {
    event: Option<String>,
    data: Option<String>,
    id: Option<String>,
    retry: Option<Duration>,
    comment: Option<String>,
}

impl SseEvent {
    /// An event with data; line breaks become several `data` lines.
    pub fn data(data: impl Into<String>) -> Self {
        Self { data: Some(data.into()), ..Self::default() }
    }

    /// An event with JSON as data.
    pub fn json<T: serde::Serialize + ?Sized>(value: &T) -> Self {
        Self::data(serde_json::to_string(value).unwrap_or_else(|_| "null".to_owned()))
    }

    /// A comment, which clients ignore.
    pub fn comment(text: impl Into<String>) -> Self {
        Self { comment: Some(text.into()), ..Self::default() }
    }

    /// Names the event. Line breaks are removed, because a name has one line.
    #[must_use]
    pub fn with_event(self, name: impl Into<String>) -> Self {
        Self { event: Some(name.into()), ..self }
    }

    /// Sets the id, which the client repeats in `Last-Event-ID`.
    #[must_use]
    pub fn with_id(self, id: impl Into<String>) -> Self {
        Self { id: Some(id.into()), ..self }
    }

    /// Tells the client how long it waits before it reconnects.
    #[must_use]
    pub fn with_retry(self, delay: Duration) -> Self {
        Self { retry: Some(delay), ..self }
    }

    /// The bytes of the event, with the empty line that ends it.
    pub fn encode(&self) -> Bytes {
        let mut text = String::with_capacity(32 + self.data.as_ref().map_or(0, String::len));
        if let Some(comment) = &self.comment {
            write_lines(&mut text, ":", comment);
        }
        if let Some(event) = &self.event {
            write_line(&mut text, "event:", event);
        }
        if let Some(id) = &self.id {
            write_line(&mut text, "id:", &id.replace('\0', ""));
        }
        if let Some(retry) = self.retry {
            // Writing to a string does not fail.
            let _ = writeln!(text, "retry: {}", retry.as_millis());
        }
        if let Some(data) = &self.data {
            write_lines(&mut text, "data:", data);
        }
        text.push('\n');
        Bytes::from(text)
    }
}

/// Writes each line of a value as a line of its own. Nearly all values are one line, and JSON of streams always is.
fn write_lines(text: &mut String, name: &str, value: &str) {
    let mut rest = value;
    while let Some(at) = memchr2(b'\r', b'\n', rest.as_bytes()) {
        let (line, tail) = rest.split_at(at);
        push_line(text, name, line);
        rest = tail.strip_prefix("\r\n").or_else(|| tail.get(1..)).unwrap_or_default();
    }
    push_line(text, name, rest);
}

/// Writes a value that has to be one line, without its ends of lines.
fn write_line(text: &mut String, name: &str, value: &str) {
    push_line(text, name, &value.replace(['\r', '\n'], ""));
}

fn push_line(text: &mut String, name: &str, line: &str) {
    text.push_str(name);
    text.push(' ');
    text.push_str(line);
    text.push('\n');
}

/// The chunks of an event stream.
pub(crate) struct EventBody {
    events: BoxStream<'static, SseEvent>,
    keep_alive: KeepAlive,
    timer: Option<BoxFuture<'static, ()>>,
}

impl EventBody {
    pub(crate) fn new(events: BoxStream<'static, SseEvent>, keep_alive: KeepAlive) -> Self {
        Self { events, keep_alive, timer: None }
    }
}

impl fmt::Debug for EventBody {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("EventBody").field("keep_alive", &self.keep_alive).finish_non_exhaustive()
    }
}

impl Stream for EventBody {
    type Item = Result<Bytes, ServerError>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        if let Poll::Ready(event) = this.events.poll_next_unpin(context) {
            this.timer = None;
            return Poll::Ready(event.map(|event| Ok(event.encode())));
        }
        let Some(period) = this.keep_alive.0 else { return Poll::Pending };
        let timer = this.timer.get_or_insert_with(|| Box::pin(runtime::sleep(period)));
        if Pin::new(timer).poll(context).is_pending() {
            return Poll::Pending;
        }
        this.timer = None;
        // The next poll arms the next timer.
        context.waker().wake_by_ref();
        Poll::Ready(Some(Ok(Bytes::from_static(b": keep-alive\n\n"))))
    }
}
