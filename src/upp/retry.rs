//! Retry strategies. Times are in seconds.
//!
//! Spec: UPP-1.2 §13.3.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::prelude::*;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::types::PyTuple;

use crate::bridge::call::Call;
use crate::bridge::callbacks::{Callbacks, PyCallback};
use crate::bridge::gil;
use crate::error::{not_constructible, wrong_type};
use crate::upp::error::{to_exception, to_host_failure};
use turntree_core::http::{self, FailedAttempt, RetryFuture};
use turntree_core::runtime;
use turntree_upp::http_model::describe;

/// Base class of the retry strategies, which decide whether and when a failed request is sent again.
///
/// A ``Retry-After`` header is honored up to `ProviderConfig`'s ``retry_after_max``.
///
/// Spec: UPP-1.2 §13.3.
#[pyclass(frozen, subclass, module = "turntree.upp")]
pub(crate) struct RetryStrategy {
    strategy: Arc<dyn http::RetryStrategy>,
    /// The call that makes an equal one.
    repr: String,
}

/// Retries transient failures and doubles the delay each time.
///
/// Spec: UPP-1.2 §13.3.
#[pyclass(frozen, extends = RetryStrategy, module = "turntree.upp")]
pub(crate) struct ExponentialBackoff;

/// Retries transient failures and adds a constant to the delay each time.
///
/// Spec: UPP-1.2 §13.3.
#[pyclass(frozen, extends = RetryStrategy, module = "turntree.upp")]
pub(crate) struct LinearBackoff;

/// Never retries.
///
/// Spec: UPP-1.2 §13.3.
#[pyclass(frozen, extends = RetryStrategy, module = "turntree.upp")]
pub(crate) struct NoRetry;

/// Limits the request rate, and retries requests that exceeded the rate limit of the server.
///
/// Models and agents that use the same bucket share its rate.
///
/// Spec: UPP-1.2 §13.3.
#[pyclass(frozen, extends = RetryStrategy, module = "turntree.upp")]
pub(crate) struct TokenBucket;

/// Retries requests that exceeded the rate limit, after the delay in the ``Retry-After`` header.
///
/// Spec: UPP-1.2 §13.3.
#[pyclass(frozen, extends = RetryStrategy, module = "turntree.upp")]
pub(crate) struct RetryAfterStrategy;

fn base_class(
    strategy: impl http::RetryStrategy + 'static,
    repr: impl Into<String>,
) -> PyClassInitializer<RetryStrategy> {
    PyClassInitializer::from(RetryStrategy { strategy: Arc::new(strategy), repr: repr.into() })
}

/// Converts seconds to a duration.
///
/// # Errors
/// `ValueError` for a negative or infinite number and for NaN.
pub(crate) fn seconds(value: f64, what: &str) -> PyResult<Duration> {
    Duration::try_from_secs_f64(value)
        .map_err(|_| PyValueError::new_err(format!("{what} must be a number of seconds from 0, not {value}")))
}

/// Reads a built-in strategy, or an object of the application with the method `on_retry`. Adds its functions to `held`,
/// for the garbage collector.
///
/// # Errors
/// `TypeError` for anything else.
pub(crate) fn strategy_from(
    value: &Bound<'_, PyAny>,
    held: &mut Callbacks,
) -> PyResult<Arc<dyn http::RetryStrategy>> {
    if let Ok(strategy) = value.cast::<RetryStrategy>() {
        return Ok(Arc::clone(&strategy.get().strategy));
    }
    if let Some(custom) = Custom::new(value)? {
        held.functions.extend(custom.functions().cloned());
        return Ok(Arc::new(custom));
    }
    Err(wrong_type(
        value,
        "retry_strategy",
        "a retry strategy as ExponentialBackoff(), or an object with on_retry",
    ))
}

/// A strategy of the application: its `on_retry`, and the optional methods.
///
/// Spec: UPP-1.2 §13.2.
struct Custom {
    on_retry: Arc<PyCallback>,
    before_request: Option<Arc<PyCallback>>,
    set_retry_after: Option<Arc<PyCallback>>,
    reset: Option<Arc<PyCallback>>,
    fork: Option<Arc<PyCallback>>,
}

impl Custom {
    /// Reads the object's methods; `None` without `on_retry`.
    fn new(value: &Bound<'_, PyAny>) -> PyResult<Option<Self>> {
        let method = |name: &str| match value.getattr_opt(name)? {
            Some(method) if method.is_callable() => PyCallback::new(&method).map(Some),
            _ => Ok(None),
        };
        let Some(on_retry) = method("on_retry")? else { return Ok(None) };
        Ok(Some(Self {
            on_retry,
            before_request: method("before_request")?,
            set_retry_after: method("set_retry_after")?,
            reset: method("reset")?,
            fork: method("fork")?,
        }))
    }

    fn functions(&self) -> impl Iterator<Item = &Arc<PyCallback>> {
        let others = [&self.before_request, &self.set_retry_after, &self.reset, &self.fork];
        std::iter::once(&self.on_retry).chain(others.into_iter().flatten())
    }
}

impl fmt::Debug for Custom {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("CustomRetry(..)")
    }
}

/// Waits for a method of the strategy and converts its return value.
fn result_of<T: Send + 'static>(
    started: PyResult<Call>,
    read: impl FnOnce(&Bound<'_, PyAny>) -> PyResult<T> + Send + 'static,
) -> RetryFuture<T> {
    Box::pin(async move {
        let returned = match started {
            Ok(call) => call.await,
            Err(error) => Err(error),
        };
        let read = gil::require_held(|py| returned.and_then(|value| read(value.bind(py))));
        read.map_err(to_host_failure)
    })
}

/// Reads a delay in seconds, or `None`.
fn delay_from(value: &Bound<'_, PyAny>, method: &str) -> PyResult<Option<Duration>> {
    if value.is_none() {
        return Ok(None);
    }
    let number: f64 = value.extract().map_err(|_| {
        let found = value.get_type().name().map(|name| name.to_string()).unwrap_or_default();
        PyTypeError::new_err(format!("{method} must return seconds or None, not {found}"))
    })?;
    seconds(number, &format!("the return value of {method}")).map(Some)
}

impl http::RetryStrategy for Custom {
    fn before_request(&self) -> RetryFuture<()> {
        let Some(function) = &self.before_request else { return Box::pin(std::future::ready(Ok(()))) };
        let started = gil::require_held(|py| function.call(py, PyTuple::empty(py).unbind()));
        let delay = result_of(started, |value| delay_from(value, "before_request"));
        Box::pin(async move {
            runtime::sleep(delay.await?.unwrap_or_default()).await;
            Ok(())
        })
    }

    /// Not used: the driver calls `on_failure`, which this type implements.
    fn delay(&self, _failure: &FailedAttempt<'_>) -> Option<Duration> {
        None
    }

    fn on_failure(&self, failure: &FailedAttempt<'_>) -> RetryFuture<Option<Duration>> {
        let error = describe("", failure.error);
        let (attempt, retry_after) = (failure.attempt, failure.retry_after);
        let started = gil::require_held(|py| {
            if let (Some(set), Some(retry_after)) = (&self.set_retry_after, retry_after) {
                set.bound(py)?.call1((retry_after.as_secs_f64(),))?;
            }
            let error = to_exception(py, &error).into_value(py);
            self.on_retry.call(py, (error, attempt).into_pyobject(py)?.unbind())
        });
        result_of(started, |value| delay_from(value, "on_retry"))
    }

    fn succeeded(&self) -> RetryFuture<()> {
        let Some(function) = &self.reset else { return Box::pin(std::future::ready(Ok(()))) };
        let started = gil::require_held(|py| function.call(py, PyTuple::empty(py).unbind()));
        result_of(started, |_| Ok(()))
    }

    fn fork(&self) -> Option<Arc<dyn http::RetryStrategy>> {
        let function = self.fork.as_ref()?;
        let forked = gil::require_held(|py| {
            let forked = function.bound(py)?.call0()?;
            // Only the request holds the fork, and its future keeps the model alive; the collector need not see it.
            strategy_from(&forked, &mut Callbacks::default())
        });
        Some(forked.unwrap_or_else(|error| Arc::new(FailedFork(to_host_failure(error)))))
    }
}

/// Replaces a strategy whose `fork` failed: fails the request with that error.
#[derive(Debug)]
struct FailedFork(http::HostFailure);

impl http::RetryStrategy for FailedFork {
    fn before_request(&self) -> RetryFuture<()> {
        Box::pin(std::future::ready(Err(self.0.clone())))
    }

    fn delay(&self, _failure: &FailedAttempt<'_>) -> Option<Duration> {
        None
    }
}

not_constructible!(RetryStrategy, "write ExponentialBackoff(), LinearBackoff(), NoRetry() or TokenBucket()");

#[pymethods]
impl RetryStrategy {
    fn __repr__(&self) -> &str {
        &self.repr
    }
}

#[pymethods]
impl ExponentialBackoff {
    #[new]
    #[pyo3(signature = (*, max_attempts = 3, base_delay = 1.0, max_delay = 30.0, jitter = true))]
    fn new(
        max_attempts: u32,
        base_delay: f64,
        max_delay: f64,
        jitter: bool,
    ) -> PyResult<PyClassInitializer<Self>> {
        let repr = format!(
            "ExponentialBackoff(max_attempts={max_attempts}, base_delay={base_delay:?}, max_delay={max_delay:?}, \
             jitter={})",
            if jitter { "True" } else { "False" }
        );
        let (base_delay, max_delay) = (seconds(base_delay, "base_delay")?, seconds(max_delay, "max_delay")?);
        let strategy = http::ExponentialBackoff { max_attempts, base_delay, max_delay, jitter };
        Ok(base_class(strategy, repr).add_subclass(Self))
    }
}

#[pymethods]
impl LinearBackoff {
    #[new]
    #[pyo3(signature = (*, max_attempts = 3, delay = 1.0))]
    fn new(max_attempts: u32, delay: f64) -> PyResult<PyClassInitializer<Self>> {
        let repr = format!("LinearBackoff(max_attempts={max_attempts}, delay={delay:?})");
        let strategy = http::LinearBackoff { max_attempts, delay: seconds(delay, "delay")? };
        Ok(base_class(strategy, repr).add_subclass(Self))
    }
}

#[pymethods]
impl NoRetry {
    #[new]
    fn new() -> PyClassInitializer<Self> {
        base_class(http::NoRetry, "NoRetry()").add_subclass(Self)
    }
}

#[pymethods]
impl TokenBucket {
    #[new]
    #[pyo3(signature = (*, max_tokens = 10, refill_rate = 1.0, max_attempts = 3))]
    fn new(max_tokens: u32, refill_rate: f64, max_attempts: u32) -> PyResult<PyClassInitializer<Self>> {
        if !(refill_rate.is_finite() && refill_rate > 0.0) {
            return Err(PyValueError::new_err("refill_rate must be a number of requests a second above 0"));
        }
        let repr = format!(
            "TokenBucket(max_tokens={max_tokens}, refill_rate={refill_rate:?}, max_attempts={max_attempts})"
        );
        Ok(base_class(http::TokenBucket::new(max_tokens, refill_rate, max_attempts), repr).add_subclass(Self))
    }
}

#[pymethods]
impl RetryAfterStrategy {
    #[new]
    #[pyo3(signature = (*, max_attempts = 3, fallback_delay = 5.0))]
    fn new(max_attempts: u32, fallback_delay: f64) -> PyResult<PyClassInitializer<Self>> {
        let repr =
            format!("RetryAfterStrategy(max_attempts={max_attempts}, fallback_delay={fallback_delay:?})");
        let fallback_delay = seconds(fallback_delay, "fallback_delay")?;
        Ok(base_class(http::RetryAfterStrategy { max_attempts, fallback_delay }, repr).add_subclass(Self))
    }
}
