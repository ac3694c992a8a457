//! An HTML page without external resources.

use std::fmt::Write as _;

use super::transcript::{EntryKind, Transcript};

/// The content security policy forbids scripts, frames and external resources.
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

impl EntryKind {
    /// The class in the style sheet.
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
}

impl Transcript {
    /// Renders a self-contained HTML page.
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

/// Escapes text for HTML.
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
