//! Indented JSON for people.

use super::reader::{Reader, Token};

/// JSON with line breaks, and `indent` spaces for each level. Numbers and escapes do not change.
pub fn indented(text: &str, indent: usize) -> String {
    let mut out = String::with_capacity(text.len() * 2);
    let mut depth = 0_usize;
    // Whether the next token starts a new line, and whether a comma precedes it.
    let (mut first, mut after_key) = (true, true);
    for token in Reader::new(text) {
        let closes = matches!(token, Token::ObjectEnd | Token::ArrayEnd);
        depth -= usize::from(closes && depth > 0);
        let opens_line = !(after_key || closes && first);
        if opens_line {
            if !closes && !first {
                out.push(',');
            }
            out.push('\n');
            out.extend(std::iter::repeat_n(' ', depth * indent));
        }
        (first, after_key) = (false, false);
        match token {
            Token::ObjectStart | Token::ArrayStart => {
                out.push(if token == Token::ObjectStart { '{' } else { '[' });
                depth += 1;
                first = true;
            }
            Token::ObjectEnd => out.push('}'),
            Token::ArrayEnd => out.push(']'),
            Token::Key(key) => {
                out.push_str(key.quoted().as_str());
                out.push_str(": ");
                after_key = true;
            }
            Token::String(string) => out.push_str(string.quoted().as_str()),
            Token::Number(digits) => out.push_str(digits),
            Token::Bool(truth) => out.push_str(if truth { "true" } else { "false" }),
            Token::Null => out.push_str("null"),
        }
    }
    out
}
