//! Writes canonical JSON, from a text or from a value with [`Serialize`].

use std::cmp::Ordering;

use serde::Serialize;

use super::canonical::{CanonicalForm, PROTOTYPE, by_utf16, number, write_raw_string, write_string};
use super::canonical_serializer::CanonicalSerializer;
use super::reader::{RawString, Reader, Token};
use super::scan::{is_ascii_without_escapes, prefix};

/// The key of a member of the outermost object, and a function that writes another value in its place.
pub type MemberOverride<'i> = (&'i str, &'i mut dyn FnMut(&mut Vec<u8>));

/// Writes the canonical form of values. Its buffers are used again for the next value.
///
/// Members are written in the order in which they come; at the end of an object they are sorted if necessary.
#[derive(Debug)]
pub struct CanonicalWriter {
    form: CanonicalForm,
    /// The open containers, inner ones last.
    open: Vec<OpenContainer>,
    /// The members of the open objects, inner ones last.
    members: Vec<Member>,
    /// A copy of the members of an object while they are sorted.
    moved: Vec<u8>,
}

/// A container that is being written.
#[derive(Debug)]
struct OpenContainer {
    /// The index of its first member in `CanonicalWriter::members`; `None` for an array.
    members: Option<usize>,
    /// The offset in the output after its opening bracket.
    start: usize,
    /// True if the members so far are in order and none is omitted.
    sorted: bool,
}

/// A written member, as offsets in the output; its range excludes the commas.
#[derive(Debug, Clone, Copy)]
struct Member {
    start: usize,
    /// The offset after the quotes of the key.
    key_end: usize,
    end: usize,
    /// True if the written key is ASCII without escapes, so that its bytes have the order of its UTF-16 code units.
    is_plain: bool,
    /// The first bytes of the key.
    prefix: u64,
}

impl Member {
    /// The written key without its quotes. `output` starts at the offset `base`.
    fn key<'o>(&self, output: &'o [u8], base: usize) -> &'o [u8] {
        output.get(self.start + 1 - base..self.key_end - 1 - base).unwrap_or_default()
    }

    #[inline]
    fn order(&self, other: &Self, output: &[u8], base: usize) -> Ordering {
        let is_plain = self.is_plain && other.is_plain;
        if is_plain && self.prefix != other.prefix {
            return self.prefix.cmp(&other.prefix);
        }
        let (one, two) = (self.key(output, base), other.key(output, base));
        if is_plain {
            return one.cmp(two);
        }
        by_utf16(&code_points(one), &code_points(two))
    }
}

/// The text of a written key as UTF-8 that also encodes unpaired surrogates.
fn code_points(key: &[u8]) -> Vec<u8> {
    let quoted = format!("\"{}\"", std::str::from_utf8(key).unwrap_or_default());
    match Reader::new(&quoted).next() {
        Some(Token::String(text)) => text.code_points().into_owned(),
        _ => Vec::new(),
    }
}

impl CanonicalWriter {
    /// A writer of a form.
    pub fn new(form: CanonicalForm) -> Self {
        Self { form, open: Vec::new(), members: Vec::with_capacity(32), moved: Vec::new() }
    }

    /// Appends the canonical form of a JSON text to `out`, with another value for one member of the outermost object.
    pub fn write_text<'w>(
        &'w mut self,
        out: &'w mut Vec<u8>,
        text: &str,
        replacement: Option<MemberOverride<'w>>,
    ) {
        self.reset();
        Output { writer: self, out, replacement }.tokens(text);
    }

    /// Appends the canonical form of the JSON of a value to `out`, with another value for one member of the outermost object.
    ///
    /// # Errors
    /// Only if a `Serialize` of the value fails, for example a map with keys that are not strings.
    pub fn write_value<'w, T: Serialize + ?Sized>(
        &'w mut self,
        out: &'w mut Vec<u8>,
        value: &T,
        replacement: Option<MemberOverride<'w>>,
    ) -> Result<(), serde_json::Error> {
        self.reset();
        value.serialize(&mut CanonicalSerializer::new(Output { writer: self, out, replacement }))
    }

    /// Forgets a value that was not written to its end.
    fn reset(&mut self) {
        self.open.clear();
        self.members.clear();
    }

    /// Sorts the members from the index `first` on, which are those of the object that ends here.
    fn sort(&mut self, out: &mut Vec<u8>, first: usize, start: usize) {
        let Some(members) = self.members.get_mut(first..) else { return };
        let written = out.get(start..).unwrap_or_default();
        // The sort is stable, so the last of equal keys is the one that was read last.
        members.sort_by(|one, two| one.order(two, written, start));
        self.moved.clear();
        self.moved.extend_from_slice(written);
        out.truncate(start);
        let key = |member: &Member| member.key(&self.moved, start);
        for (place, member) in members.iter().enumerate() {
            let comes_again = members.get(place + 1).is_some_and(|next| key(next) == key(member));
            if comes_again || is_omitted(key(member), self.form) {
                continue;
            }
            if out.len() > start {
                out.push(b',');
            }
            let range = member.start - start..member.end - start;
            out.extend_from_slice(self.moved.get(range).unwrap_or_default());
        }
    }
}

fn is_omitted(key: &[u8], form: CanonicalForm) -> bool {
    form == CanonicalForm::JavaScript && key == PROTOTYPE.as_bytes()
}

/// The output of one value.
pub(super) struct Output<'w> {
    writer: &'w mut CanonicalWriter,
    out: &'w mut Vec<u8>,
    replacement: Option<MemberOverride<'w>>,
}

impl Output<'_> {
    /// Writes the value of a JSON text.
    pub(super) fn tokens(&mut self, text: &str) {
        let mut reader = Reader::new(text);
        while let Some(token) = reader.next() {
            match token {
                Token::Key(key) => {
                    self.key_as_read(key);
                    if self.replaces_value() {
                        reader.skip_value();
                    }
                }
                Token::ObjectStart => self.open(true),
                Token::ArrayStart => self.open(false),
                Token::ObjectEnd | Token::ArrayEnd => self.close(),
                Token::String(string) => {
                    self.begin_value();
                    write_raw_string(self.out, string, self.writer.form);
                    self.end_value();
                }
                Token::Number(digits) => self.number(digits),
                Token::Bool(value) => self.bool(value),
                Token::Null => self.null(),
            }
        }
    }

    /// Starts an object or an array.
    #[inline]
    pub(super) fn open(&mut self, is_object: bool) {
        self.begin_value();
        self.out.push(if is_object { b'{' } else { b'[' });
        let members = is_object.then_some(self.writer.members.len());
        self.writer.open.push(OpenContainer { members, start: self.out.len(), sorted: true });
    }

    /// Ends the innermost object or array.
    #[inline]
    pub(super) fn close(&mut self) {
        let Some(open) = self.writer.open.pop() else { return };
        match open.members {
            None => self.out.push(b']'),
            Some(first) => {
                if !open.sorted {
                    self.writer.sort(self.out, first, open.start);
                }
                self.writer.members.truncate(first);
                self.out.push(b'}');
            }
        }
        self.end_value();
    }

    pub(super) fn string(&mut self, text: &str) {
        self.begin_value();
        write_string(self.out, text);
        self.end_value();
    }

    pub(super) fn number(&mut self, digits: &str) {
        self.begin_value();
        self.out.extend_from_slice(number(digits, self.writer.form).as_bytes());
        self.end_value();
    }

    pub(super) fn bool(&mut self, value: bool) {
        self.begin_value();
        self.out.extend_from_slice(if value { b"true" } else { b"false" });
        self.end_value();
    }

    pub(super) fn null(&mut self) {
        self.begin_value();
        self.out.extend_from_slice(b"null");
        self.end_value();
    }

    /// Writes the key of the next member.
    #[inline]
    pub(super) fn key(&mut self, key: &str) {
        let start = self.begin_member();
        write_string(self.out, key);
        self.end_key(start);
    }

    fn key_as_read(&mut self, key: RawString<'_>) {
        let start = self.begin_member();
        write_raw_string(self.out, key, self.writer.form);
        self.end_key(start);
    }

    /// Writes the replacement if the member that has just begun has one. Returns whether it has.
    #[inline]
    pub(super) fn replaces_value(&mut self) -> bool {
        if self.writer.open.len() != 1 {
            return false;
        }
        let Some((name, write_value)) = &mut self.replacement else { return false };
        let member = self.writer.members.last();
        if member.is_none_or(|member| member.key(self.out, 0) != name.as_bytes()) {
            return false;
        }
        write_value(self.out);
        self.end_value();
        true
    }

    /// Writes the comma between elements of an array. [`Self::begin_member`] writes the comma between members.
    #[inline]
    fn begin_value(&mut self) {
        if let Some(OpenContainer { members: None, start, .. }) = self.writer.open.last()
            && self.out.len() > *start
        {
            self.out.push(b',');
        }
    }

    #[inline]
    fn end_value(&mut self) {
        if let Some(OpenContainer { members: Some(_), .. }) = self.writer.open.last()
            && let Some(member) = self.writer.members.last_mut()
        {
            member.end = self.out.len();
        }
    }

    #[inline]
    fn begin_member(&mut self) -> usize {
        if let Some(open) = self.writer.open.last()
            && self.out.len() > open.start
        {
            self.out.push(b',');
        }
        self.out.len()
    }

    #[inline]
    fn end_key(&mut self, start: usize) {
        let key_end = self.out.len();
        self.out.push(b':');
        let Some(open) = self.writer.open.last_mut() else { return };
        let key = self.out.get(start + 1..key_end - 1).unwrap_or_default();
        let prefix = prefix(key);
        let is_plain = is_ascii_without_escapes(key, prefix);
        let member = Member { start, key_end, end: start, is_plain, prefix };
        if open.sorted {
            let first = open.members.unwrap_or_default();
            let before = self.writer.members.get(first..).and_then(<[Member]>::last);
            let follows = before.is_none_or(|before| before.order(&member, self.out, 0).is_lt());
            open.sorted = follows && !is_omitted(member.key(self.out, 0), self.writer.form);
        }
        self.writer.members.push(member);
    }
}
