//! The end at which a stream is read.

use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use futures_util::Stream;

use super::channel::{Channel, Found};
use crate::error::UppError;
use turntree_core::message::{StreamEvent, Turn};

/// A stream, read from its start: what was buffered, then what comes. Ends as the stream does; its error is the last
/// item.
///
/// # Cancel safety
/// Polling may be interrupted anywhere; no event is lost. Dropping it stops nobody else, and not the call.
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

    /// The same stream, read once more from its start.
    #[must_use]
    pub fn again(&self) -> Self {
        Self::new(Arc::clone(&self.channel))
    }

    /// Waits for the end and gives the turn; `None` where no language model was called. Takes no event from the reader.
    ///
    /// # Errors
    /// What the call ended with.
    ///
    /// # Cancel safety
    /// Dropping it stops nothing.
    pub fn turn(&self) -> impl Future<Output = Result<Option<Arc<Turn>>, UppError>> + Send + use<> {
        let waiting = Waiting { key: self.channel.join(), channel: Arc::clone(&self.channel) };
        poll_fn(move |context| waiting.channel.poll_end(waiting.key, context))
    }
}

/// A place among those who wait, given back when dropped.
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
            Found::Event(event) => {
                self.place += 1;
                Some(Ok(event))
            }
            Found::End(Err(error)) if !self.reported => {
                self.reported = true;
                Some(Err(error))
            }
            Found::End(_) => None,
        })
    }
}
