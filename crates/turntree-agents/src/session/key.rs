//! The keys of sessions in stores of texts.

use std::fmt::Write as _;

/// Returns the key that a session is saved under: `session:` and the id in percent-encoding (RFC 3986 §2.1), so that
/// no id can be read as a path or as another key.
pub(crate) fn key_of(id: &str) -> String {
    let mut key = String::from("session:");
    for byte in id.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
            key.push(char::from(byte));
        } else {
            // Writing to a String does not fail.
            let _ = write!(key, "%{byte:02X}");
        }
    }
    key
}
