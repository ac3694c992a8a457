//! What can go wrong with many documents, and the account of what was done.
//!
//! ```text
//! BulkError
//! ├── Document   one document could not be converted, and nobody said to go on
//! ├── Io         reading or writing failed; names the file
//! ├── Exists     the file to write is there already
//! ├── Format     the format of the input cannot be told
//! └── Stopped    the observer ended it
//! ```

use std::error::Error;
use std::fmt;
use std::io;

use crate::{Issue, Severity, ThreadError};
use turntree_core::json::json_object;

/// Why an observer ended a conversion.
pub type ObserverError = Box<dyn Error + Send + Sync>;

/// Most errors that a [`Report`] lists; the rest is counted.
const LISTED: usize = 1000;

json_object! {
    /// One document that could not be converted, or one rule that it breaks.
    #[derive(Debug, Clone, PartialEq, Default)]
    pub struct DocumentIssue {
        /// The file, where there are several.
        pub path: Option<String> = "path",
        /// The line of the file, from 1.
        pub line: Option<u64> = "line",
        /// The row of the column, from 0.
        pub row: Option<u64> = "row",
        /// Where in the document, as a JSON pointer; empty for the whole.
        pub pointer: String = "pointer",
        /// The name of the rule.
        pub rule: String = "rule",
        /// What is wrong and what to do.
        pub message: String = "message",
        /// `error` or `warning`.
        pub severity: String = "severity",
    }
}

impl DocumentIssue {
    pub(super) fn of_thread_error(error: &ThreadError) -> Self {
        let pointer = error.pointer();
        let message = error.to_string();
        // The place stands in front of it already, and once is enough.
        let message = message.strip_prefix(&format!("{pointer}: ")).unwrap_or(&message);
        Self::of_rule(error.rule(), pointer, format!("{message}; {}", error.hint()))
    }

    pub(super) fn of_issue(issue: Issue) -> Self {
        let severity = issue.severity;
        let error = Self::of_rule(issue.rule.name(), issue.pointer, issue.message);
        Self { severity: severity.name().to_owned(), ..error }
    }

    pub(super) fn of_rule(rule: &str, pointer: String, message: String) -> Self {
        let severity = Severity::Error.name().to_owned();
        Self { pointer, rule: rule.to_owned(), message, severity, ..Self::default() }
    }
}

/// `file: line 3: /1/parts: what is wrong`.
impl fmt::Display for DocumentIssue {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(path) = &self.path {
            write!(formatter, "{path}: ")?;
        }
        if let Some(line) = self.line {
            write!(formatter, "line {line}: ")?;
        }
        if let Some(row) = self.row {
            write!(formatter, "row {row}: ")?;
        }
        if !self.pointer.is_empty() {
            write!(formatter, "{}: ", self.pointer)?;
        }
        formatter.write_str(&self.message)
    }
}

/// What can go wrong with many documents.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BulkError {
    /// A document could not be converted.
    #[error("{0}")]
    Document(Box<DocumentIssue>),
    /// Reading or writing failed.
    #[error("{name}: {source}")]
    Io {
        /// Which file.
        name: String,
        /// Why.
        source: io::Error,
    },
    /// The file to write is there already.
    #[error("{name} exists already; choose another name, or say that it may be overwritten")]
    Exists {
        /// Which file.
        name: String,
    },
    /// The format of the input cannot be told.
    #[error("{name}: the format cannot be told from the content; name it: one of {}", known.join(", "))]
    Format {
        /// Which input.
        name: String,
        /// The formats that can be read.
        known: Vec<&'static str>,
    },
    /// The observer ended it.
    #[error("{0}")]
    Stopped(ObserverError),
}

impl BulkError {
    /// A failure of a file.
    pub fn io(name: impl Into<String>, source: io::Error) -> Self {
        Self::Io { name: name.into(), source }
    }

    /// The name of the rule, for lists.
    pub(super) fn rule(&self) -> &'static str {
        match self {
            Self::Document(_) | Self::Stopped(_) => "invalid",
            Self::Io { .. } => "io",
            Self::Exists { .. } => "exists",
            Self::Format { .. } => "format",
        }
    }
}

json_object! {
    /// What was done.
    #[derive(Debug, Clone, PartialEq, Default)]
    pub struct Report {
        /// Documents that were converted.
        pub documents: u64 = "documents",
        /// Documents that failed.
        pub failed: u64 = "failed",
        /// Bytes of all documents that were read, after decompression.
        pub bytes_in: u64 = "bytes_in",
        /// Bytes of all documents that were written, before compression.
        pub bytes_out: u64 = "bytes_out",
        /// The first thousand errors, in order.
        pub errors: Vec<DocumentIssue> = "errors",
        /// Wall-clock time.
        pub seconds: f64 = "seconds",
    }
}

impl Report {
    pub(super) fn list(&mut self, error: &DocumentIssue) {
        if self.errors.len() < LISTED {
            self.errors.push(error.clone());
        }
    }
}
