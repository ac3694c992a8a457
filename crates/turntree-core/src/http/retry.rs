//! Retry strategies.
//!
//! [`Attempts`] counts the attempts of one request, calls the strategy after each failure, and waits. The strategy
//! receives the failed attempt as an argument, so the built-in strategies have no state, and one instance serves any
//! number of requests. Only [`TokenBucket`] has state, which its clones share.
//!
//! Spec: UPP-1.2 §13.2, §13.3

use std::convert::Infallible;
use std::fmt;
use std::future::ready;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ::http::{HeaderValue, StatusCode};
use futures_util::future::BoxFuture;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::error::{HostFailure, HttpError, TimeoutPhase};
use crate::runtime::{self, PerProcess};

/// Default maximum of `Retry-After`: one hour.
const DEFAULT_RETRY_AFTER_MAX: Duration = Duration::from_secs(3600);

/// A failed attempt, the argument of a strategy.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct FailedAttempt<'a> {
    /// The error.
    pub error: &'a HttpError,
    /// The number of the attempt, from 1.
    pub attempt: u32,
    /// The wait that the server requested, limited by the policy.
    pub retry_after: Option<Duration>,
}

/// The future of a strategy's decision. An error ends the request.
pub type RetryFuture<T> = BoxFuture<'static, Result<T, HostFailure>>;

/// Decides whether and when a request is retried. Called on the thread that polls the request.
pub trait RetryStrategy: fmt::Debug + Send + Sync {
    /// Waits until an attempt may be sent. Called before every attempt, including the first.
    fn before_request(&self) -> RetryFuture<()> {
        Box::pin(ready(Ok(())))
    }

    /// The wait before the next attempt; None to stop.
    fn delay(&self, failure: &FailedAttempt<'_>) -> Option<Duration>;

    /// As [`RetryStrategy::delay`], for strategies that are asynchronous or may fail. Default: the result of `delay`.
    fn on_failure(&self, failure: &FailedAttempt<'_>) -> RetryFuture<Option<Duration>> {
        Box::pin(ready(Ok(self.delay(failure))))
    }

    /// Called when the request succeeded.
    fn succeeded(&self) -> RetryFuture<()> {
        Box::pin(ready(Ok(())))
    }

    /// Returns a new strategy for one request. Override it if the strategy has state per request.
    fn fork(&self) -> Option<Arc<dyn RetryStrategy>> {
        None
    }
}

/// A retry strategy and the limit of `Retry-After`.
#[derive(Debug, Clone)]
pub struct RetryPolicy {
    /// The strategy. None: no retries.
    pub strategy: Option<Arc<dyn RetryStrategy>>,
    /// Maximum wait that a server's `Retry-After` can request. Default: one hour.
    pub retry_after_max: Duration,
    /// Where retries are recorded.
    pub log: RetryLog,
}

/// The failures of one request after which it was sent again. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct RetryLog(Arc<Mutex<Vec<String>>>);

impl RetryLog {
    /// The failures in order, such as `429` or `network error`.
    pub fn failures(&self) -> Vec<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn record(&self, error: &HttpError) {
        let failure = match error {
            HttpError::Status(refusal) => refusal.status.as_u16().to_string(),
            HttpError::Timeout { .. } => "timeout".to_owned(),
            _ => "network error".to_owned(),
        };
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(failure);
    }
}

impl Default for RetryPolicy {
    /// No retries.
    ///
    /// Spec: UPP-1.2 §9
    fn default() -> Self {
        Self { strategy: None, retry_after_max: DEFAULT_RETRY_AFTER_MAX, log: RetryLog::default() }
    }
}

impl RetryPolicy {
    /// A policy with this strategy.
    pub fn new(strategy: impl RetryStrategy + 'static) -> Self {
        Self { strategy: Some(Arc::new(strategy)), ..Self::default() }
    }

    /// Starts the attempts of one request.
    pub fn attempts(&self) -> Attempts {
        let forked = self.strategy.as_ref().and_then(|strategy| strategy.fork());
        Attempts {
            strategy: forked.or_else(|| self.strategy.clone()),
            retry_after_max: self.retry_after_max,
            log: self.log.clone(),
            attempt: 0,
        }
    }
}

/// The attempts of one request: counts them and waits between them.
#[derive(Debug)]
pub struct Attempts {
    strategy: Option<Arc<dyn RetryStrategy>>,
    retry_after_max: Duration,
    log: RetryLog,
    attempt: u32,
}

impl Attempts {
    /// True if a failure can lead to another attempt.
    pub fn may_repeat(&self) -> bool {
        self.strategy.is_some()
    }

    /// Waits until the next attempt may be sent, and counts it.
    ///
    /// # Cancel safety
    /// Dropping the future stops the wait; the attempt is counted.
    ///
    /// # Errors
    /// [`HttpError::Host`] if the application's strategy failed.
    pub async fn before_request(&mut self) -> Result<(), HttpError> {
        self.attempt = self.attempt.saturating_add(1);
        match &self.strategy {
            Some(strategy) => Ok(strategy.before_request().await?),
            None => Ok(()),
        }
    }

    /// Calls the strategy and waits. Returns if the request is to be retried.
    ///
    /// # Errors
    /// `error`, if it is final; [`HttpError::Host`] if the application's strategy failed.
    ///
    /// # Cancel safety
    /// Dropping the future stops the wait.
    pub async fn after_failure(&mut self, error: HttpError) -> Result<(), HttpError> {
        let retry_after = error.retry_after().map(|wait| wait.min(self.retry_after_max));
        let failure = FailedAttempt { error: &error, attempt: self.attempt, retry_after };
        // The strategy is not called for final errors such as a cancellation.
        let decision = match &self.strategy {
            Some(strategy) if !error.is_final() => strategy.on_failure(&failure),
            _ => return Err(error),
        };
        let Some(delay) = decision.await? else { return Err(error) };
        self.log.record(&error);
        drop(error);
        runtime::sleep(delay).await;
        Ok(())
    }

    /// Notifies the strategy of a success.
    ///
    /// # Errors
    /// [`HttpError::Host`] if the application's strategy failed.
    pub async fn succeeded(&self) -> Result<(), HttpError> {
        match &self.strategy {
            Some(strategy) => Ok(strategy.succeeded().await?),
            None => Ok(()),
        }
    }
}

/// Doubles the wait after each failure. Uses `Retry-After` if it is longer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExponentialBackoff {
    /// Maximum number of retries after the first attempt. Default: 3, so up to four requests.
    pub max_attempts: u32,
    /// The first wait. Default: 1 s.
    pub base_delay: Duration,
    /// The maximum wait. Default: 30 s.
    pub max_delay: Duration,
    /// Multiplies each wait by a random factor between 0.5 and 1.5, so that clients do not retry at the same time.
    /// Default: true.
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

/// Adds one delay to the wait after each failure. Uses `Retry-After` if it is longer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinearBackoff {
    /// Maximum number of retries after the first attempt. Default: 3.
    pub max_attempts: u32,
    /// The first wait, and the increment of further waits. Default: 1 s.
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

/// The retries of the vendors' own SDKs: after connection errors and the statuses 408, 409, 429 and 5xx, unless the server
/// sends `x-should-retry: false`.
///
/// The wait doubles from half a second to 8 seconds, with random variation. A shorter or longer wait that the server
/// requests replaces it; requests for more than a minute end the retries, so that the caller can decide.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StandardRetry {
    /// Maximum number of retries after the first attempt.
    pub max_retries: u32,
}

impl StandardRetry {
    const FIRST_DELAY: Duration = Duration::from_millis(500);
    const LONGEST_DELAY: Duration = Duration::from_secs(8);
    const LONGEST_REQUESTED: Duration = Duration::from_secs(60);

    fn retries(error: &HttpError) -> bool {
        match error {
            HttpError::Status(refusal) => {
                match refusal.headers.get("x-should-retry").map(HeaderValue::as_bytes) {
                    Some(b"true") => true,
                    Some(b"false") => false,
                    _ => error.is_retryable() || refusal.status == StatusCode::CONFLICT,
                }
            }
            HttpError::Timeout { phase, .. } => *phase == TimeoutPhase::Connect,
            error => error.is_retryable(),
        }
    }
}

impl RetryStrategy for StandardRetry {
    fn delay(&self, failure: &FailedAttempt<'_>) -> Option<Duration> {
        if failure.attempt > self.max_retries || !Self::retries(failure.error) {
            return None;
        }
        if let Some(requested) = failure.retry_after {
            return (requested <= Self::LONGEST_REQUESTED).then_some(requested);
        }
        let doublings = failure.attempt.saturating_sub(1).min(31);
        let delay = Self::FIRST_DELAY.saturating_mul(1 << doublings).min(Self::LONGEST_DELAY);
        Some(scale(delay, 1.0 - fastrand::f64() / 4.0))
    }
}

/// Never retries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NoRetry;

impl RetryStrategy for NoRetry {
    fn delay(&self, _failure: &FailedAttempt<'_>) -> Option<Duration> {
        None
    }
}

/// Retries after status 429, after the wait that the server requested. Other failures are final.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetryAfterStrategy {
    /// Maximum number of retries after the first attempt. Default: 3.
    pub max_attempts: u32,
    /// The wait if the server requests none. Default: 5 s.
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

/// Limits the rate of all requests that share it. Clones share it.
///
/// Every attempt takes a token. If there is none, it waits for the next token; attempts on all threads wait in order of
/// arrival. A success does not return the token. A request that is dropped while it waits takes no token. A fork of the
/// process has a full bucket of its own.
#[derive(Debug, Clone)]
pub struct TokenBucket {
    max_tokens: f64,
    refill_rate: f64,
    max_attempts: u32,
    /// One queue per process: requests that wait in the parent do not exist in a fork.
    line: Arc<PerProcess<Line>>,
}

#[derive(Debug)]
struct Line {
    bucket: Mutex<Bucket>,
    /// The first attempt in the queue holds it; the queue is in order of arrival.
    turn: Semaphore,
}

#[derive(Debug)]
struct Bucket {
    tokens: f64,
    refilled: Option<Instant>,
}

impl Default for TokenBucket {
    /// Ten tokens, one token per second, three retries.
    fn default() -> Self {
        Self::new(10, 1.0, 3)
    }
}

impl TokenBucket {
    /// A full bucket of `max_tokens` (at least 1) that gains `refill_rate` tokens per second.
    ///
    /// A rate below one token per hour, or one that is not a number, counts as one token per hour.
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

    /// Takes a token. The error is the time until the next token.
    fn take(&self) -> Result<(), Duration> {
        let now = Instant::now();
        let mut bucket = self.line().bucket.lock().unwrap_or_else(PoisonError::into_inner);
        let since = bucket.refilled.replace(now).map_or(Duration::ZERO, |then| now.duration_since(then));
        let tokens = since.as_secs_f64().mul_add(self.refill_rate, bucket.tokens).min(self.max_tokens);
        // A wait in whole milliseconds may end slightly before the token exists.
        let is_there = tokens >= 1.0 - 1e-6;
        bucket.tokens = if is_there { (tokens - 1.0).max(0.0) } else { tokens };
        if is_there { Ok(()) } else { Err(self.time_for(1.0 - tokens)) }
    }

    /// The time for a number of tokens, rounded up to milliseconds.
    fn time_for(&self, tokens: f64) -> Duration {
        milliseconds((tokens * 1000.0 / self.refill_rate).ceil())
    }
}

impl RetryStrategy for TokenBucket {
    fn before_request(&self) -> RetryFuture<()> {
        let bucket = self.clone();
        Box::pin(async move {
            // The semaphore is never closed.
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

/// Multiplies a duration. An overflow becomes `Duration::MAX`.
fn scale(duration: Duration, factor: f64) -> Duration {
    Duration::try_from_secs_f64(duration.as_secs_f64() * factor).unwrap_or(Duration::MAX)
}

fn milliseconds(number: f64) -> Duration {
    scale(Duration::from_secs(1), number / 1000.0)
}
