//! The streams of one process, by name.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use super::channel::{Channel, End};
use super::subscription::Subscription;
use crate::error::UppError;
use turntree_core::message::StreamEvent;

/// How many streams are kept, when nobody says.
pub const MAX_STREAMS: usize = 1_000;

/// Streams of this process, kept in memory. Cloning shares them.
///
/// Each event is held once, however many subscribe: a subscriber is a place in the stream's buffer, so a slow one
/// costs no more than a fast one. A stream is kept after its end, to be replayed, until more than `max_streams` are
/// held; then those that ended first are let go. A stream that runs is never let go, and whoever reads one that was
/// reads it to its end.
#[derive(Clone)]
pub struct MemoryPubsub(Arc<Hub>);

struct Hub {
    max_streams: usize,
    streams: Mutex<Streams>,
}

#[derive(Default)]
struct Streams {
    by_id: HashMap<Arc<str>, Slot>,
    /// Those that are over, the longest first.
    over: VecDeque<(Arc<str>, Arc<Channel>)>,
    live: usize,
}

enum Slot {
    /// Subscribed to before it began; forgotten when the last subscriber goes.
    Awaited(Weak<Channel>),
    Begun(Arc<Channel>),
}

/// The end at which a stream is written. Dropped before the stream is over, it ends it as cancelled.
pub(super) struct Publisher {
    id: Arc<str>,
    channel: Arc<Channel>,
    hub: MemoryPubsub,
    provider: Arc<str>,
}

impl Default for MemoryPubsub {
    /// Keeps [`MAX_STREAMS`] streams.
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
    /// Keeps as many streams, those that run not counted in; 0 keeps none after its end.
    pub fn new(max_streams: usize) -> Self {
        Self(Arc::new(Hub { max_streams, streams: Mutex::default() }))
    }

    fn lock(&self) -> MutexGuard<'_, Streams> {
        self.0.streams.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many streams are kept at most.
    pub fn max_streams(&self) -> usize {
        self.0.max_streams
    }

    /// Whether a stream of this name has begun and is still kept.
    pub fn exists(&self, stream_id: &str) -> bool {
        matches!(self.lock().by_id.get(stream_id), Some(Slot::Begun(_)))
    }

    /// How many streams are kept.
    pub fn len(&self) -> usize {
        self.lock().live
    }

    /// Whether no stream is kept.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Lets go of a stream that is over. Tells whether there was one.
    pub fn remove(&self, stream_id: &str) -> bool {
        let mut streams = self.lock();
        let Some(Slot::Begun(channel)) = streams.by_id.get(stream_id) else { return false };
        if !channel.is_over() {
            return false;
        }
        streams.forget_over(stream_id);
        true
    }

    /// Reads a stream from its start; then what comes, live. One that has not begun is waited for.
    pub fn subscribe(&self, stream_id: &str) -> Subscription {
        let mut streams = self.lock();
        let found = match streams.by_id.get(stream_id) {
            Some(Slot::Begun(channel)) => Some(Arc::clone(channel)),
            Some(Slot::Awaited(channel)) => channel.upgrade(),
            None => None,
        };
        let channel = found.unwrap_or_else(|| {
            let channel = Arc::new(Channel::default());
            // Whoever waited in vain and left is forgotten here.
            streams
                .by_id
                .retain(|_, slot| !matches!(slot, Slot::Awaited(waited) if waited.strong_count() == 0));
            streams.by_id.insert(stream_id.into(), Slot::Awaited(Arc::downgrade(&channel)));
            channel
        });
        drop(streams);
        Subscription::new(channel)
    }

    /// Begins a stream. One of this name that is over makes way.
    ///
    /// # Errors
    /// [`crate::ErrorCode::InvalidRequest`] while a stream of this name runs.
    pub(super) fn begin(&self, id: Arc<str>, provider: &Arc<str>) -> Result<Publisher, UppError> {
        let mut streams = self.lock();
        let awaited = match streams.by_id.get(&id) {
            Some(Slot::Begun(channel)) if !channel.is_over() => {
                let words =
                    format!("a stream \"{id}\" is running already; give each stream an id of its own");
                return Err(UppError::invalid_request(&**provider, words));
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
    /// Lets go of a stream that is over, where there is one of this name.
    fn forget_over(&mut self, id: &str) {
        let before = self.over.len();
        self.over.retain(|(known, _)| &**known != id);
        if self.over.len() < before {
            self.by_id.remove(id);
            self.live -= 1;
        }
    }

    /// Lets go of what ended first, until there is room. What it gives is dropped without the lock.
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
