//! The name of an event that cannot be read as a whole: too large, cut off, or not JSON in some place.

use std::borrow::Cow;

/// The names that the top level of an event has under some keys, as far as the event can be read. Bytes that are not an
/// object have none.
///
/// Keys inside of other values, such as the arguments of a tool, do not count: the harness writes the top level, and
/// somebody else may have written the rest. Needs no memory but that of the names, and one pass.
pub(super) fn names<'a>(bytes: &'a [u8], keys: &[String]) -> Vec<Cow<'a, str>> {
    let mut found = Vec::new();
    let mut scanner = Scanner { bytes, at: 0 };
    let _ = scanner.members(|key, value| {
        if let Some(name) = value.filter(|_| keys.iter().any(|own| *own == key)) {
            found.push(name);
        }
    });
    found
}

struct Scanner<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Scanner<'a> {
    /// Calls a function with each key of the object and its value, if that is a text. `None` at the first byte that does
    /// not fit, and at the end.
    fn members(&mut self, mut member: impl FnMut(Cow<'a, str>, Option<Cow<'a, str>>)) -> Option<()> {
        self.expect(b'{')?;
        loop {
            self.expect(b'"')?;
            let key = self.text()?;
            self.expect(b':')?;
            let value = match self.next()? {
                b'"' => Some(self.text()?),
                first => {
                    self.skip(first)?;
                    None
                }
            };
            member(key, value);
            self.expect(b',')?;
        }
    }

    /// The next byte that is not white space.
    fn next(&mut self) -> Option<u8> {
        let rest = self.bytes.get(self.at..)?;
        let space = rest.iter().take_while(|byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\r')).count();
        self.at += space + 1;
        rest.get(space).copied()
    }

    fn expect(&mut self, wanted: u8) -> Option<()> {
        (self.next()? == wanted).then_some(())
    }

    /// Goes behind the closing quote of a text, and returns where the text began.
    fn close(&mut self) -> Option<usize> {
        let start = self.at;
        loop {
            let rest = self.bytes.get(self.at..)?;
            let length = rest.iter().position(|byte| matches!(byte, b'"' | b'\\'))?;
            if rest.get(length) == Some(&b'"') {
                self.at += length + 1;
                return Some(start);
            }
            self.at += length + 2;
        }
    }

    /// The text whose opening quote was read.
    fn text(&mut self) -> Option<Cow<'a, str>> {
        let start = self.close()?;
        let quoted = self.bytes.get(start.checked_sub(1)?..self.at)?;
        let plain = self.bytes.get(start..self.at.checked_sub(1)?)?;
        if plain.contains(&b'\\') {
            return Some(serde_json::from_slice(quoted).map_or(Cow::Borrowed(""), Cow::Owned));
        }
        // No name has bytes that are not UTF-8.
        Some(Cow::Borrowed(std::str::from_utf8(plain).unwrap_or_default()))
    }

    /// Goes behind a value that is not a text.
    fn skip(&mut self, first: u8) -> Option<()> {
        let mut depth = 0_usize;
        let mut byte = first;
        loop {
            match byte {
                b'{' | b'[' => depth += 1,
                b'}' | b']' => depth = depth.checked_sub(1)?,
                b'"' => {
                    self.close()?;
                }
                // Between the members of something, or a part of a number or a word.
                _ => {}
            }
            if depth == 0 && (matches!(byte, b'}' | b']') || self.ends_here()) {
                return Some(());
            }
            byte = self.next()?;
        }
    }

    /// Whether the value that was read ends before the next byte: behind it is what follows a value.
    fn ends_here(&self) -> bool {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let next = rest.iter().find(|byte| !byte.is_ascii_whitespace());
        matches!(next, Some(b',' | b'}' | b']') | None)
    }
}

#[cfg(test)]
mod tests {
    use super::names;

    fn found(text: &str) -> Vec<String> {
        names(text.as_bytes(), &["event".to_owned()]).into_iter().map(std::borrow::Cow::into_owned).collect()
    }

    #[test]
    fn only_the_top_level_names_an_event() {
        let nested = r#"{"a": {"event": "no", "b": [{"event": "no"}]}, "text": "\"event\": \"no\"\\", "n": -1.5e3, "t": true, "event": "yes"}"#;
        assert_eq!(found(nested), ["yes"]);
        assert_eq!(found(r#"{"event": 1, "event": null, "other": "event"}"#), [""; 0]);
        assert_eq!(found(r#"[{"event": "no"}]"#), [""; 0]);
        assert_eq!(found(r#""event""#), [""; 0]);
    }

    #[test]
    fn what_stands_before_the_end_of_a_cut_event_is_found() {
        assert_eq!(found(r#"{"event": "yes", "rest": {"event": "n"#), ["yes"]);
        assert_eq!(found(r#"{"event": "ye"#), [""; 0]);
        assert_eq!(found("{\"event\": \"yes\", \"deep\": [[[[[["), ["yes"]);
    }

    #[test]
    fn all_names_are_found_however_they_are_written() {
        assert_eq!(found(r#"{"event": "one", "\u0065vent": "t\u0077o"}"#), ["one", "two"]);
    }
}
