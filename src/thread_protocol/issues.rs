//! The issues that validation of a document finds, as a Python class.

use pyo3::prelude::*;

use crate::to_python::data_class;
use turntree_core::json::{Extra, json_object};

json_object! {
    /// One place where a document breaks a rule.
    #[derive(Debug, Clone, PartialEq)]
    pub(crate) struct IssueRecord {
        /// Which rule.
        pub rule: String = "rule",
        /// Where, as a JSON pointer.
        pub pointer: String = "pointer",
        /// Description of the problem and its remedy.
        pub message: String = "message",
        /// `error` or `warning`.
        pub severity: String = "severity",
        /// How to fix the problem.
        pub remedy: String = "remedy", default,
    }
}

data_class! {
    /// One place where a document breaks a rule.
    ///
    /// Spec: ThreadProtocol 1.0.0, "Validation Rules".
    Issue as "Issue" in "turntree.thread_protocol" over IssueRecord {
        /// Which rule.
        rule,
        /// Where, as a JSON pointer.
        pointer,
        /// Description of the problem and its remedy.
        message,
        /// `error` or `warning`.
        severity,
        /// How to fix the problem.
        remedy,
    }
}

impl From<turntree_thread_protocol::Issue> for IssueRecord {
    fn from(issue: turntree_thread_protocol::Issue) -> Self {
        Self {
            rule: issue.rule.name().to_owned(),
            pointer: issue.pointer,
            message: issue.message,
            severity: issue.severity.name().to_owned(),
            remedy: issue.rule.remedy().to_owned(),
            extra: Extra::new(),
        }
    }
}
