//! The statements of a file. Cedar's parser and evaluator recurse over nested expressions, so deep ones are refused before.

use crate::error::CedarError;

/// The largest file, in bytes.
const MAX_FILE: usize = 256 * 1024;

/// The most brackets around a place.
const MAX_DEPTH: usize = 32;

/// The most words and operators of a statement. Texts and commas do not count, so that a set may have many members.
const MAX_PARTS: usize = 2_000;

/// A statement with its comments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Statement<'a> {
    /// Its text, with the semicolon.
    pub text: &'a str,
    /// The line of its first character.
    pub line: usize,
}

/// Where a place of a file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Within {
    Code,
    Word,
    Text,
    Comment,
}

/// Splits a file at its semicolons.
pub(crate) fn split<'a>(file: &str, text: &'a str) -> Result<Vec<Statement<'a>>, CedarError> {
    if text.len() > MAX_FILE {
        let message = format!("the file has {} bytes, {MAX_FILE} at most", text.len());
        return Err(CedarError::at(file, 1, message, "split it"));
    }
    let mut found = Vec::new();
    let mut scan = Scan::new(file);
    let mut is_escaped = false;
    for (at, byte) in text.bytes().enumerate() {
        let next = text.as_bytes().get(at + 1);
        match scan.within {
            Within::Text if is_escaped => is_escaped = false,
            Within::Text if byte == b'\\' => is_escaped = true,
            Within::Text if byte == b'"' => scan.within = Within::Code,
            Within::Comment if byte == b'\n' || byte == b'\r' => scan.within = Within::Code,
            Within::Text | Within::Comment => {}
            Within::Code | Within::Word => {
                if scan.code(byte, next.copied())? {
                    found.push(scan.end(text, at + 1));
                }
            }
        }
        scan.line += usize::from(byte == b'\n');
    }
    if scan.has_code {
        found.push(scan.end(text, text.len()));
    }
    Ok(found)
}

/// The state of a pass over a file.
#[derive(Debug)]
struct Scan<'a> {
    file: &'a str,
    within: Within,
    line: usize,
    depth: usize,
    parts: usize,
    has_code: bool,
    start: usize,
    start_line: usize,
}

impl<'a> Scan<'a> {
    fn new(file: &'a str) -> Self {
        let (line, start_line) = (1, 1);
        Self { file, within: Within::Code, line, depth: 0, parts: 0, has_code: false, start: 0, start_line }
    }

    /// Reads a byte outside of texts and comments. True if it ends a statement.
    fn code(&mut self, byte: u8, next: Option<u8>) -> Result<bool, CedarError> {
        let was_word = self.within == Within::Word;
        self.within = Within::Code;
        match byte {
            b'"' => self.within = Within::Text,
            b'/' if next == Some(b'/') => {
                self.within = Within::Comment;
                return Ok(false);
            }
            b';' => return Ok(true),
            b',' => {}
            _ if byte.is_ascii_whitespace() => return Ok(false),
            _ if byte.is_ascii_alphanumeric() || byte == b'_' || !byte.is_ascii() => {
                self.within = Within::Word;
                self.parts += usize::from(!was_word);
            }
            _ => {
                self.parts += 1;
                match byte {
                    b'(' | b'[' | b'{' => self.depth += 1,
                    b')' | b']' | b'}' => self.depth = self.depth.saturating_sub(1),
                    _ => {}
                }
            }
        }
        self.has_code = true;
        let limits = [
            (self.depth, MAX_DEPTH, "brackets around one place"),
            (self.parts, MAX_PARTS, "words and operators in one policy"),
        ];
        match limits.iter().find(|(count, most, _)| count > most) {
            Some((_, most, what)) => {
                let message = format!("more than {most} {what}");
                Err(CedarError::at(self.file, self.line, message, "split the policy"))
            }
            None => Ok(false),
        }
    }

    /// Ends a statement before a byte.
    fn end<'b>(&mut self, text: &'b str, end: usize) -> Statement<'b> {
        let statement =
            Statement { text: text.get(self.start..end).unwrap_or_default(), line: self.start_line };
        (self.start, self.start_line) = (end, self.line);
        (self.depth, self.parts, self.has_code) = (0, 0, false);
        statement
    }
}
