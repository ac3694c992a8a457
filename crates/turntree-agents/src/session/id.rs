//! Which texts are session ids.
//!
//! Spec: decision A70.

/// The maximum length of a session id, in characters.
pub const MAX_ID_LENGTH: usize = 200;

/// Returns true for a text of 1 to [`MAX_ID_LENGTH`] printable characters: no control or format characters, no
/// whitespace except the space, no unassigned or private code points.
pub fn is_session_id(text: &str) -> bool {
    !text.is_empty() && text.chars().count() <= MAX_ID_LENGTH && is_printable(text)
}

/// The standard library escapes the characters that are not printable, and also quotes, backslashes and a combining
/// mark at the start.
fn is_printable(text: &str) -> bool {
    let unquoted = text.chars().filter(|character| !matches!(character, '"' | '\'' | '\\'));
    let text: String = std::iter::once('a').chain(unquoted).collect();
    text.escape_debug().eq(text.chars())
}
