//! Retry strategies. UPP-1.2 §13.3. Times are seconds.

use std::sync::Arc;
use std::time::Duration;

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;

use crate::core::http;

/// How failed requests are sent again: the base of the strategies.
#[pyclass(frozen, subclass, module = "turntree.upp")]
pub(crate) struct RetryStrategy(Arc<dyn http::RetryStrategy>);

/// Waits twice as long each time, after failures that may pass: `max_attempts` retries, the first after `base_delay`
/// seconds, none longer than `max_delay`; `jitter` draws each at random around its length. UPP-1.2 §13.3.
#[pyclass(frozen, extends = RetryStrategy, module = "turntree.upp")]
pub(crate) struct ExponentialBackoff;

/// Waits `delay` seconds longer each time, after failures that may pass: `max_attempts` retries. UPP-1.2 §13.3.
#[pyclass(frozen, extends = RetryStrategy, module = "turntree.upp")]
pub(crate) struct LinearBackoff;

/// Never sends again. UPP-1.2 §13.3.
#[pyclass(frozen, extends = RetryStrategy, module = "turntree.upp")]
pub(crate) struct NoRetry;

/// Lets requests through at a rate, and sends again those that were refused for going too fast: `max_tokens` at once,
/// `refill_rate` a second, `max_attempts` retries. UPP-1.2 §13.3.
#[pyclass(frozen, extends = RetryStrategy, module = "turntree.upp")]
pub(crate) struct TokenBucket;

/// Sends again what was refused for going too fast, after as long as the server asks for, or `fallback_delay` seconds:
/// `max_attempts` retries. UPP-1.2 §13.3.
#[pyclass(frozen, extends = RetryStrategy, module = "turntree.upp")]
pub(crate) struct RetryAfterStrategy;

fn holding(strategy: impl http::RetryStrategy + 'static) -> PyClassInitializer<RetryStrategy> {
    PyClassInitializer::from(RetryStrategy(Arc::new(strategy)))
}

/// A span of time from seconds.
///
/// # Errors
/// `ValueError` for a negative, infinite or not a number.
pub(crate) fn seconds(value: f64, what: &str) -> PyResult<Duration> {
    Duration::try_from_secs_f64(value)
        .map_err(|_| PyValueError::new_err(format!("{what} must be a number of seconds from 0, not {value}")))
}

/// The strategy behind an object.
///
/// # Errors
/// `TypeError` for anything else.
pub(crate) fn strategy_from(value: &Bound<'_, PyAny>) -> PyResult<Arc<dyn http::RetryStrategy>> {
    let strategy = value.cast::<RetryStrategy>().map_err(|_| {
        let found = value.get_type().name().map(|name| name.to_string()).unwrap_or_default();
        PyTypeError::new_err(format!(
            "retry_strategy must be a retry strategy as ExponentialBackoff(), not {found}"
        ))
    })?;
    Ok(Arc::clone(&strategy.get().0))
}

#[pymethods]
impl RetryStrategy {
    fn __repr__(slf: &Bound<'_, Self>) -> String {
        format!("{:?}", slf.get().0)
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
        let (base_delay, max_delay) = (seconds(base_delay, "base_delay")?, seconds(max_delay, "max_delay")?);
        let strategy = http::ExponentialBackoff { max_attempts, base_delay, max_delay, jitter };
        Ok(holding(strategy).add_subclass(Self))
    }
}

#[pymethods]
impl LinearBackoff {
    #[new]
    #[pyo3(signature = (*, max_attempts = 3, delay = 1.0))]
    fn new(max_attempts: u32, delay: f64) -> PyResult<PyClassInitializer<Self>> {
        let strategy = http::LinearBackoff { max_attempts, delay: seconds(delay, "delay")? };
        Ok(holding(strategy).add_subclass(Self))
    }
}

#[pymethods]
impl NoRetry {
    #[new]
    fn new() -> PyClassInitializer<Self> {
        holding(http::NoRetry).add_subclass(Self)
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
        Ok(holding(http::TokenBucket::new(max_tokens, refill_rate, max_attempts)).add_subclass(Self))
    }
}

#[pymethods]
impl RetryAfterStrategy {
    #[new]
    #[pyo3(signature = (*, max_attempts = 3, fallback_delay = 5.0))]
    fn new(max_attempts: u32, fallback_delay: f64) -> PyResult<PyClassInitializer<Self>> {
        let fallback_delay = seconds(fallback_delay, "fallback_delay")?;
        Ok(holding(http::RetryAfterStrategy { max_attempts, fallback_delay }).add_subclass(Self))
    }
}
