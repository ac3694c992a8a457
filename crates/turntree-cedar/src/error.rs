//! What is wrong with a file of policies.

use std::fmt::Write as _;

use cedar_policy::ffi::DetailedError;

/// What is wrong with a file of policies: where, by which rule, and what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}: {rule}{message}; {remedy}")]
pub struct CedarError {
    /// The file.
    pub file: String,
    /// The line, counted from 1.
    pub line: usize,
    /// The id of the policy and a colon, or nothing if it has none yet.
    pub rule: String,
    /// What is wrong.
    pub message: String,
    /// What to do.
    pub remedy: String,
}

impl CedarError {
    /// An error at a line of a file.
    pub(crate) fn at(file: &str, line: usize, message: impl Into<String>, remedy: impl Into<String>) -> Self {
        let (message, remedy) = (message.into(), remedy.into());
        Self { file: file.to_owned(), line, rule: String::new(), message, remedy }
    }

    /// The same error of a policy.
    pub(crate) fn of(mut self, id: &str) -> Self {
        if !id.is_empty() {
            self.rule = format!("{id}: ");
        }
        self
    }

    /// An error of Cedar's parser or validator about a statement that begins at a line.
    pub(crate) fn cedar(file: &str, line: usize, text: &str, error: &DetailedError, remedy: &str) -> Self {
        let mut message = error.message.trim().to_owned();
        let label = error.source_locations.first();
        if let Some(label) =
            label.and_then(|location| location.label.as_ref()).filter(|label| !label.is_empty())
        {
            let _ = write!(message, " ({label})");
        }
        let start = label.map_or(0, |location| location.loc.start);
        let before = text.get(..start).unwrap_or_default().matches('\n').count();
        let remedy = error.help.clone().unwrap_or_else(|| remedy.to_owned());
        Self::at(file, line.saturating_add(before), message, remedy)
    }
}
