//! Partial JSON: parses the beginning of a document that is still being received.
//!
//! Spec: UPP-1.2 §17, "Partial JSON"

use super::raw::RawJson;
use crate::limits::Limits;

/// The value of an incomplete document.
#[derive(Debug, Clone, PartialEq)]
pub struct Partial {
    /// The value so far. Open strings and containers are closed; the beginning of `true`, `false` or `null` is
    /// completed. A trailing comma, a key without a value and the incomplete end of a number are omitted.
    pub value: RawJson,
    /// True if the document is complete.
    pub is_complete: bool,
}

/// Parses the beginning of a document; `None` if it does not contain a value yet.
///
/// ```
/// use turntree_core::json::partial;
///
/// let parsed = partial(r#"{"city": "Tōk"#).unwrap();
/// assert_eq!((parsed.value.get(), parsed.is_complete), (r#"{"city":"Tōk"}"#, false));
/// assert!(partial("[1, 2]").unwrap().is_complete);
/// ```
pub fn partial(text: &str) -> Option<Partial> {
    let mut json = PartialJson::default();
    json.push(text);
    json.read()
}

/// An incremental parser of one document.
///
/// [`Self::push`] reads each byte once, so the cost does not depend on the number of pieces. [`Self::read`] copies the
/// text. The text after the first syntax error is ignored, and so is the text that exceeds [`Limits::PAYLOAD`].
#[derive(Debug, Clone, Default)]
pub struct PartialJson {
    text: String,
    /// The open containers, inner ones last.
    open: Vec<Container>,
    state: State,
    /// The longest prefix of the text that is valid JSON once its open containers are closed.
    safe: usize,
    /// The number of commas, for the limit of values.
    values: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Container {
    Object,
    Array,
}

/// The parser state at the end of the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Expects a value, or the end of an empty array.
    Value { may_close: bool },
    /// Expects a key, or the end of an empty object.
    Key { may_close: bool },
    /// Expects the colon after a key.
    Colon,
    /// After a value.
    After,
    /// In a string. `solid` is the end of the last complete character.
    Text { is_key: bool, escape: Escape, solid: usize },
    /// In a number. `solid` is the end of its longest prefix that is a number, or 0.
    Number { part: Part, solid: usize },
    /// In `true`, `false` or `null`, after `at` bytes.
    Word { word: &'static str, at: usize },
    /// The text is not JSON, or exceeds a limit.
    Broken,
}

impl Default for State {
    fn default() -> Self {
        Self::Value { may_close: false }
    }
}

/// The state in an escape of a string.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Escape {
    None,
    /// After a backslash. With `surrogate` the escape must be a low surrogate.
    Started {
        surrogate: bool,
    },
    /// In the digits of a `\u` escape.
    Hex {
        digits: u8,
        code: u32,
        surrogate: bool,
    },
    /// After a high surrogate. Expects a backslash.
    Half,
}

/// The state in a number: its last character.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Minus,
    Zero,
    Whole,
    Point,
    Fraction,
    Exponent,
    Sign,
    Power,
}

impl PartialJson {
    /// Adds the next piece of the text.
    pub fn push(&mut self, piece: &str) {
        if self.state == State::Broken {
            return;
        }
        let start = self.text.len();
        if start.saturating_add(piece.len()) > Limits::PAYLOAD.bytes {
            self.stop(start);
            return;
        }
        self.text.push_str(piece);
        for (offset, byte) in piece.bytes().enumerate() {
            let place = start + offset;
            self.state = self.step(byte, place);
            if self.state == State::Broken {
                return;
            }
        }
    }

    /// The value so far; `None` if the text does not contain a value yet.
    pub fn read(&self) -> Option<Partial> {
        let (end, ending) = match self.state {
            State::Text { is_key: false, solid, .. } => (solid, "\""),
            State::Word { word, at } => (self.text.len(), word.get(at..).unwrap_or_default()),
            State::Number { solid, .. } if solid > 0 => (solid, ""),
            _ => (self.safe, ""),
        };
        let mut text = String::with_capacity(end + ending.len() + self.open.len());
        text.push_str(self.text.get(..end)?);
        text.push_str(ending);
        text.extend(self.open.iter().rev().map(|container| match container {
            Container::Object => '}',
            Container::Array => ']',
        }));
        let is_complete = self.open.is_empty()
            && match self.state {
                State::After => true,
                State::Number { solid, .. } => solid == self.text.len(),
                _ => false,
            };
        let value = RawJson::from_text(text.trim_ascii().to_owned()).ok()?;
        Some(Partial { value, is_complete })
    }

    /// Resets the parser for another document.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    /// Stops at an error: the value before `place` remains.
    fn stop(&mut self, place: usize) -> State {
        let read = match self.state {
            State::Number { solid, .. } if solid > 0 => solid,
            _ => self.safe,
        };
        self.safe = read.min(place);
        self.state = State::Broken;
        State::Broken
    }

    /// Returns the state after one more byte.
    fn step(&mut self, byte: u8, place: usize) -> State {
        let space = matches!(byte, b' ' | b'\t' | b'\n' | b'\r');
        match self.state {
            State::Value { .. } | State::Key { .. } | State::Colon | State::After if space => self.state,
            State::Value { may_close } => match byte {
                b']' if may_close => self.close(Container::Array, place),
                _ => self.begin_value(byte, place),
            },
            State::Key { may_close } => match byte {
                b'}' if may_close => self.close(Container::Object, place),
                b'"' => State::Text { is_key: true, escape: Escape::None, solid: place + 1 },
                _ => self.stop(place),
            },
            State::Colon if byte == b':' => State::Value { may_close: false },
            State::After => self.after(byte, place),
            State::Text { is_key, escape, solid } => self.in_text(is_key, escape, solid, byte, place),
            State::Number { part, .. } => self.in_number(part, byte, place),
            State::Word { word, at } if word.as_bytes().get(at) == Some(&byte) => {
                if at + 1 == word.len() {
                    self.ended(place + 1)
                } else {
                    State::Word { word, at: at + 1 }
                }
            }
            State::Colon | State::Word { .. } => self.stop(place),
            State::Broken => State::Broken,
        }
    }

    fn begin_value(&mut self, byte: u8, place: usize) -> State {
        let number = |part, solid| State::Number { part, solid };
        match byte {
            b'{' => self.open(Container::Object, place),
            b'[' => self.open(Container::Array, place),
            b'"' => State::Text { is_key: false, escape: Escape::None, solid: place + 1 },
            b'-' => number(Part::Minus, 0),
            b'0' => number(Part::Zero, place + 1),
            b'1'..=b'9' => number(Part::Whole, place + 1),
            b't' => State::Word { word: "true", at: 1 },
            b'f' => State::Word { word: "false", at: 1 },
            b'n' => State::Word { word: "null", at: 1 },
            _ => self.stop(place),
        }
    }

    fn open(&mut self, container: Container, place: usize) -> State {
        if self.open.len() >= Limits::PAYLOAD.depth {
            return self.stop(place);
        }
        self.open.push(container);
        self.safe = place + 1;
        match container {
            Container::Object => State::Key { may_close: true },
            Container::Array => State::Value { may_close: true },
        }
    }

    fn close(&mut self, container: Container, place: usize) -> State {
        if self.open.last() != Some(&container) {
            return self.stop(place);
        }
        self.open.pop();
        self.ended(place + 1)
    }

    /// Ends a value; `end` is the offset after it.
    const fn ended(&mut self, end: usize) -> State {
        self.safe = end;
        State::After
    }

    fn after(&mut self, byte: u8, place: usize) -> State {
        match (byte, self.open.last()) {
            (b',', Some(container)) if self.values < Limits::PAYLOAD.values => {
                self.values += 1;
                match container {
                    Container::Object => State::Key { may_close: false },
                    Container::Array => State::Value { may_close: false },
                }
            }
            (b'}', Some(_)) => self.close(Container::Object, place),
            (b']', Some(_)) => self.close(Container::Array, place),
            _ => self.stop(place),
        }
    }

    fn in_text(&mut self, is_key: bool, escape: Escape, solid: usize, byte: u8, place: usize) -> State {
        let at = |escape, solid| State::Text { is_key, escape, solid };
        match (escape, byte) {
            (Escape::None, b'"') if is_key => State::Colon,
            (Escape::None, b'"') => self.ended(place + 1),
            (Escape::None, b'\\') => at(Escape::Started { surrogate: false }, solid),
            // A piece is a `str`, so it never ends within a character.
            (Escape::None, 0x20..)
            | (
                Escape::Started { surrogate: false },
                b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't',
            ) => at(Escape::None, place + 1),
            (Escape::Half, b'\\') => at(Escape::Started { surrogate: true }, solid),
            (Escape::Started { surrogate }, b'u') => at(Escape::Hex { digits: 0, code: 0, surrogate }, solid),
            (Escape::Hex { digits, code, surrogate }, _) => {
                let Some(digit) = char::from(byte).to_digit(16) else { return self.stop(place) };
                let code = code * 16 + digit;
                match (digits, surrogate, code) {
                    (0..=2, ..) => at(Escape::Hex { digits: digits + 1, code, surrogate }, solid),
                    (_, false, 0xd800..=0xdbff) => at(Escape::Half, solid),
                    (_, false, 0xdc00..=0xdfff) | (_, true, 0..=0xdbff | 0xe000..) => self.stop(place),
                    _ => at(Escape::None, place + 1),
                }
            }
            (Escape::None | Escape::Half | Escape::Started { .. }, _) => self.stop(place),
        }
    }

    fn in_number(&mut self, part: Part, byte: u8, place: usize) -> State {
        let next = match (part, byte) {
            (Part::Minus, b'0') => Part::Zero,
            (Part::Minus, b'1'..=b'9') | (Part::Whole, b'0'..=b'9') => Part::Whole,
            (Part::Zero | Part::Whole, b'.') => Part::Point,
            (Part::Point | Part::Fraction, b'0'..=b'9') => Part::Fraction,
            (Part::Zero | Part::Whole | Part::Fraction, b'e' | b'E') => Part::Exponent,
            (Part::Exponent, b'+' | b'-') => Part::Sign,
            (Part::Exponent | Part::Sign | Part::Power, b'0'..=b'9') => Part::Power,
            (Part::Zero | Part::Whole | Part::Fraction | Part::Power, _) => {
                self.state = self.ended(place);
                return self.step(byte, place);
            }
            _ => return self.stop(place),
        };
        let State::Number { solid, .. } = self.state else { return self.stop(place) };
        let is_number = matches!(next, Part::Zero | Part::Whole | Part::Fraction | Part::Power);
        State::Number { part: next, solid: if is_number { place + 1 } else { solid } }
    }
}
