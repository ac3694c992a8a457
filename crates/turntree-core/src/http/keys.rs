//! Where an API key comes from. UPP-1.2 §13.1.
//!
//! A strategy is asked anew for every request, so that keys rotate from call to call.

use std::fmt;
use std::future::{Future, ready};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::error::HostFailure;
use crate::runtime::environment;
use crate::secret::Secret;

/// A key that may take a while.
pub type KeyFuture = Pin<Box<dyn Future<Output = Result<Secret, KeyError>> + Send>>;

/// Why there is no key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// Nothing was given and nothing is set.
    #[error("API key not found. Set {} environment variable or provide apiKey in config.", names.join(" or "))]
    NotFound {
        /// The variables that were looked at.
        names: Vec<String>,
    },
    /// A strategy over many keys has none.
    #[error("{strategy} needs at least one key; add one to the list")]
    Empty {
        /// The strategy's name.
        strategy: &'static str,
    },
    /// A weight is no positive number.
    #[error("weight {weight} of key {index} is not a positive number; give every key a weight above 0")]
    Weight {
        /// Place of the key, from 0.
        index: usize,
        /// The weight as given.
        weight: String,
    },
    /// The caller's own function failed.
    #[error("the API key function failed: {message}")]
    Failed {
        /// What it said.
        message: String,
    },
    /// The caller's own function failed with an error that is kept.
    #[error("the API key function failed: {0}")]
    Raised(#[from] HostFailure),
}

/// Gives a key for each request. Asked on the thread that polls the request.
pub trait KeyStrategy: fmt::Debug + Send + Sync {
    /// The key for the next request.
    ///
    /// # Errors
    /// [`KeyError`] when there is none.
    fn key(&self) -> KeyFuture;
}

/// The same key every time.
#[derive(Debug, Clone)]
pub struct StaticKey(pub Secret);

impl KeyStrategy for StaticKey {
    fn key(&self) -> KeyFuture {
        found(&self.0)
    }
}

/// One key after the other, from the first again after the last.
#[derive(Debug)]
pub struct RoundRobinKeys {
    keys: Vec<Secret>,
    next: AtomicUsize,
}

impl RoundRobinKeys {
    /// Takes the keys in their order.
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
        self.keys.get(index).map_or_else(|| empty("RoundRobinKeys"), found)
    }
}

/// A key drawn at random, as often as its weight says.
#[derive(Debug)]
pub struct WeightedKeys {
    keys: Vec<(Secret, f64)>,
    total: f64,
}

impl WeightedKeys {
    /// Takes keys with their weights; only the ratios matter.
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
        // Rounding may leave the ticket a hair past the sum.
        drawn.or(self.keys.last()).map(|(key, _)| key)
    }
}

impl KeyStrategy for WeightedKeys {
    fn key(&self) -> KeyFuture {
        self.draw(fastrand::f64() * self.total).map_or_else(|| empty("WeightedKeys"), found)
    }
}

/// The caller's own function.
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

/// The first of these environment variables that is set; read anew every time.
#[derive(Debug, Clone)]
pub struct EnvironmentKey {
    names: Vec<String>,
}

impl EnvironmentKey {
    /// Looks at the variables in this order.
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

fn found(key: &Secret) -> KeyFuture {
    Box::pin(ready(Ok(key.clone())))
}

fn empty(strategy: &'static str) -> KeyFuture {
    Box::pin(ready(Err(KeyError::Empty { strategy })))
}
