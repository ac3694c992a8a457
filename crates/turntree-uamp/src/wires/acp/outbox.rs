//! Where the messages of a connection go: to one stream, or to one stream for each session.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use futures_util::Stream;
use tokio::sync::mpsc;

/// How many messages may wait for a client. The agent waits while it reads more slowly.
const CAPACITY: usize = 64;

/// How many streams of sessions a connection over HTTP has at most.
const MAX_STREAMS: usize = 1_024;

/// Sends messages to one stream.
pub type Lane = mpsc::Sender<String>;

/// The outgoing messages of a connection.
#[derive(Debug, Clone)]
pub enum Outbox {
    /// All messages go to one stream.
    One(Lane),
    /// Messages of a session go to the stream of the session, if there is one.
    Streams(Arc<Streams>),
}

impl Outbox {
    /// An outbox with one stream, and the stream.
    pub fn one() -> (Self, mpsc::Receiver<String>) {
        let (lane, messages) = mpsc::channel(CAPACITY);
        (Self::One(lane), messages)
    }

    /// Where messages of a session go now; those of the connection without a session.
    pub(super) fn lane(&self, session: Option<&str>) -> Lane {
        match self {
            Self::One(lane) => lane.clone(),
            Self::Streams(streams) => streams.lane(session),
        }
    }

    /// Begins the stream of a session that the client knows from now on.
    pub(super) fn open(&self, session: &str) {
        if let Self::Streams(streams) = self {
            // Without a stream of its own, the session uses that of the connection.
            let _ = streams.ensure(session);
        }
    }
}

/// The streams of a connection over HTTP. Messages wait until the client reads a stream.
#[derive(Debug)]
pub struct Streams {
    connection: Channel,
    sessions: Mutex<HashMap<Arc<str>, Channel>>,
}

#[derive(Debug, Clone)]
struct Channel {
    lane: Lane,
    /// `None` while a request reads the stream.
    messages: Arc<Mutex<Option<mpsc::Receiver<String>>>>,
}

impl Channel {
    fn new() -> Self {
        let (lane, messages) = mpsc::channel(CAPACITY);
        Self { lane, messages: Arc::new(Mutex::new(Some(messages))) }
    }

    fn read(&self) -> Option<Reader> {
        let messages = lock(&self.messages).take()?;
        Some(Reader { messages: Some(messages), home: Arc::clone(&self.messages) })
    }
}

/// Why a stream cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unreadable {
    /// Another request reads it.
    Taken,
    /// The connection has too many streams.
    TooMany,
}

impl Streams {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self { connection: Channel::new(), sessions: Mutex::default() })
    }

    fn lane(&self, session: Option<&str>) -> Lane {
        let sessions = lock(&self.sessions);
        let of_session = session.and_then(|id| sessions.get(id));
        of_session.unwrap_or(&self.connection).lane.clone()
    }

    fn ensure(&self, session: &str) -> Option<Channel> {
        let mut sessions = lock(&self.sessions);
        if let Some(channel) = sessions.get(session) {
            return Some(channel.clone());
        }
        if sessions.len() >= MAX_STREAMS {
            return None;
        }
        Some(sessions.entry(session.into()).or_insert_with(Channel::new).clone())
    }

    /// Reads the stream of a session, or that of the connection.
    pub(super) fn read(&self, session: Option<&str>) -> Result<Reader, Unreadable> {
        let channel = match session {
            None => self.connection.clone(),
            Some(session) => self.ensure(session).ok_or(Unreadable::TooMany)?,
        };
        channel.read().ok_or(Unreadable::Taken)
    }
}

/// Reads a stream. When it is dropped, another request can read the rest.
#[derive(Debug)]
pub(super) struct Reader {
    messages: Option<mpsc::Receiver<String>>,
    home: Arc<Mutex<Option<mpsc::Receiver<String>>>>,
}

impl Stream for Reader {
    type Item = String;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<String>> {
        match &mut self.messages {
            Some(messages) => messages.poll_recv(context),
            None => Poll::Ready(None),
        }
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        *lock(&self.home) = self.messages.take();
    }
}

/// Locks for one operation.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Each operation leaves the value consistent.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
