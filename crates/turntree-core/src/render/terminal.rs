//! Plain text, with or without ANSI colours.

use std::borrow::Cow;
use std::fmt::Write as _;

use super::transcript::{EntryKind, Transcript};

impl EntryKind {
    /// The parameters of the SGR sequence (ECMA-48 §8.3.117).
    const fn colour(self) -> &'static str {
        match self {
            Self::Section => "1;4",
            Self::User => "1;36",
            Self::Agent => "1;32",
            Self::Thought => "2;3",
            Self::Call => "33",
            Self::Return => "34",
            Self::Failure => "31",
            Self::System => "2",
        }
    }
}

impl Transcript {
    /// Renders text that ends with a line feed; with ANSI colours if `colours` is true.
    pub fn text(&self, colours: bool) -> String {
        let paint = |code: &str, text: &str| {
            if colours && !text.is_empty() {
                format!("\u{1b}[{code}m{text}\u{1b}[0m")
            } else {
                text.to_owned()
            }
        };
        let mut out = String::new();
        let mut line = |text: &str| {
            out.push_str(text.trim_end());
            out.push('\n');
        };
        if !self.title.is_empty() {
            line(&paint("1", &inline(&self.title)));
        }
        if !self.summary.is_empty() {
            line(&paint("2", &inline(&self.summary)));
        }
        for row in self.drawing.lines() {
            line(&harmless(row));
        }
        for entry in &self.entries {
            line("");
            let head = paint(entry.kind.colour(), &inline(&entry.head));
            let time = inline(&entry.time);
            line(&if time.is_empty() { head } else { format!("{head}  {}", paint("2", &time)) });
            for row in entry.text.lines() {
                let row = harmless(row);
                line(&format!(
                    "  {}",
                    if entry.kind == EntryKind::Thought { paint("2;3", &row) } else { row }
                ));
            }
        }
        out
    }
}

/// True for characters that control a terminal, change the direction of writing, or break a line.
fn is_control(character: char) -> bool {
    character.is_control()
        || matches!(
            character,
            '\u{061C}' | '\u{200E}' | '\u{200F}' | '\u{2028}'..='\u{202E}' | '\u{2066}'..='\u{2069}'
        )
}

/// Escapes the characters of a text that control a terminal: control characters as `\x1b`, marks that change the
/// direction of writing and line separators as `\u202e`.
///
/// ```
/// use turntree_core::render::visible;
///
/// assert_eq!(visible("\u{1b}[2J\u{202e}text"), r"\x1b[2J\u202etext");
/// ```
pub fn visible(text: &str) -> Cow<'_, str> {
    escaped(text, |_| false)
}

/// As [`visible`], for a text of many lines: line feeds and tabs remain.
pub fn visible_lines(text: &str) -> Cow<'_, str> {
    escaped(text, |character| matches!(character, '\n' | '\t'))
}

fn escaped(text: &str, remains: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.chars().any(|character| is_control(character) && !remains(character)) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        let code = u32::from(character);
        // Writing to a string does not fail.
        let _infallible = match character {
            _ if !is_control(character) || remains(character) => {
                out.push(character);
                Ok(())
            }
            _ if code < 0x100 => write!(out, "\\x{code:02x}"),
            _ => write!(out, "\\u{code:04x}"),
        };
    }
    Cow::Owned(out)
}

/// As [`visible`]; tabs become spaces.
fn harmless(text: &str) -> String {
    visible(&text.replace('\t', " ")).into_owned()
}

/// As [`harmless`], on one line.
fn inline(text: &str) -> String {
    harmless(
        &text.split([' ', '\t', '\n', '\r']).filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" "),
    )
}
