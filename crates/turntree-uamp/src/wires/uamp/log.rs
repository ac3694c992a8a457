//! The events of a session: a bounded log that is also the queue of the client that reads it.
//!
//! At most one client reads a log. It has a position in the log; what is before it may be dropped, oldest first.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use super::mailbox::Mailbox;
use crate::session::WaitsFor;

/// Bytes that a client takes from one session before the next session has its turn.
const TURN_BYTES: usize = 16 << 10;

/// Events that a client may leave unread before the session takes no more of its own: the agent waits much earlier, so
/// these are answers to a client that sends and does not read.
pub(super) const MAX_UNREAD_EVENTS: usize = 4_096;

/// An event as JSON.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Frame {
    /// The sequence number.
    pub seq: u64,
    /// The JSON.
    pub json: Arc<str>,
}

/// The log does not reach back to a position.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "the events after {after_seq} are not kept any more; read the conversation again, then resume after {last_seq}"
)]
pub(super) struct LogGap {
    /// The position.
    pub after_seq: u64,
    /// The sequence number of the last event.
    pub last_seq: u64,
}

/// What a client takes from a log.
#[derive(Debug, Default)]
pub(super) struct Taken {
    /// The next events.
    pub frames: Vec<Frame>,
    /// True if there are more.
    pub has_more: bool,
    /// True if nothing will follow: the session has ended, or another client reads it.
    pub is_over: bool,
}

#[derive(Debug)]
struct Reader {
    id: u64,
    after: u64,
    unread: usize,
    mailbox: Arc<Mailbox>,
    is_queued: bool,
}

#[derive(Debug, Default)]
struct State {
    frames: VecDeque<Frame>,
    bytes: usize,
    /// The last event that was dropped.
    dropped: u64,
    last: u64,
    readers: u64,
    reader: Option<Reader>,
    is_closed: bool,
    /// What a request waits for that cannot be answered in it, see [`EventLog::set_stopped`].
    stopped: Option<WaitsFor>,
}

/// The log of a session.
#[derive(Debug)]
pub(super) struct EventLog {
    state: Mutex<State>,
    /// Tells the session that its client has read, connected or disconnected.
    changed: Notify,
    max_bytes: usize,
    max_unread: usize,
}

impl EventLog {
    /// A log that keeps this many bytes, and is full when this many bytes are unread. `seq` is the last event that the
    /// client has.
    pub(super) fn new(max_bytes: usize, max_unread: usize, seq: u64) -> Self {
        let state = State { dropped: seq, last: seq, ..State::default() };
        Self { state: Mutex::new(state), changed: Notify::new(), max_bytes, max_unread }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Each operation leaves the state consistent.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Appends an event.
    pub(super) fn append(self: &Arc<Self>, seq: u64, json: String) {
        let mut state = self.state();
        let frame = Frame { seq, json: json.into() };
        state.last = seq;
        state.bytes = state.bytes.saturating_add(frame.json.len());
        if let Some(reader) = &mut state.reader {
            reader.unread = reader.unread.saturating_add(frame.json.len());
        }
        state.frames.push_back(frame);
        self.drop_oldest(&mut state);
        self.wake_reader(&mut state);
    }

    /// Drops what is read and above the limit. What a client has not read is above the limit only for a moment: the
    /// session waits for the client.
    fn drop_oldest(&self, state: &mut State) {
        let read = state.reader.as_ref().map_or(u64::MAX, |reader| reader.after);
        while state.bytes > self.max_bytes
            && state.frames.len() > 1
            && state.frames.front().is_some_and(|frame| frame.seq <= read)
            && let Some(oldest) = state.frames.pop_front()
        {
            state.bytes = state.bytes.saturating_sub(oldest.json.len());
            state.dropped = oldest.seq;
        }
    }

    fn wake_reader(self: &Arc<Self>, state: &mut State) {
        if let Some(reader) = &mut state.reader
            && !std::mem::replace(&mut reader.is_queued, true)
        {
            reader.mailbox.push_log(Arc::clone(self), reader.id);
        }
    }

    /// Ends the log.
    pub(super) fn close(self: &Arc<Self>) {
        let mut state = self.state();
        state.is_closed = true;
        self.wake_reader(&mut state);
    }

    /// Says that a request cannot be completed before the client has sent more, or that it goes on.
    pub(super) fn set_stopped(self: &Arc<Self>, waits_for: Option<WaitsFor>) {
        let mut state = self.state();
        if state.stopped != waits_for {
            state.stopped = waits_for;
            self.wake_reader(&mut state);
        }
    }

    /// What the request waits for, after all events were read.
    pub(super) fn stopped(&self) -> Option<WaitsFor> {
        self.state().stopped
    }

    /// The sequence number of the last event.
    pub(super) fn last_seq(&self) -> u64 {
        self.state().last
    }

    /// True if a client reads the log.
    pub(super) fn is_attached(&self) -> bool {
        self.state().reader.is_some()
    }

    /// True if the client must read before there may be more output.
    pub(super) fn is_full(&self) -> bool {
        self.state().reader.as_ref().is_some_and(|reader| reader.unread > self.max_unread)
    }

    /// True if the client has sent so much without reading that its events are refused.
    pub(super) fn is_flooded(&self) -> bool {
        let state = self.state();
        state.reader.as_ref().is_some_and(|reader| {
            let read = state.frames.partition_point(|frame| frame.seq <= reader.after);
            state.frames.len().saturating_sub(read) > MAX_UNREAD_EVENTS
        })
    }

    /// True if the client reads slowly.
    pub(super) fn is_under_pressure(&self) -> bool {
        self.state().reader.as_ref().is_some_and(|reader| reader.unread > self.max_unread / 4)
    }

    /// Waits until the client has read, connected or disconnected.
    ///
    /// # Cancel safety
    /// A change between two calls is not missed.
    pub(super) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Makes a client the reader of the log, from a position on. The former reader reads no more.
    ///
    /// # Errors
    /// Events after the position were dropped.
    pub(super) fn attach(self: &Arc<Self>, mailbox: Arc<Mailbox>, after: u64) -> Result<Attachment, LogGap> {
        let mut state = self.state();
        if after < state.dropped {
            return Err(LogGap { after_seq: after, last_seq: state.last });
        }
        if let Some(former) = state.reader.take() {
            former.mailbox.push_log(Arc::clone(self), former.id);
        }
        let after = after.min(state.last);
        let unread =
            state.frames.iter().filter(|frame| frame.seq > after).map(|frame| frame.json.len()).sum();
        state.readers += 1;
        let id = state.readers;
        state.reader = Some(Reader { id, after, unread, mailbox, is_queued: false });
        self.wake_reader(&mut state);
        drop(state);
        self.changed.notify_one();
        Ok(Attachment { log: Arc::clone(self), id })
    }

    /// Takes the next events of a reader.
    pub(super) fn take(&self, id: u64) -> Taken {
        let mut guard = self.state();
        let state = &mut *guard;
        let Some(reader) = state.reader.as_mut().filter(|reader| reader.id == id) else {
            return Taken { is_over: true, ..Taken::default() };
        };
        let was_full = reader.unread > self.max_unread / 4;
        let first = state.frames.partition_point(|frame| frame.seq <= reader.after);
        let mut taken = Taken::default();
        let mut bytes = 0;
        for frame in state.frames.range(first..) {
            if bytes > TURN_BYTES {
                taken.has_more = true;
                break;
            }
            bytes += frame.json.len();
            reader.after = frame.seq;
            taken.frames.push(frame.clone());
        }
        reader.unread = reader.unread.saturating_sub(bytes);
        reader.is_queued = taken.has_more;
        taken.is_over = state.is_closed && !taken.has_more;
        self.drop_oldest(state);
        drop(guard);
        if was_full {
            self.changed.notify_one();
        }
        taken
    }

    fn detach(&self, id: u64) {
        let mut state = self.state();
        if state.reader.take_if(|reader| reader.id == id).is_some() {
            self.drop_oldest(&mut state);
            drop(state);
            self.changed.notify_one();
        }
    }
}

/// A client that reads a log. Dropping it detaches the client.
#[derive(Debug)]
pub(super) struct Attachment {
    log: Arc<EventLog>,
    id: u64,
}

impl Attachment {
    /// The log.
    pub(super) const fn log(&self) -> &Arc<EventLog> {
        &self.log
    }

    /// Takes the next events.
    pub(super) fn take(&self) -> Taken {
        self.log.take(self.id)
    }
}

impl Drop for Attachment {
    fn drop(&mut self) {
        self.log.detach(self.id);
    }
}
