//! What a connection has to send: frames of the connection itself, and sessions that have events.
//!
//! Each session with events is in the queue once, and goes to the end of the queue after its turn: a session with much
//! output does not delay the others.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use super::log::EventLog;

/// Frames of the connection itself that may wait before no more events of the client are read.
const MAX_CONTROL: usize = 64;

#[derive(Debug, Default)]
struct State {
    control: VecDeque<String>,
    ready: VecDeque<(Arc<EventLog>, u64)>,
    late: VecDeque<String>,
    close: Option<u16>,
}

/// The outgoing queue of a connection.
#[derive(Debug, Default)]
pub(super) struct Mailbox {
    state: Mutex<State>,
    filled: Notify,
    drained: Notify,
}

/// The next thing to send.
#[derive(Debug)]
pub(super) enum Mail {
    /// A frame of the connection itself.
    Control(String),
    /// The end of the connection with this code.
    Close(u16),
    /// A session that has events, and its reader.
    Log(Arc<EventLog>, u64),
}

impl Mailbox {
    fn state(&self) -> MutexGuard<'_, State> {
        // Each operation leaves the state consistent.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a frame of the connection.
    pub(super) fn push(&self, frame: String) {
        self.state().control.push_back(frame);
        self.filled.notify_one();
    }

    /// Adds a frame of the connection that follows all events that wait: a client that has resumed sees by a `pong` that it
    /// has all that it has missed.
    pub(super) fn push_late(&self, frame: String) {
        self.state().late.push_back(frame);
        self.filled.notify_one();
    }

    /// Ends the connection after the frames of the connection itself.
    pub(super) fn close(&self, code: u16) {
        self.state().close = Some(code);
        self.filled.notify_one();
    }

    /// Adds a session that has events.
    pub(super) fn push_log(&self, log: Arc<EventLog>, reader: u64) {
        self.state().ready.push_back((log, reader));
        self.filled.notify_one();
    }

    /// The next thing to send, if there is one now.
    pub(super) fn try_next(&self) -> Option<Mail> {
        let mut state = self.state();
        if let Some(frame) = state.control.pop_front() {
            drop(state);
            self.drained.notify_one();
            return Some(Mail::Control(frame));
        }
        if let Some(code) = state.close {
            return Some(Mail::Close(code));
        }
        if let Some((log, reader)) = state.ready.pop_front() {
            return Some(Mail::Log(log, reader));
        }
        let frame = state.late.pop_front()?;
        drop(state);
        self.drained.notify_one();
        Some(Mail::Control(frame))
    }

    /// The next thing to send. One task waits at a time.
    ///
    /// # Cancel safety
    /// Nothing is lost if the future is dropped.
    pub(super) async fn next(&self) -> Mail {
        loop {
            if let Some(mail) = self.try_next() {
                return mail;
            }
            self.filled.notified().await;
        }
    }

    /// Waits until few frames of the connection itself wait. One task waits at a time.
    pub(super) async fn has_room(&self) {
        while self.waiting() >= MAX_CONTROL {
            self.drained.notified().await;
        }
    }

    /// True if nothing waits.
    pub(super) fn is_empty(&self) -> bool {
        let state = self.state();
        state.control.is_empty() && state.ready.is_empty() && state.late.is_empty()
    }

    /// The number of frames of the connection itself that wait.
    fn waiting(&self) -> usize {
        let state = self.state();
        state.control.len() + state.late.len()
    }
}
