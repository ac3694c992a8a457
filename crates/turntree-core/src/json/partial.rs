//! JSON that is still arriving: what can be read of a document before it is whole. UPP-1.2 §17, "Partial JSON".

use super::raw::RawJson;
use crate::limits::Limits;

/// What could be read of a document so far.
#[derive(Debug, Clone, PartialEq)]
pub struct Partial {
    /// A value that the whole document goes on from: strings and containers that are open are closed, a comma, a key
    /// without a value and a number's unfinished tail are left out, the beginning of `true`, `false` or `null` is
    /// taken for the word.
    pub value: RawJson,
    /// Whether the text is a whole document.
    pub is_complete: bool,
}

/// Reads the beginning of a document; `None` before there is anything to read.
///
/// ```
/// use turntree_core::json::partial;
///
/// let read = partial(r#"{"city": "Tōk"#).unwrap();
/// assert_eq!((read.value.get(), read.is_complete), (r#"{"city": "Tōk"}"#, false));
/// assert!(partial("[1, 2]").unwrap().is_complete);
/// ```
pub fn partial(text: &str) -> Option<Partial> {
    let mut json = PartialJson::default();
    json.push(text);
    json.read()
}

/// A document that arrives in pieces.
///
/// [`Self::push`] looks at each byte once, so that a stream costs what its text costs, however many pieces it comes in;
/// [`Self::read`] costs one copy of the text. Text that is no JSON is read up to its first error, and what comes after
/// it is dropped; so is what passes [`Limits::PAYLOAD`].
#[derive(Debug, Clone, Default)]
pub struct PartialJson {
    text: String,
    /// The containers that are open.
    open: Vec<Container>,
    state: State,
    /// Up to here the text, with what is open closed, is a reading.
    safe: usize,
    values: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Container {
    Object,
    Array,
}

/// Where in a document the text ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// A value comes next; in an array that was just opened also its end.
    Value { may_close: bool },
    /// A key comes next; in an object that was just opened also its end.
    Key { may_close: bool },
    /// The colon after a key.
    Colon,
    /// After a value.
    After,
    /// In a string. `solid` is the end of the last whole character.
    Text { is_key: bool, escape: Escape, solid: usize },
    /// In a number. `solid` is the end of its last prefix that is a number, 0 for none.
    Number { part: Part, solid: usize },
    /// In a word, at this place of it.
    Word { word: &'static str, at: usize },
    /// The text is no JSON, or too much of it.
    Broken,
}

impl Default for State {
    fn default() -> Self {
        Self::Value { may_close: false }
    }
}

/// Where in an escape of a string the text ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Escape {
    None,
    /// After a backslash; `surrogate`: the second half of a pair must follow.
    Started {
        surrogate: bool,
    },
    /// In the digits of `\u`.
    Hex {
        digits: u8,
        code: u32,
        surrogate: bool,
    },
    /// A first half of a pair stands; a backslash must follow.
    Half,
}

/// Where in a number the text ends.
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
    /// Takes the next piece.
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

    /// What can be read so far; `None` before there is anything.
    pub fn read(&self) -> Option<Partial> {
        let (kept, ending) = match self.state {
            State::Text { is_key: false, solid, .. } => (solid, "\""),
            State::Word { word, at } => (self.text.len(), word.get(at..).unwrap_or_default()),
            State::Number { solid, .. } if solid > 0 => (solid, ""),
            _ => (self.safe, ""),
        };
        let mut text = String::with_capacity(kept + ending.len() + self.open.len());
        text.push_str(self.text.get(..kept)?);
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

    /// Forgets everything; the next piece begins another document.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    /// Leaves what could be read before `place`.
    fn stop(&mut self, place: usize) -> State {
        let read = match self.state {
            State::Number { solid, .. } if solid > 0 => solid,
            _ => self.safe,
        };
        self.safe = read.min(place);
        self.state = State::Broken;
        State::Broken
    }

    /// One byte further.
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

    /// A value has ended before `end`.
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
            // Pieces are whole characters, so a byte within one is never the last that is looked at.
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
