//! The persistence port: stores texts by key.
//!
//! Spec: UAP-1.0 §14.2

use std::fmt;
use std::sync::Arc;

use futures_util::future::BoxFuture;

/// What a caller can do about the error of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PersistenceErrorKind {
    /// Another writer has changed the stored data: load it again.
    Conflict,
    /// Another writer has deleted the stored data.
    Deleted,
    /// The stored data cannot be read.
    Corrupt,
    /// Another reason.
    #[default]
    Other,
}

/// The error of a store.
#[derive(Clone, thiserror::Error)]
#[error("{message}")]
pub struct PersistenceError {
    /// What a caller can do about it.
    pub kind: PersistenceErrorKind,
    /// The reason, and the key.
    pub message: String,
    /// The application's exception, if it is the cause.
    pub payload: Option<Arc<dyn std::any::Any + Send + Sync>>,
}

impl PersistenceError {
    /// An error with a message.
    pub fn new(message: impl Into<String>) -> Self {
        Self { kind: PersistenceErrorKind::Other, message: message.into(), payload: None }
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

    /// True if [`Self::compare_and_save`] works.
    fn compares(&self) -> bool {
        false
    }

    /// Stores `data` under `key` if the text there is `expected`; `None` means that there is no text. Returns false, and
    /// changes nothing, if it is another one.
    ///
    /// # Errors
    /// The text cannot be stored, or the store cannot compare.
    fn compare_and_save(
        &self,
        key: String,
        expected: Option<String>,
        data: String,
    ) -> BoxFuture<'_, Result<bool, PersistenceError>> {
        let _ = (expected, data);
        let message = format!("the store of \"{key}\" does not compare texts");
        Box::pin(std::future::ready(Err(PersistenceError::new(message))))
    }

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
