//! Where texts are kept by key: what a session needs of a store, and no more. UAP-1.0 §14.2.

use std::fmt;
use std::sync::Arc;

use futures_util::future::BoxFuture;

/// A store that failed.
#[derive(Clone, thiserror::Error)]
#[error("{message}")]
pub struct PersistenceError {
    /// What went wrong, and with which key.
    pub message: String,
    /// The application's own exception, where that is the cause.
    pub payload: Option<Arc<dyn std::any::Any + Send + Sync>>,
}

impl PersistenceError {
    /// An error in words.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), payload: None }
    }
}

impl fmt::Debug for PersistenceError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "PersistenceError({:?})", self.message)
    }
}

/// Keeps texts by key.
///
/// # Cancel safety
/// Any future may be dropped at any point. A text must then be the old one or the new one, never a part of it.
pub trait PersistenceAdapter: Send + Sync + fmt::Debug {
    /// Keeps `data` under `key`, in place of what was there.
    ///
    /// # Errors
    /// When it cannot be kept.
    fn save(&self, key: String, data: String) -> BoxFuture<'_, Result<(), PersistenceError>>;

    /// What is kept under `key`; `None` when there is nothing.
    ///
    /// # Errors
    /// When that cannot be told.
    fn load(&self, key: String) -> BoxFuture<'_, Result<Option<String>, PersistenceError>>;

    /// Takes away what is kept under `key`; nothing there is no error.
    ///
    /// # Errors
    /// When it cannot be taken away.
    fn delete(&self, key: String) -> BoxFuture<'_, Result<(), PersistenceError>>;
}
