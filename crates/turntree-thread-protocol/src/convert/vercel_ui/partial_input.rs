//! Partial JSON of streaming arguments, parsed as the client parses it.
//!
//! The client completes incomplete JSON with its own state machine and shows nothing if the result is invalid. This is
//! the same state machine. [`PartialJson`](turntree_core::json::PartialJson) accepts more inputs.
//!
//! Spec: UI message stream, §3.

use super::chunk::without_prototypes;
use crate::convert::surrogates::mended;
use turntree_core::json::{RawJson, parse};
use turntree_core::limits::Limits;

/// The state of the parser: inside a value, or between the elements of a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ParserState {
    Root,
    Finish,
    ObjectStart,
    ObjectKey,
    AfterKey,
    BeforeMember,
    AfterMember,
    MemberComma,
    ArrayStart,
    AfterElement,
    ElementComma,
    Text,
    Escape,
    Unicode,
    Number,
    Word,
}

/// JSON literals, in the order in which the client completes them.
const LITERALS: [&str; 3] = ["true", "false", "null"];

/// The text of streaming arguments. Each character is scanned once.
#[derive(Debug, Clone)]
pub(super) struct PartialInput {
    text: String,
    stack: Vec<ParserState>,
    /// The end of the longest prefix that can be completed.
    valid: usize,
    /// Digits of the open `\u` escape.
    digits: u8,
    /// The start of the open literal.
    word: usize,
}

impl Default for PartialInput {
    fn default() -> Self {
        Self { text: String::new(), stack: vec![ParserState::Root], valid: 0, digits: 0, word: 0 }
    }
}

impl PartialInput {
    /// The text as received.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// Appends text.
    pub(super) fn push(&mut self, piece: &str) {
        let before = self.text.len();
        self.text.push_str(piece);
        for (offset, character) in piece.char_indices() {
            let start = before + offset;
            // JavaScript counts UTF-16 code units.
            for _ in 0..character.len_utf16() {
                self.step(character, start, start + character.len_utf8());
            }
        }
    }

    /// The value that the client shows.
    pub(super) fn read(&self) -> Option<RawJson> {
        let read = |text: &str| {
            let value = parse::<RawJson>(&mended(text.trim_ascii()), &Limits::PAYLOAD).ok();
            // The client rejects objects with prototype members.
            value.filter(|value| without_prototypes(value).is_none())
        };
        let is_whole = match self.stack.as_slice() {
            [.., ParserState::Finish] | [ParserState::Finish, ParserState::Number | ParserState::Word] => {
                read(&self.text)
            }
            _ => None,
        };
        is_whole.or_else(|| read(&self.closed()))
    }

    /// The text with all open containers closed.
    fn closed(&self) -> String {
        let mut closed = self.text.get(..self.valid).unwrap_or_default().to_owned();
        for index in self.stack.iter().rev() {
            closed.push_str(match index {
                ParserState::Text => "\"",
                ParserState::ObjectKey
                | ParserState::AfterKey
                | ParserState::MemberComma
                | ParserState::ObjectStart
                | ParserState::BeforeMember
                | ParserState::AfterMember => "}",
                ParserState::ArrayStart | ParserState::ElementComma | ParserState::AfterElement => "]",
                ParserState::Word => self.rest_of_word(),
                _ => "",
            });
        }
        closed
    }

    fn rest_of_word(&self) -> &'static str {
        let begun = self.text.get(self.word..).unwrap_or_default();
        LITERALS.iter().find_map(|word| word.strip_prefix(begun)).unwrap_or_default()
    }

    fn go(&mut self, index: ParserState) {
        self.stack.pop();
        self.stack.push(index);
    }

    fn leave(&mut self, end: usize) {
        self.valid = end;
        self.stack.pop();
    }

    fn step(&mut self, character: char, start: usize, end: usize) {
        let Some(index) = self.stack.last().copied() else { return };
        match (index, character) {
            (ParserState::Root, _) => self.begin(character, start, end, ParserState::Finish),
            (ParserState::ObjectStart | ParserState::MemberComma, '"') => self.go(ParserState::ObjectKey),
            (ParserState::ObjectStart, '}')
            | (ParserState::ArrayStart | ParserState::AfterElement, ']')
            | (ParserState::Text, '"') => self.leave(end),
            (ParserState::ObjectKey, '"') => self.go(ParserState::AfterKey),
            (ParserState::AfterKey, ':') => self.go(ParserState::BeforeMember),
            (ParserState::BeforeMember, _) => self.begin(character, start, end, ParserState::AfterMember),
            (ParserState::AfterMember, _) => self.after_member(character, end),
            (ParserState::ArrayStart | ParserState::ElementComma, _) => {
                self.begin(character, start, end, ParserState::AfterElement);
            }
            (ParserState::AfterElement, ',') => self.go(ParserState::ElementComma),
            (ParserState::Text, '\\') => self.stack.push(ParserState::Escape),
            (ParserState::Escape, 'u') => {
                self.digits = 0;
                self.go(ParserState::Unicode);
            }
            (ParserState::Escape, _) => self.leave(end),
            (ParserState::Unicode, digit) if digit.is_ascii_hexdigit() => {
                self.digits += 1;
                if self.digits == 4 {
                    self.leave(end);
                }
            }
            (ParserState::AfterElement | ParserState::Text, _) => self.valid = end,
            (ParserState::Number, _) => self.in_number(character, end),
            (ParserState::Word, _) => self.in_word(character, end),
            _ => {}
        }
    }

    /// Starts a value if the character can start one; `then` is the state after the value.
    fn begin(&mut self, character: char, start: usize, end: usize, then: ParserState) {
        let value = match character {
            '"' => ParserState::Text,
            'f' | 't' | 'n' => ParserState::Word,
            '-' | '0'..='9' => ParserState::Number,
            '{' => ParserState::ObjectStart,
            '[' => ParserState::ArrayStart,
            _ => return,
        };
        if character != '-' {
            self.valid = end;
        }
        self.word = start;
        self.go(then);
        self.stack.push(value);
    }

    fn after_member(&mut self, character: char, end: usize) {
        match character {
            ',' => self.go(ParserState::MemberComma),
            '}' => self.leave(end),
            _ => {}
        }
    }

    fn after_element(&mut self, character: char, end: usize) {
        match character {
            ',' => self.go(ParserState::ElementComma),
            ']' => self.leave(end),
            _ => {}
        }
    }

    fn in_number(&mut self, character: char, end: usize) {
        match character {
            '0'..='9' => self.valid = end,
            'e' | 'E' | '-' | '.' => {}
            _ => {
                self.stack.pop();
                match (self.stack.last(), character) {
                    (Some(ParserState::AfterElement), ',' | ']') => self.after_element(character, end),
                    (Some(ParserState::AfterMember), ',' | '}') => self.after_member(character, end),
                    _ => {}
                }
            }
        }
    }

    fn in_word(&mut self, character: char, end: usize) {
        let begun = self.text.get(self.word..end).unwrap_or_default();
        if LITERALS.iter().any(|word| word.starts_with(begun)) {
            self.valid = end;
            return;
        }
        self.stack.pop();
        match self.stack.last() {
            Some(ParserState::AfterMember) => self.after_member(character, end),
            Some(ParserState::AfterElement) => self.after_element(character, end),
            _ => {}
        }
    }
}
