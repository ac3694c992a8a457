//! Secrets: API keys and tokens, which must not be shown.
//!
//! Spec: UPP-1.2 §13.1, §18

use std::fmt;
use std::sync::Arc;

/// Keys of at most this length are masked completely.
const SHOWN_FROM: usize = 8;

/// A text that must not appear in logs, errors, reprs or stored JSON.
///
/// Cloning shares the text. `Debug` prints `***`; `Display` prints a [`mask`] by which two keys can be distinguished.
/// Only [`Secret::expose`] returns the text, so that every use is easy to find.
///
/// ```
/// use turntree_core::secret::Secret;
///
/// let key = Secret::from("sk-live-0123456789");
/// assert_eq!(format!("{key:?} {key}"), "*** sk-l...6789");
/// assert_eq!(key.expose(), "sk-live-0123456789");
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Secret(Arc<str>);

impl Secret {
    /// Wraps a text.
    pub fn new(text: impl Into<Arc<str>>) -> Self {
        Self(text.into())
    }

    /// The text itself; do not print it.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// True if the text is empty or white space, as for an environment variable that is set but blank.
    pub fn is_empty(&self) -> bool {
        self.0.trim().is_empty()
    }
}

impl From<&str> for Secret {
    fn from(text: &str) -> Self {
        Self(text.into())
    }
}

impl From<String> for Secret {
    fn from(text: String) -> Self {
        Self(text.into())
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("***")
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&mask(&self.0))
    }
}

/// Masks a key: `***` for up to eight characters, else its first and last four characters around `...`.
///
/// ```
/// use turntree_core::secret::mask;
///
/// assert_eq!(mask("12345678"), "***");
/// assert_eq!(mask("123456789"), "1234...6789");
/// ```
pub fn mask(text: &str) -> String {
    let length = text.chars().count();
    if length <= SHOWN_FROM {
        return "***".to_owned();
    }
    let first: String = text.chars().take(4).collect();
    let last: String = text.chars().skip(length - 4).collect();
    format!("{first}...{last}")
}
