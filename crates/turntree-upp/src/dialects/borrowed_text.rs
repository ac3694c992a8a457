//! Strings of a frame, borrowed unless they have escapes.

use std::borrow::Cow;

use serde::Deserialize;

/// A string of a frame. (serde borrows a `Cow` field, but copies the one in an `Option`.)
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub(super) struct BorrowedText<'a>(#[serde(borrow)] Cow<'a, str>);

impl BorrowedText<'_> {
    /// The text.
    pub(super) fn as_str(&self) -> &str {
        &self.0
    }

    /// Converts into an owned string.
    pub(super) fn owned(self) -> String {
        self.0.into_owned()
    }
}
