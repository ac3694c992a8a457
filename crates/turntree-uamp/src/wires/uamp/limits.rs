//! Limits on connections and sessions.

use std::time::Duration;

use crate::event::EventLimits;

/// Limits on connections and sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UampLimits {
    /// The size of an event.
    pub event: EventLimits,
    /// Sessions of one connection: 1024.
    pub sessions_per_connection: usize,
    /// Sessions of the server: 20 000.
    pub sessions: usize,
    /// Bytes of events that are kept for a client that connects again, per session: 1 MiB. The newest event is always
    /// kept.
    pub log_bytes: usize,
    /// Bytes of a session that wait for a slow client before the agent is slowed down: 256 KiB.
    pub unread_bytes: usize,
    /// How long a client may read nothing while events wait: 30 s. Then the connection is closed with 1013.
    pub slow_consumer: Duration,
    /// How long a tool of the client may take: 10 min.
    pub tool: Duration,
    /// How long the client may take to pay: 10 min.
    pub payment: Duration,
    /// How long a connected client may send nothing for a session without a response: 24 h.
    pub idle: Duration,
}

impl Default for UampLimits {
    fn default() -> Self {
        Self {
            event: EventLimits::default(),
            sessions_per_connection: 1024,
            sessions: 20_000,
            log_bytes: 1 << 20,
            unread_bytes: 256 << 10,
            slow_consumer: Duration::from_secs(30),
            tool: Duration::from_secs(600),
            payment: Duration::from_secs(600),
            idle: Duration::from_secs(24 * 60 * 60),
        }
    }
}
