//! A conversation for people: paragraphs with who said them, as text for a terminal or as a page.
//!
//! What is shown comes from outside. Text loses everything that a terminal would obey and that changes the direction of
//! writing; in HTML every character that means something is escaped, and the page loads and runs nothing.

use std::fmt::Write as _;

/// A conversation to be shown.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Transcript {
    /// Its title.
    pub title: String,
    /// What else is said of the whole, in one line.
    pub summary: String,
    /// A drawing that stands before everything else, as of a tree.
    pub drawing: String,
    /// What was said and done, in order.
    pub entries: Vec<Entry>,
}

/// What kind of thing an entry is: its colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryKind {
    /// The beginning of a part, as a branch.
    Section,
    /// A person speaks.
    User,
    /// An agent speaks.
    Agent,
    /// An agent thinks.
    Thought,
    /// A tool is called.
    Call,
    /// A tool answers.
    Return,
    /// Something failed.
    Failure,
    /// Everything else.
    System,
}

/// One thing that was said or done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its kind.
    pub kind: EntryKind,
    /// Who, and what they do: `Ann`, `Ann calls weather`.
    pub head: String,
    /// When; empty where nobody knows.
    pub time: String,
    /// What was said. May have many lines.
    pub text: String,
}

impl EntryKind {
    /// Its name in the page's style sheet.
    const fn name(self) -> &'static str {
        match self {
            Self::Section => "section",
            Self::User => "user",
            Self::Agent => "agent",
            Self::Thought => "thought",
            Self::Call => "call",
            Self::Return => "return",
            Self::Failure => "failure",
            Self::System => "system",
        }
    }

    /// Its colour: parameters of an SGR sequence (ECMA-48 §8.3.117).
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
    /// The transcript as text, with a line end at its end; `colours` for a terminal.
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

    /// The transcript as a page that needs nothing else.
    pub fn html(&self) -> String {
        let mut out = String::from(HEAD);
        let title = escaped(&self.title);
        let mut put = |pieces: std::fmt::Arguments<'_>| {
            // Writing to a string does not fail.
            let _infallible = out.write_fmt(pieces);
        };
        put(format_args!(
            "<title>{title}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<h1>{title}</h1>\n"
        ));
        put(format_args!("<p class=\"summary\">{}</p>\n", escaped(&self.summary)));
        put(format_args!("<pre class=\"drawing\">{}</pre>\n", escaped(&self.drawing)));
        for entry in &self.entries {
            let (head, time) = (escaped(&entry.head), escaped(&entry.time));
            put(format_args!(
                "<article class=\"{}\">\n<header>{head} <time>{time}</time></header>\n",
                entry.kind.name()
            ));
            put(format_args!("<pre>{}</pre>\n</article>\n", escaped(&entry.text)));
        }
        out.push_str("</body>\n</html>\n");
        out
    }
}

/// No script, no frame, nothing from anywhere: whatever slips into the text, the browser will not act on it.
const HEAD: &str = "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
    <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
    <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n";

const STYLE: &str = "\
:root{color-scheme:light dark}\
body{font:15px/1.5 system-ui,sans-serif;max-width:52rem;margin:2rem auto;padding:0 1rem}\
h1{font-size:1.3rem;margin:0}:empty{display:none}.summary,time{opacity:.65;font-size:.85rem;font-weight:400}\
article{margin:.9rem 0;padding:.2rem .9rem;border-left:3px solid #8888}\
header{font-weight:600}pre{font:inherit;white-space:pre-wrap;overflow-wrap:anywhere;margin:.2rem 0}\
.drawing,.call pre,.return pre,.failure pre{font:13px/1.4 ui-monospace,monospace}\
.user{border-color:#0891b2}.agent{border-color:#16a34a}.call{border-color:#ca8a04}.return{border-color:#2563eb}\
.failure{border-color:#dc2626}.thought,.system{opacity:.75}.section{border:0;padding:0;margin-top:2rem;font-size:1.1rem}";

/// Text without what a terminal would obey, and without marks that change the direction of writing.
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

/// Text in which nothing is markup.
pub fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\0' => out.push('\u{FFFD}'),
            _ => out.push(character),
        }
    }
    out
}
