//! Renders conversations as text for a terminal and as an HTML page, and JSON objects in short.
//!
//! The content is untrusted. Text output contains no control characters and no marks that change the direction of
//! writing; they are escaped. HTML output escapes every character with a meaning in HTML, and the page loads and runs nothing.

mod html;
mod object;
mod terminal;
mod transcript;

pub use self::html::escaped;
pub use self::object::ObjectSummary;
pub use self::terminal::{visible, visible_lines};
pub use self::transcript::{EntryKind, Transcript, TranscriptEntry};
