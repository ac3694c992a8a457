//! Observers of bulk conversion: progress, and what happens to documents that fail.

use super::error::{DocumentIssue, ObserverError, Report};

/// What to do about a document that could not be converted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OnFailure {
    /// End with [`BulkError::Document`](super::BulkError::Document).
    Stop,
    /// Leave it out and go on.
    Skip,
    /// Write these bytes in its place and go on.
    Replace(Vec<u8>),
}

/// Who watches a conversion. Called on the calling thread only.
pub trait Observer {
    /// Called about twenty times a second.
    ///
    /// # Errors
    /// What it returns ends the conversion.
    fn tick(&mut self, so_far: &Report) -> Result<(), ObserverError>;

    /// Called for each document that failed, in order. `text` is what was read, where [`Options::keeps_text`](super::Options::keeps_text) asks for it.
    ///
    /// # Errors
    /// What it returns ends the conversion.
    fn failed(&mut self, error: &DocumentIssue, text: &[u8]) -> Result<OnFailure, ObserverError>;
}

/// An observer that lets nothing pass: the first document that fails ends the conversion.
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
