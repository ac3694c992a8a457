//! Published streams of one process, by name.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use super::channel::{Channel, End};
use super::subscription::Subscription;
use crate::error::UppError;
use turntree_core::message::StreamEvent;

/// The default number of ended streams to keep.
pub const MAX_STREAMS: usize = 1_000;

/// Streams in the memory of this process. Clones share them.
///
/// Each event is stored once, whatever the number of subscribers: a subscriber is a position in the buffer, so a slow
/// one costs no more than a fast one. An ended stream is kept for replay until more than `max_streams` are stored;
/// then the oldest ones are removed. Running streams are never removed, and a subscriber of a removed stream can still
/// read it to its end.
#[derive(Clone)]
pub struct MemoryPubsub(Arc<Hub>);

struct Hub {
    max_streams: usize,
    streams: Mutex<Streams>,
}

#[derive(Default)]
struct Streams {
    by_id: HashMap<Arc<str>, Slot>,
    /// Ended streams, the oldest first.
    over: VecDeque<(Arc<str>, Arc<Channel>)>,
    live: usize,
}

enum Slot {
    /// The stream has subscribers but no publisher yet. It is removed with its last subscriber.
    Awaited(Weak<Channel>),
    Begun(Arc<Channel>),
}

/// The publisher of a stream. Dropping it before the end of the stream ends the stream as cancelled.
pub(super) struct Publisher {
    id: Arc<str>,
    channel: Arc<Channel>,
    hub: MemoryPubsub,
    provider: Arc<str>,
}

impl Default for MemoryPubsub {
    /// Keeps [`MAX_STREAMS`] ended streams.
    fn default() -> Self {
        Self::new(MAX_STREAMS)
    }
}

impl fmt::Debug for MemoryPubsub {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("MemoryPubsub")
            .field("max_streams", &self.0.max_streams)
            .field("streams", &self.lock().live)
            .finish()
    }
}

impl MemoryPubsub {
    /// Sets how many ended streams are kept; running ones do not count. With 0, a stream is removed at its end.
    pub fn new(max_streams: usize) -> Self {
        Self(Arc::new(Hub { max_streams, streams: Mutex::default() }))
    }

    fn lock(&self) -> MutexGuard<'_, Streams> {
        self.0.streams.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The maximum number of ended streams.
    pub fn max_streams(&self) -> usize {
        self.0.max_streams
    }

    /// True if a stream of this name has begun and is still stored.
    pub fn exists(&self, stream_id: &str) -> bool {
        matches!(self.lock().by_id.get(stream_id), Some(Slot::Begun(_)))
    }

    /// The number of stored streams.
    pub fn len(&self) -> usize {
        self.lock().live
    }

    /// True if no stream is stored.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Removes an ended stream. Returns true if there was one.
    pub fn remove(&self, stream_id: &str) -> bool {
        let mut streams = self.lock();
        let Some(Slot::Begun(channel)) = streams.by_id.get(stream_id) else { return false };
        if !channel.is_over() {
            return false;
        }
        streams.forget_over(stream_id);
        true
    }

    /// Subscribes to a stream from its start; events that are not published yet follow live. Waits for a stream that
    /// has not begun.
    pub fn subscribe(&self, stream_id: &str) -> Subscription {
        let mut streams = self.lock();
        let found = match streams.by_id.get(stream_id) {
            Some(Slot::Begun(channel)) => Some(Arc::clone(channel)),
            Some(Slot::Awaited(channel)) => channel.upgrade(),
            None => None,
        };
        let channel = found.unwrap_or_else(|| {
            let channel = Arc::new(Channel::default());
            // Removes the entries of subscribers that stopped waiting.
            streams
                .by_id
                .retain(|_, slot| !matches!(slot, Slot::Awaited(waited) if waited.strong_count() == 0));
            streams.by_id.insert(stream_id.into(), Slot::Awaited(Arc::downgrade(&channel)));
            channel
        });
        drop(streams);
        Subscription::new(channel)
    }

    /// Begins a stream. Replaces an ended stream of the same name.
    ///
    /// # Errors
    /// [`crate::ErrorCode::InvalidRequest`] while a stream of this name is running.
    pub(super) fn begin(&self, id: Arc<str>, provider: &Arc<str>) -> Result<Publisher, UppError> {
        let mut streams = self.lock();
        let awaited = match streams.by_id.get(&id) {
            Some(Slot::Begun(channel)) if !channel.is_over() => {
                let message =
                    format!("a stream \"{id}\" is running already; give each stream an id of its own");
                return Err(UppError::invalid_request(&**provider, message));
            }
            Some(Slot::Awaited(channel)) => channel.upgrade(),
            Some(Slot::Begun(_)) | None => None,
        };
        streams.forget_over(&id);
        let channel = awaited.unwrap_or_default();
        streams.by_id.insert(Arc::clone(&id), Slot::Begun(Arc::clone(&channel)));
        streams.live += 1;
        let dropped = streams.evict(self.0.max_streams);
        drop(streams);
        drop(dropped);
        Ok(Publisher { id, channel, hub: self.clone(), provider: Arc::clone(provider) })
    }

    fn end(&self, id: &Arc<str>, channel: &Arc<Channel>, end: End) {
        if !channel.end(end) {
            return;
        }
        let mut streams = self.lock();
        streams.over.push_back((Arc::clone(id), Arc::clone(channel)));
        let dropped = streams.evict(self.0.max_streams);
        drop(streams);
        drop(dropped);
    }
}

impl Streams {
    /// Removes an ended stream, if there is one of this name.
    fn forget_over(&mut self, id: &str) {
        let before = self.over.len();
        self.over.retain(|(known, _)| &**known != id);
        if self.over.len() < before {
            self.by_id.remove(id);
            self.live -= 1;
        }
    }

    /// Removes the oldest ended streams beyond the limit. Returns them, to be dropped without the lock.
    fn evict(&mut self, max_streams: usize) -> Vec<Arc<Channel>> {
        let mut dropped = Vec::new();
        while self.live > max_streams
            && let Some((id, channel)) = self.over.pop_front()
        {
            self.by_id.remove(&id);
            self.live -= 1;
            dropped.push(channel);
        }
        dropped
    }
}

impl Publisher {
    pub(super) fn publish(&self, event: StreamEvent) {
        self.channel.publish(event);
    }

    pub(super) fn end(&self, end: End) {
        self.hub.end(&self.id, &self.channel, end);
    }
}

impl Drop for Publisher {
    fn drop(&mut self) {
        self.end(Err(UppError::cancelled(&*self.provider)));
    }
}
