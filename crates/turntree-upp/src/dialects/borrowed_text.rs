//! Strings of a frame, borrowed from it wherever they have no escapes.

use std::borrow::Cow;

use serde::Deserialize;

/// A string of a frame. (serde borrows a bare `Cow` field, but copies the one in an `Option`.)
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub(super) struct BorrowedText<'a>(#[serde(borrow)] Cow<'a, str>);

impl BorrowedText<'_> {
    /// The text.
    pub(super) fn as_str(&self) -> &str {
        &self.0
    }

    /// A copy that is kept.
    pub(super) fn owned(self) -> String {
        self.0.into_owned()
    }
}
