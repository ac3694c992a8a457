//! The issues that validation of a document finds, as a Python class.

use crate::prelude::*;

use crate::to_python::data_class;
use turntree_thread_protocol::IssueRecord;

data_class! {
    /// One rule violation of a document.
    ///
    /// Spec: ThreadProtocol 1.0.0, "Validation Rules".
    Issue as "Issue" in "turntree.thread_protocol" over IssueRecord {
        /// The name of the rule, such as "sequence".
        rule,
        /// JSON pointer to the problem.
        pointer,
        /// Description of the problem and its remedy.
        message,
        /// `error` or `warning`.
        severity,
        /// How to fix the problem.
        remedy,
    }
}
