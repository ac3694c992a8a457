//! Observers of bulk conversion: progress, and what happens to documents that fail.

use super::error::{DocumentIssue, ObserverError, Report};

/// The action after a document failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OnFailure {
    /// Stop with [`BulkError::Document`](super::BulkError::Document).
    Stop,
    /// Leave it out and continue.
    Skip,
    /// Write these bytes instead and continue.
    Replace(Vec<u8>),
}

/// Observes a conversion. All methods are called on the calling thread.
pub trait Observer {
    /// Called about twenty times a second.
    ///
    /// # Errors
    /// An error stops the conversion.
    fn tick(&mut self, so_far: &Report) -> Result<(), ObserverError>;

    /// Called for each failed document, in order. `text` is the input if
    /// [`Options::keeps_text`](super::Options::keeps_text) is set, otherwise empty.
    ///
    /// # Errors
    /// An error stops the conversion.
    fn failed(&mut self, error: &DocumentIssue, text: &[u8]) -> Result<OnFailure, ObserverError>;
}

/// An observer that stops at the first failed document.
#[derive(Debug, Clone, Copy, Default)]
pub struct StopAtFirst;

impl Observer for StopAtFirst {
    fn tick(&mut self, _so_far: &Report) -> Result<(), ObserverError> {
        Ok(())
    }

    fn failed(&mut self, _error: &DocumentIssue, _text: &[u8]) -> Result<OnFailure, ObserverError> {
        Ok(OnFailure::Stop)
    }
}
