//! The reading side of a published stream.

use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use futures_util::Stream;

use super::channel::{Channel, StreamItem};
use crate::error::UppError;
use turntree_core::message::{StreamEvent, Turn};

/// Reads a stream from its start: buffered events, then live ones. Ends with the stream; an error is the last item.
///
/// # Cancel safety
/// Polling may be interrupted at any point without losing events. Dropping the subscription affects neither the call
/// nor other subscribers.
pub struct Subscription {
    channel: Arc<Channel>,
    place: usize,
    key: u64,
    reported: bool,
}

impl fmt::Debug for Subscription {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Subscription").field("place", &self.place).finish_non_exhaustive()
    }
}

impl Subscription {
    pub(super) fn new(channel: Arc<Channel>) -> Self {
        Self { key: channel.join(), channel, place: 0, reported: false }
    }

    /// A second subscription of the same stream, from its start.
    #[must_use]
    pub fn again(&self) -> Self {
        Self::new(Arc::clone(&self.channel))
    }

    /// Waits for the end and returns the turn; `None` if no language model was called. Consumes no events.
    ///
    /// # Errors
    /// The error of the call.
    ///
    /// # Cancel safety
    /// Dropping the future has no effect.
    pub fn turn(&self) -> impl Future<Output = Result<Option<Arc<Turn>>, UppError>> + Send + use<> {
        let waiting = Waiting { key: self.channel.join(), channel: Arc::clone(&self.channel) };
        poll_fn(move |context| waiting.channel.poll_end(waiting.key, context))
    }
}

/// A registered waiter, removed when dropped.
struct Waiting {
    channel: Arc<Channel>,
    key: u64,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.channel.leave(self.key);
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.channel.leave(self.key);
    }
}

impl Stream for Subscription {
    type Item = Result<Arc<StreamEvent>, UppError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let found = ready!(self.channel.poll(self.place, self.key, context));
        Poll::Ready(match found {
            StreamItem::Event(event) => {
                self.place += 1;
                Some(Ok(event))
            }
            StreamItem::End(Err(error)) if !self.reported => {
                self.reported = true;
                Some(Err(error))
            }
            StreamItem::End(_) => None,
        })
    }
}
