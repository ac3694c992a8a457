//! The settings of a service.

use std::time::Duration;

use turntree_core::time::Timestamp;

use super::ServiceError;
use crate::engine::Limits;
use crate::wire::Profile;

/// The last second of the year 9999, so that the time can be written.
const LATEST: i64 = 253_402_300_799_000_000;

/// The settings of a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServiceOptions {
    /// The profile of requests without the header `X-UAIP-Profile`. Default: strict.
    pub profile: Profile,
    /// How long a session is kept after its last action. Default: 24 hours.
    pub idle_ttl: Duration,
    /// How long a session is kept after its creation. Default: 7 days.
    pub absolute_ttl: Duration,
    /// How long the response to a request with an idempotency key is kept. Default: 24 hours.
    pub idempotency_ttl: Duration,
    /// How many actions of a session may wait for the one that runs. Default: 64.
    pub queue_depth: usize,
    /// How long a task, guard or hook may run. Default: 60 seconds.
    pub task_timeout: Duration,
    /// Maximum size of a request's body, in bytes. Default: 1 MiB.
    pub body_limit: usize,
    /// Limits on arguments and state.
    pub limits: Limits,
}

impl Default for ServiceOptions {
    fn default() -> Self {
        const DAY: Duration = Duration::from_secs(24 * 60 * 60);
        Self {
            profile: Profile::Strict,
            idle_ttl: DAY,
            absolute_ttl: DAY.saturating_mul(7),
            idempotency_ttl: DAY,
            queue_depth: 64,
            task_timeout: Duration::from_secs(60),
            body_limit: 1 << 20,
            limits: Limits::default(),
        }
    }
}

impl ServiceOptions {
    pub(super) const fn check(&self) -> Result<(), ServiceError> {
        let setting = if self.idle_ttl.is_zero() {
            "idle_ttl"
        } else if self.absolute_ttl.is_zero() {
            "absolute_ttl"
        } else if self.task_timeout.is_zero() {
            "task_timeout"
        } else {
            return Ok(());
        };
        Err(ServiceError::Setting { setting, rule: "expected a time greater than 0" })
    }

    /// When a session expires.
    pub(super) fn expiry(&self, created_at: Timestamp, now: Timestamp) -> Timestamp {
        let (idle, absolute) = (after(now, self.idle_ttl), after(created_at, self.absolute_ttl));
        if idle.microseconds() < absolute.microseconds() { idle } else { absolute }
    }
}

/// A later time.
pub(super) fn after(time: Timestamp, duration: Duration) -> Timestamp {
    let microseconds = i64::try_from(duration.as_micros()).unwrap_or(i64::MAX);
    Timestamp::from_microseconds(time.microseconds().saturating_add(microseconds).min(LATEST))
}
