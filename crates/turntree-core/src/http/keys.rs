//! API keys. A [`KeyStrategy`] is called for every request, so that keys can rotate.
//!
//! Spec: UPP-1.2 §13.1

use std::fmt;
use std::future::{Future, ready};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::error::HostFailure;
use crate::runtime::environment;
use crate::secret::Secret;

/// The future of a key.
pub type KeyFuture = Pin<Box<dyn Future<Output = Result<Secret, KeyError>> + Send>>;

/// The errors of a key strategy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// No key is configured and no environment variable is set.
    #[error("{}", not_found(names))]
    NotFound {
        /// The environment variables that were checked.
        names: Vec<String>,
    },
    /// A strategy over several keys has no keys.
    #[error("{strategy} needs at least one key; add one to the list")]
    Empty {
        /// The strategy's name.
        strategy: &'static str,
    },
    /// A weight is not a positive number.
    #[error("weight {weight} of key {index} is not a positive number; give every key a weight above 0")]
    Weight {
        /// The index of the key, from 0.
        index: usize,
        /// The weight as given.
        weight: String,
    },
    /// The application's key function failed.
    #[error("the API key function failed: {message}")]
    Failed {
        /// The message of the failure.
        message: String,
    },
    /// The application's key function failed with a typed error.
    #[error("the API key function failed: {0}")]
    Raised(#[from] HostFailure),
}

fn not_found(names: &[String]) -> String {
    match names {
        [] => "no API key: pass api_key=".to_owned(),
        names => format!("no API key: set the environment variable {}, or pass api_key=", names.join(" or ")),
    }
}

/// Provides the API key of each request. Called on the thread that polls the request.
pub trait KeyStrategy: fmt::Debug + Send + Sync {
    /// Returns the key for the next request.
    ///
    /// # Errors
    /// [`KeyError`] if there is no key.
    fn key(&self) -> KeyFuture;
}

/// Returns the same key for every request.
#[derive(Debug, Clone)]
pub struct StaticKey(pub Secret);

impl KeyStrategy for StaticKey {
    fn key(&self) -> KeyFuture {
        ready_key(&self.0)
    }
}

/// Returns the keys in turn.
#[derive(Debug)]
pub struct RoundRobinKeys {
    keys: Vec<Secret>,
    next: AtomicUsize,
}

impl RoundRobinKeys {
    /// A strategy over these keys.
    ///
    /// # Errors
    /// [`KeyError::Empty`] without keys.
    pub fn new(keys: impl IntoIterator<Item = Secret>) -> Result<Self, KeyError> {
        let keys: Vec<Secret> = keys.into_iter().collect();
        if keys.is_empty() {
            return Err(KeyError::Empty { strategy: "RoundRobinKeys" });
        }
        Ok(Self { keys, next: AtomicUsize::new(0) })
    }
}

impl KeyStrategy for RoundRobinKeys {
    fn key(&self) -> KeyFuture {
        let turn = self.next.fetch_add(1, Ordering::Relaxed);
        let index = turn.checked_rem(self.keys.len()).unwrap_or_default();
        self.keys.get(index).map_or_else(|| empty("RoundRobinKeys"), ready_key)
    }
}

/// Returns a random key; the probability is proportional to its weight.
#[derive(Debug)]
pub struct WeightedKeys {
    keys: Vec<(Secret, f64)>,
    total: f64,
}

impl WeightedKeys {
    /// A strategy over keys with weights. Only the ratios of the weights count.
    ///
    /// # Errors
    /// [`KeyError::Empty`] without keys, [`KeyError::Weight`] for a weight that is not above 0.
    pub fn new(keys: impl IntoIterator<Item = (Secret, f64)>) -> Result<Self, KeyError> {
        let keys: Vec<(Secret, f64)> = keys.into_iter().collect();
        if keys.is_empty() {
            return Err(KeyError::Empty { strategy: "WeightedKeys" });
        }
        let wrong = keys.iter().position(|(_, weight)| !(weight.is_finite() && *weight > 0.0));
        if let Some((index, (_, weight))) = wrong.and_then(|index| Some((index, keys.get(index)?))) {
            return Err(KeyError::Weight { index, weight: weight.to_string() });
        }
        let total = keys.iter().map(|(_, weight)| weight).sum();
        Ok(Self { keys, total })
    }

    fn draw(&self, ticket: f64) -> Option<&Secret> {
        let mut passed = 0.0;
        let drawn = self.keys.iter().find(|(_, weight)| {
            passed += weight;
            ticket <= passed
        });
        // Rounding may put the ticket slightly above the sum.
        drawn.or(self.keys.last()).map(|(key, _)| key)
    }
}

impl KeyStrategy for WeightedKeys {
    fn key(&self) -> KeyFuture {
        self.draw(fastrand::f64() * self.total).map_or_else(|| empty("WeightedKeys"), ready_key)
    }
}

/// Calls a function of the application.
pub struct DynamicKey<F>(pub F);

impl<F> fmt::Debug for DynamicKey<F> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("DynamicKey(..)")
    }
}

impl<F, K> KeyStrategy for DynamicKey<F>
where
    F: Fn() -> K + Send + Sync,
    K: Future<Output = Result<Secret, KeyError>> + Send + 'static,
{
    fn key(&self) -> KeyFuture {
        Box::pin((self.0)())
    }
}

/// Returns the first of these environment variables that is set. Reads them for every request.
#[derive(Debug, Clone)]
pub struct EnvironmentKey {
    names: Vec<String>,
}

impl EnvironmentKey {
    /// Checks the variables in this order.
    pub fn new<N: Into<String>>(names: impl IntoIterator<Item = N>) -> Self {
        Self { names: names.into_iter().map(Into::into).collect() }
    }
}

impl KeyStrategy for EnvironmentKey {
    fn key(&self) -> KeyFuture {
        let key = self.names.iter().find_map(|name| environment(name));
        let key = key.map(|text| Secret::from(text.trim()));
        Box::pin(ready(key.ok_or_else(|| KeyError::NotFound { names: self.names.clone() })))
    }
}

fn ready_key(key: &Secret) -> KeyFuture {
    Box::pin(ready(Ok(key.clone())))
}

fn empty(strategy: &'static str) -> KeyFuture {
    Box::pin(ready(Err(KeyError::Empty { strategy })))
}
