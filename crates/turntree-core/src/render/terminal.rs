//! Plain text, with or without ANSI colours.

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

/// Replaces control characters, and marks that change the direction of writing, with U+FFFD.
fn harmless(text: &str) -> String {
    text.chars()
        .map(|character| match character {
            '\t' => ' ',
            _ if character.is_control()
                || matches!(character, '\u{200E}' | '\u{200F}' | '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}') =>
            {
                '\u{FFFD}'
            }
            _ => character,
        })
        .collect()
}

/// As [`harmless`], on one line.
fn inline(text: &str) -> String {
    harmless(&text.split_whitespace().collect::<Vec<_>>().join(" "))
}
