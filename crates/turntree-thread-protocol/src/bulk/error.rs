//! Errors and reports of bulk conversions.
//!
//! ```text
//! BulkError
//! ├── Document   a document failed, and the observer did not skip it
//! ├── Io         reading or writing failed; has the file name
//! ├── Exists     the output file exists already
//! ├── Format     the input format cannot be detected
//! └── Stopped    the observer stopped the conversion
//! ```

use std::error::Error;
use std::fmt;
use std::io;

use crate::{Issue, Severity, ThreadError};
use turntree_core::json::{ParseError, json_object};

/// An error of an observer, which stops the conversion.
pub type ObserverError = Box<dyn Error + Send + Sync>;

/// The maximum number of errors in a [`Report`]; further errors are only counted.
const LISTED: usize = 1000;

json_object! {
    /// A document that could not be converted, or one rule that it breaks.
    #[derive(Debug, Clone, PartialEq, Default)]
    pub struct DocumentIssue {
        /// The path, for conversions of several files.
        pub path: Option<String> = "path",
        /// The line of the file, from 1.
        pub line: Option<u64> = "line",
        /// The row of the column, from 0.
        pub row: Option<u64> = "row",
        /// The JSON pointer in the document; empty for the whole document.
        pub pointer: String = "pointer",
        /// The name of the rule.
        pub rule: String = "rule",
        /// The problem and the remedy.
        pub message: String = "message",
        /// `error` or `warning`.
        pub severity: String = "severity",
    }
}

impl DocumentIssue {
    pub(super) fn of_thread_error(error: &ThreadError) -> Self {
        let pointer = error.pointer();
        let message = error.to_string();
        // The message starts with the pointer already.
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

/// Formats as `file: line 3: /1/parts: message`.
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

/// An error of a bulk conversion.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BulkError {
    /// A document could not be converted.
    #[error("{0}")]
    Document(Box<DocumentIssue>),
    /// Reading or writing failed.
    #[error("{name}: {source}")]
    Io {
        /// The file name.
        name: String,
        /// The cause.
        source: io::Error,
    },
    /// The output file exists already.
    #[error("{name} exists already; choose another name, or allow overwriting")]
    Exists {
        /// The file name.
        name: String,
    },
    /// The input format cannot be detected.
    #[error("{name}: {}", unknown_format(reason.as_ref(), known))]
    Format {
        /// The name of the input.
        name: String,
        /// Why the first document is not JSON. `None` if it is.
        reason: Option<ParseError>,
        /// The formats that can be read.
        known: Vec<&'static str>,
    },
    /// The observer stopped the conversion.
    #[error("{0}")]
    Stopped(ObserverError),
}

impl BulkError {
    /// Creates an I/O error with a file name.
    pub fn io(name: impl Into<String>, source: io::Error) -> Self {
        Self::Io { name: name.into(), source }
    }

    /// The name of the rule.
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
    /// The result of a bulk conversion.
    #[derive(Debug, Clone, PartialEq, Default)]
    pub struct Report {
        /// The number of converted documents.
        pub documents: u64 = "documents",
        /// The number of failed documents.
        pub failed: u64 = "failed",
        /// The number of bytes read, after decompression.
        pub bytes_in: u64 = "bytes_in",
        /// The number of bytes written, before compression.
        pub bytes_out: u64 = "bytes_out",
        /// The first 1000 errors, in order.
        pub errors: Vec<DocumentIssue> = "errors",
        /// The elapsed time in seconds.
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

/// The message for a document whose format cannot be detected.
pub(super) fn unknown_format(reason: Option<&ParseError>, known: &[&str]) -> String {
    let known = known.join(", ");
    match reason {
        Some(reason) => format!("the format cannot be detected: {reason}; or pass one of {known}"),
        None => format!("the format cannot be detected from the content; pass one of {known}"),
    }
}
