//! When to try again. UPP-1.2 §13.2, §13.3.
//!
//! A strategy decides; [`Attempts`] counts, waits and asks it. What a strategy needs to know about a failure
//! is handed to it each time, so the built-in ones keep nothing between failures and one instance may serve
//! any number of requests. Only [`TokenBucket`] has a memory, and sharing it is its purpose.

use std::convert::Infallible;
use std::fmt;
use std::future::ready;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::error::{HostFailure, HttpError};
use crate::runtime::{self, PerProcess};

/// Longest wait a server may ask for unless told otherwise: one hour.
const DEFAULT_RETRY_AFTER_MAX: Duration = Duration::from_secs(3600);

/// A failed attempt, as a strategy sees it.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct FailedAttempt<'a> {
    /// What went wrong.
    pub error: &'a HttpError,
    /// Which attempt failed, from 1.
    pub attempt: u32,
    /// How long the server asks to wait, within the policy's bound.
    pub retry_after: Option<Duration>,
}

/// What a strategy says, perhaps after a while; an error ends the request.
pub type RetryFuture<T> = BoxFuture<'static, Result<T, HostFailure>>;

/// Decides whether and when a request is sent again. Asked on the thread that polls the request.
pub trait RetryStrategy: fmt::Debug + Send + Sync {
    /// Waits until an attempt may be sent; also before the first. Dropping it gives the attempt up.
    fn before_request(&self) -> RetryFuture<()> {
        Box::pin(ready(Ok(())))
    }

    /// How long to wait before the next attempt; `None` to give up.
    fn delay(&self, failure: &FailedAttempt<'_>) -> Option<Duration>;

    /// As [`RetryStrategy::delay`], for strategies that need a while or may fail. By default what `delay` says.
    fn on_failure(&self, failure: &FailedAttempt<'_>) -> RetryFuture<Option<Duration>> {
        Box::pin(ready(Ok(self.delay(failure))))
    }

    /// The request succeeded.
    fn succeeded(&self) -> RetryFuture<()> {
        Box::pin(ready(Ok(())))
    }

    /// A strategy for one request, for those that keep state from failure to failure.
    fn fork(&self) -> Option<Arc<dyn RetryStrategy>> {
        None
    }
}

/// A strategy, if any, and the bound on what servers may ask for.
#[derive(Debug, Clone)]
pub struct RetryPolicy {
    /// Decides; none means that the first failure is final.
    pub strategy: Option<Arc<dyn RetryStrategy>>,
    /// Longest wait a server's `Retry-After` is followed for. Default one hour.
    pub retry_after_max: Duration,
}

impl Default for RetryPolicy {
    /// No retries, as UPP-1.2 §9 has it.
    fn default() -> Self {
        Self { strategy: None, retry_after_max: DEFAULT_RETRY_AFTER_MAX }
    }
}

impl RetryPolicy {
    /// A policy with this strategy.
    pub fn new(strategy: impl RetryStrategy + 'static) -> Self {
        Self { strategy: Some(Arc::new(strategy)), ..Self::default() }
    }

    /// Begins a request.
    pub fn attempts(&self) -> Attempts {
        let forked = self.strategy.as_ref().and_then(|strategy| strategy.fork());
        Attempts {
            strategy: forked.or_else(|| self.strategy.clone()),
            retry_after_max: self.retry_after_max,
            attempt: 0,
        }
    }
}

/// The attempts of one request: counts them and waits between them.
#[derive(Debug)]
pub struct Attempts {
    strategy: Option<Arc<dyn RetryStrategy>>,
    retry_after_max: Duration,
    attempt: u32,
}

impl Attempts {
    /// Whether a failure can lead to another attempt at all.
    pub fn may_repeat(&self) -> bool {
        self.strategy.is_some()
    }

    /// Waits until the next attempt may be sent, and counts it.
    ///
    /// # Cancel safety
    /// Dropping it stops the wait; the attempt is counted.
    ///
    /// # Errors
    /// [`HttpError::Host`] when the caller's own strategy failed.
    pub async fn before_request(&mut self) -> Result<(), HttpError> {
        self.attempt = self.attempt.saturating_add(1);
        match &self.strategy {
            Some(strategy) => Ok(strategy.before_request().await?),
            None => Ok(()),
        }
    }

    /// Waits as long as the strategy wants; returning means: try again.
    ///
    /// # Errors
    /// The failure itself, when it is final; [`HttpError::Host`] when the caller's own strategy failed.
    ///
    /// # Cancel safety
    /// Dropping it stops the wait.
    pub async fn after_failure(&mut self, error: HttpError) -> Result<(), HttpError> {
        let retry_after = error.retry_after().map(|wait| wait.min(self.retry_after_max));
        let failure = FailedAttempt { error: &error, attempt: self.attempt, retry_after };
        // Only what comes again is a strategy's business: a cancelled request stays cancelled.
        let decision = match &self.strategy {
            Some(strategy) if !error.is_final() => strategy.on_failure(&failure),
            _ => return Err(error),
        };
        let Some(delay) = decision.await? else { return Err(error) };
        drop(error);
        runtime::sleep(delay).await;
        Ok(())
    }

    /// Tells the strategy that the request succeeded.
    ///
    /// # Errors
    /// [`HttpError::Host`] when the caller's own strategy failed.
    pub async fn succeeded(&self) -> Result<(), HttpError> {
        match &self.strategy {
            Some(strategy) => Ok(strategy.succeeded().await?),
            None => Ok(()),
        }
    }
}

/// Waits twice as long each time. Follows a longer `Retry-After`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExponentialBackoff {
    /// Retries after the first attempt. Default 3, so up to four requests.
    pub max_attempts: u32,
    /// The first wait. Default 1 s.
    pub base_delay: Duration,
    /// The longest wait. Default 30 s.
    pub max_delay: Duration,
    /// Whether waits vary between half and one and a half, so that clients do not return together.
    pub jitter: bool,
}

impl Default for ExponentialBackoff {
    fn default() -> Self {
        Self {
            max_attempts: 3,
            base_delay: Duration::from_secs(1),
            max_delay: Duration::from_secs(30),
            jitter: true,
        }
    }
}

impl RetryStrategy for ExponentialBackoff {
    fn delay(&self, failure: &FailedAttempt<'_>) -> Option<Duration> {
        if failure.attempt > self.max_attempts || !failure.error.is_retryable() {
            return None;
        }
        let doublings = failure.attempt.saturating_sub(1).min(31);
        let delay = self.base_delay.saturating_mul(1 << doublings).min(self.max_delay);
        let delay = if self.jitter { scale(delay, 0.5 + fastrand::f64()) } else { delay };
        Some(delay.max(failure.retry_after.unwrap_or_default()))
    }
}

/// Waits one delay longer each time. Follows a longer `Retry-After`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinearBackoff {
    /// Retries after the first attempt. Default 3.
    pub max_attempts: u32,
    /// The first wait, and what is added to each further one. Default 1 s.
    pub delay: Duration,
}

impl Default for LinearBackoff {
    fn default() -> Self {
        Self { max_attempts: 3, delay: Duration::from_secs(1) }
    }
}

impl RetryStrategy for LinearBackoff {
    fn delay(&self, failure: &FailedAttempt<'_>) -> Option<Duration> {
        if failure.attempt > self.max_attempts || !failure.error.is_retryable() {
            return None;
        }
        Some(self.delay.saturating_mul(failure.attempt).max(failure.retry_after.unwrap_or_default()))
    }
}

/// Never tries again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NoRetry;

impl RetryStrategy for NoRetry {
    fn delay(&self, _failure: &FailedAttempt<'_>) -> Option<Duration> {
        None
    }
}

/// Waits as long as the server asks when it is asked too often; other failures are final.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetryAfterStrategy {
    /// Retries after the first attempt. Default 3.
    pub max_attempts: u32,
    /// The wait when the server names none. Default 5 s.
    pub fallback_delay: Duration,
}

impl Default for RetryAfterStrategy {
    fn default() -> Self {
        Self { max_attempts: 3, fallback_delay: Duration::from_secs(5) }
    }
}

impl RetryStrategy for RetryAfterStrategy {
    fn delay(&self, failure: &FailedAttempt<'_>) -> Option<Duration> {
        if failure.attempt > self.max_attempts || !failure.error.is_rate_limit() {
            return None;
        }
        Some(failure.retry_after.unwrap_or(self.fallback_delay))
    }
}

/// Limits how often requests are sent, over all requests that share it; clones share it too.
///
/// Every attempt takes a token. Without one it waits for the next, in the order of arrival, on whatever thread
/// or task. Success gives nothing back: a bucket that is refilled by every success would limit nothing. A request
/// that is given up while it waits takes no token; the next in line gets it. A fork of the process has a full bucket of
/// its own.
#[derive(Debug, Clone)]
pub struct TokenBucket {
    max_tokens: f64,
    refill_rate: f64,
    max_attempts: u32,
    /// A fork has a line of its own: whoever waits in its parent's never moves on there.
    line: Arc<PerProcess<Line>>,
}

#[derive(Debug)]
struct Line {
    bucket: Mutex<Bucket>,
    /// The one at the head of the line holds it; the line is first come, first served.
    turn: Semaphore,
}

#[derive(Debug)]
struct Bucket {
    tokens: f64,
    refilled: Option<Instant>,
}

impl Default for TokenBucket {
    /// Ten tokens, one a second, three retries.
    fn default() -> Self {
        Self::new(10, 1.0, 3)
    }
}

impl TokenBucket {
    /// A full bucket of `max_tokens`, at least one, that gains `refill_rate` tokens a second.
    ///
    /// A rate that is not a positive number counts as the smallest one in use, a token an hour.
    pub fn new(max_tokens: u32, refill_rate: f64, max_attempts: u32) -> Self {
        let slowest = 1.0 / 3600.0;
        let refill_rate = if refill_rate.is_finite() { refill_rate.max(slowest) } else { slowest };
        let max_tokens = f64::from(max_tokens.max(1));
        Self { max_tokens, refill_rate, max_attempts, line: Arc::new(PerProcess::new()) }
    }

    fn line(&self) -> &Line {
        let Ok(line) = self.line.get_or_try_create(|| {
            let bucket = Mutex::new(Bucket { tokens: self.max_tokens, refilled: None });
            Ok::<_, Infallible>(Line { bucket, turn: Semaphore::new(1) })
        });
        line
    }

    /// Takes a token, or tells how long it is until there is one.
    fn take(&self) -> Result<(), Duration> {
        let now = Instant::now();
        let mut bucket = self.line().bucket.lock().unwrap_or_else(PoisonError::into_inner);
        let since = bucket.refilled.replace(now).map_or(Duration::ZERO, |then| now.duration_since(then));
        let tokens = since.as_secs_f64().mul_add(self.refill_rate, bucket.tokens).min(self.max_tokens);
        // A wait in whole milliseconds may end a hair before the token.
        let is_there = tokens >= 1.0 - 1e-6;
        bucket.tokens = if is_there { (tokens - 1.0).max(0.0) } else { tokens };
        if is_there { Ok(()) } else { Err(self.time_for(1.0 - tokens)) }
    }

    /// Time in which so many tokens come, in whole milliseconds and never too short.
    fn time_for(&self, tokens: f64) -> Duration {
        milliseconds((tokens * 1000.0 / self.refill_rate).ceil())
    }
}

impl RetryStrategy for TokenBucket {
    fn before_request(&self) -> RetryFuture<()> {
        let bucket = self.clone();
        Box::pin(async move {
            // It is never closed.
            let _turn = bucket.line().turn.acquire().await;
            while let Err(wait) = bucket.take() {
                runtime::sleep(wait).await;
            }
            Ok(())
        })
    }

    fn delay(&self, failure: &FailedAttempt<'_>) -> Option<Duration> {
        if failure.attempt > self.max_attempts || !failure.error.is_rate_limit() {
            return None;
        }
        Some(self.time_for(2.0).max(failure.retry_after.unwrap_or_default()))
    }
}

/// A multiple of a duration; the longest there is instead of an overflow.
fn scale(duration: Duration, factor: f64) -> Duration {
    Duration::try_from_secs_f64(duration.as_secs_f64() * factor).unwrap_or(Duration::MAX)
}

fn milliseconds(number: f64) -> Duration {
    scale(Duration::from_secs(1), number / 1000.0)
}
