//! Which connection of a host serves a request: a state machine without I/O.
//!
//! An HTTP/1.1 connection serves one request at a time, an HTTP/2 connection as many as its server permits. A request is
//! handed over to a connection only when the connection has room for it, and then stays there. Three rules follow:
//!
//! - While a connection is being made, and until its server has said how many streams it permits, other requests wait. A
//!   burst of a hundred requests therefore opens one connection to a host with HTTP/2. Hosts with HTTP/1.1 need a
//!   connection for each request, so their requests do not wait for each other.
//! - If all connections are full, a new one is made, up to the maximum of the configuration. Then requests wait in order
//!   of arrival.
//! - If connecting fails or takes long, the requests that wait for it connect by themselves.
//!
//! Spec: RFC 9113 §5.1.2

use std::collections::VecDeque;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;

use super::channel::{Channel, Http1Channel, Http2Channel};
use crate::http::admission::Admission;

/// Maximum number of HTTP/2 connections to a host, if the configuration has no maximum.
const MAX_HTTP2_CONNECTIONS: usize = 256;

/// If a request gives up connecting after this time, others do not wait for a single one again.
const SLOW_CONNECT: Duration = Duration::from_secs(1);

/// The connections to one host.
#[derive(Debug)]
pub(super) struct Host {
    state: Mutex<State>,
    maximum: Option<NonZeroUsize>,
}

#[derive(Debug, Default)]
struct State {
    /// The version of the last connection; None before the first one.
    version: Option<Version>,
    /// True if the last connection failed.
    is_unreachable: bool,
    connections: Vec<Connection>,
    next_id: u64,
    queue: VecDeque<oneshot::Sender<Entry>>,
}

/// A version of HTTP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Version {
    Http1,
    Http2,
}

#[derive(Debug)]
struct Connection {
    id: u64,
    stage: Stage,
    /// When it was created or its last request ended.
    since: Instant,
}

#[derive(Debug)]
enum Stage {
    /// Its first request makes it.
    Connecting,
    /// HTTP/1.1, serves a request.
    Busy,
    /// HTTP/1.1, serves no request.
    Idle(Http1Channel),
    Shared {
        channel: Http2Channel,
        requests: usize,
        /// The streams that the server permits; None until it says so.
        limit: Option<usize>,
    },
}

/// A request's place on a connection, and the connection, if it exists already.
pub(super) type Entry = (Place, Option<Channel>);

impl Connection {
    /// Counts a request, if there is room for it.
    fn take(&mut self) -> Option<Channel> {
        match std::mem::replace(&mut self.stage, Stage::Busy) {
            Stage::Idle(channel) => Some(Channel::Http1(channel)),
            Stage::Shared { channel, requests, limit } => {
                // A server that permits nothing lets one request wait on its connection.
                let has_room = requests < limit.unwrap_or(1).max(1);
                let taken = has_room.then(|| Channel::Http2(channel.clone()));
                self.stage = Stage::Shared { channel, requests: requests + usize::from(has_room), limit };
                taken
            }
            other => {
                self.stage = other;
                None
            }
        }
    }

    /// False while it is not known how many requests it can serve.
    const fn is_settled(&self) -> bool {
        !matches!(self.stage, Stage::Connecting | Stage::Shared { limit: None | Some(0), .. })
    }

    fn is_idle(&self) -> bool {
        matches!(self.stage, Stage::Idle(_) | Stage::Shared { requests: 0, .. })
    }
}

impl State {
    /// Chooses the connection of the next request, and counts it.
    fn choose(&mut self, maximum: Option<NonZeroUsize>) -> Option<(u64, Option<Channel>)> {
        for connection in &mut self.connections {
            if let Some(channel) = connection.take() {
                return Some((connection.id, Some(channel)));
            }
        }
        let does_not_wait = self.version == Some(Version::Http1) || self.is_unreachable;
        if !does_not_wait && !self.connections.iter().all(Connection::is_settled) {
            return None;
        }
        let default = if self.version == Some(Version::Http2) { MAX_HTTP2_CONNECTIONS } else { usize::MAX };
        if self.connections.len() >= maximum.map_or(default, NonZeroUsize::get) {
            return None;
        }
        let id = self.next_id;
        self.next_id += 1;
        self.connections.push(Connection { id, stage: Stage::Connecting, since: Instant::now() });
        Some((id, None))
    }

    fn connection(&mut self, id: u64) -> Option<&mut Connection> {
        self.connections.iter_mut().find(|connection| connection.id == id)
    }

    fn remove(&mut self, id: u64) {
        self.connections.retain(|connection| connection.id != id);
    }

    fn connected(&mut self, id: u64, version: Version, stage: Stage) {
        (self.version, self.is_unreachable) = (Some(version), false);
        if let Some(connection) = self.connection(id) {
            connection.stage = stage;
        }
    }
}

impl Host {
    /// A host whose version is negotiated, or known.
    pub(super) fn new(version: Option<Version>, maximum: Option<NonZeroUsize>) -> Self {
        Self { state: Mutex::new(State { version, ..State::default() }), maximum }
    }

    /// Waits for a place on a connection. Without a channel, the request has to make the connection.
    ///
    /// # Cancel safety
    /// Dropping the future leaves the queue.
    pub(super) async fn enter(self: &Arc<Self>, admission: Option<&Admission>) -> Entry {
        loop {
            let waiting = match self.enter_or_queue() {
                Ok(entry) => return entry,
                Err(waiting) => waiting,
            };
            if let Some(admission) = admission {
                admission.wait();
            }
            let entry = waiting.await;
            if let Some(admission) = admission {
                admission.admit();
            }
            // The sender is dropped only together with the host, which `self` holds.
            if let Ok(entry) = entry {
                return entry;
            }
        }
    }

    fn enter_or_queue(self: &Arc<Self>) -> Result<Entry, oneshot::Receiver<Entry>> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.queue.retain(|waiting| !waiting.is_closed());
        if state.queue.is_empty()
            && let Some((id, channel)) = state.choose(self.maximum)
        {
            return Ok((self.place(id), channel));
        }
        let (sender, receiver) = oneshot::channel();
        state.queue.push_back(sender);
        Err(receiver)
    }

    fn place(self: &Arc<Self>, id: u64) -> Place {
        Place { host: Arc::clone(self), id, is_over: false }
    }

    /// Changes the state, and gives places to the requests that wait.
    fn change<T>(self: &Arc<Self>, change: impl FnOnce(&mut State) -> T) -> T {
        let mut given = Vec::new();
        let result = {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            let result = change(&mut state);
            while let Some(first) = state.queue.pop_front() {
                if first.is_closed() {
                    continue;
                }
                let Some((id, channel)) = state.choose(self.maximum) else {
                    state.queue.push_front(first);
                    break;
                };
                given.push((first, (self.place(id), channel)));
            }
            result
        };
        for (waiting, (place, channel)) in given {
            // A request that has left meanwhile gives its place to the next one.
            if let Err((place, Some(Channel::Http1(channel)))) = waiting.send((place, channel)) {
                place.finish(Some(channel));
            }
        }
        result
    }
}

/// A request's place on a connection. It ends when it is dropped: after the response's body.
#[derive(Debug)]
pub(super) struct Place {
    host: Arc<Host>,
    id: u64,
    is_over: bool,
}

impl Place {
    /// The request has made an HTTP/2 connection.
    pub(super) fn shares(&self, channel: Http2Channel) {
        let stage = Stage::Shared { channel, requests: 1, limit: None };
        self.host.change(|state| state.connected(self.id, Version::Http2, stage));
    }

    /// The request has made an HTTP/1.1 connection.
    pub(super) fn occupies(&self) {
        self.host.change(|state| state.connected(self.id, Version::Http1, Stage::Busy));
    }

    /// The connection could not be made.
    pub(super) fn unreachable(&self) {
        self.host.change(|state| state.is_unreachable = true);
    }

    /// The connection takes no more requests.
    pub(super) fn retire(&self) {
        self.host.change(|state| state.remove(self.id));
    }

    /// The response is complete. An HTTP/1.1 connection is free for the next request.
    pub(super) fn finish(mut self, channel: Option<Http1Channel>) {
        let Some(channel) = channel else { return };
        self.is_over = true;
        self.host.change(|state| {
            if let Some(connection) = state.connection(self.id) {
                connection.since = Instant::now();
                connection.stage = Stage::Idle(channel);
            }
        });
    }

    /// For the connection's own task.
    pub(super) fn watch(&self) -> Watch {
        Watch { host: Arc::downgrade(&self.host), id: self.id }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        self.host.change(|state| {
            let Some(connection) = state.connections.iter_mut().find(|connection| connection.id == self.id)
            else {
                return;
            };
            let waited = connection.since.elapsed() >= SLOW_CONNECT;
            match &mut connection.stage {
                Stage::Shared { requests, limit, .. } => {
                    *requests = requests.saturating_sub(1);
                    state.is_unreachable |= limit.is_none() && waited;
                    connection.since = Instant::now();
                }
                Stage::Connecting => {
                    state.is_unreachable |= waited;
                    state.remove(self.id);
                }
                // The response was not read to its end, so the connection cannot be used again.
                Stage::Busy | Stage::Idle(_) => state.remove(self.id),
            }
        });
    }
}

/// What a connection's own task tells. When it is dropped, the connection is closed.
#[derive(Debug)]
pub(super) struct Watch {
    host: Weak<Host>,
    id: u64,
}

impl Watch {
    /// The server permits this number of streams.
    pub(super) fn permits(&self, streams: usize) {
        self.change(|state| {
            if let Some(Connection { stage: Stage::Shared { limit, .. }, .. }) = state.connection(self.id) {
                *limit = Some(streams);
            }
        });
    }

    /// Whether the connection serves requests. One that serves none for this time is removed: `None`.
    pub(super) fn is_in_use(&self, limit: Duration) -> Option<bool> {
        self.change(|state| {
            let connection = state.connection(self.id)?;
            let is_idle = connection.is_idle();
            if is_idle && connection.since.elapsed() >= limit {
                state.remove(self.id);
                return None;
            }
            Some(!is_idle)
        })
        .flatten()
    }

    fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> Option<T> {
        Some(self.host.upgrade()?.change(change))
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.change(|state| state.remove(self.id));
    }
}
