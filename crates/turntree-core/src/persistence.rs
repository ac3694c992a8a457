//! The persistence port: stores texts by key.
//!
//! Spec: UAP-1.0 §14.2

use std::fmt;
use std::sync::Arc;

use futures_util::future::BoxFuture;

/// The error of a store.
#[derive(Clone, thiserror::Error)]
#[error("{message}")]
pub struct PersistenceError {
    /// The reason, and the key.
    pub message: String,
    /// The application's exception, if it is the cause.
    pub payload: Option<Arc<dyn std::any::Any + Send + Sync>>,
}

impl PersistenceError {
    /// An error with a message.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), payload: None }
    }
}

impl fmt::Debug for PersistenceError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "PersistenceError({:?})", self.message)
    }
}

/// Stores texts by key.
///
/// # Cancel safety
/// Any future may be dropped at any point. The stored text must then be the old one or the new one, not a part of it.
pub trait PersistenceAdapter: Send + Sync + fmt::Debug {
    /// Stores `data` under `key`; replaces an existing text.
    ///
    /// # Errors
    /// The text cannot be stored.
    fn save(&self, key: String, data: String) -> BoxFuture<'_, Result<(), PersistenceError>>;

    /// Loads the text under `key`; None if there is none.
    ///
    /// # Errors
    /// The store cannot be read.
    fn load(&self, key: String) -> BoxFuture<'_, Result<Option<String>, PersistenceError>>;

    /// Deletes the text under `key`. A missing text is not an error.
    ///
    /// # Errors
    /// The text cannot be deleted.
    fn delete(&self, key: String) -> BoxFuture<'_, Result<(), PersistenceError>>;
}
