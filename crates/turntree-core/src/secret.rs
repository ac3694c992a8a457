//! Secrets: API keys and tokens, which may be used but never shown. UPP-1.2 §13.1, §18.

use std::fmt;
use std::sync::Arc;

/// Keys of at most this many characters are hidden whole; four and four of them would be most of it.
const SHOWN_FROM: usize = 8;

/// A text that must not reach logs, errors, reprs or stored JSON.
///
/// Cloning shares the text. `Debug` always prints `***`; `Display` prints a mask that lets a person tell
/// two keys apart (see [`mask`]). The only way to the text is [`Secret::expose`], so that every use is
/// easy to find.
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

    /// Whether there is nothing in it, as with a variable that is set but blank.
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

/// What may be shown of a key: `***` for up to eight characters, else its first and last four around `...`.
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
