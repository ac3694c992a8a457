//! One word of a shell command: quotes, escapes, variables, braces and fields.

use super::facts::{UNKNOWN, Word};
use super::scope::State;

/// The most words that the braces of one word make.
const MAX_BRACES: usize = 128;

/// The longest word whose braces are expanded, in characters: the search for the ends of braces is quadratic.
const MAX_BRACED: usize = 4_096;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Not quoted: tildes, braces and patterns have their meaning.
    Plain,
    /// Of an unquoted variable: only patterns have their meaning.
    Value,
    Quoted,
    Unknown,
    /// White space of an unquoted variable: separates fields.
    Separator,
}

type Char = (char, Kind);

/// Reads the source of a word. An unquoted variable may make several words, or none.
pub(super) fn words(source: &str, state: &State) -> Vec<Word> {
    let mut reader = Reader::new(source, state);
    reader.read(Quote::None);
    let is_quoted = reader.is_quoted;
    let mut words = Vec::new();
    for chars in expand_braces(reader.out) {
        fields(&expand_tilde(chars, state), is_quoted, &mut words);
    }
    words
}

/// Reads a text in which only `$`, backquotes and backslashes have a meaning: a here-document.
pub(super) fn document(source: &str, state: &State) -> Word {
    let mut reader = Reader::new(source, state);
    reader.read(Quote::Document);
    word_of(&reader.out)
}

fn word_of(chars: &[Char]) -> Word {
    let is_exact = chars.iter().all(|(_, kind)| *kind != Kind::Unknown);
    let is_glob =
        chars.iter().any(|(char, kind)| matches!(kind, Kind::Plain | Kind::Value) && "*?[".contains(*char));
    Word { text: chars.iter().map(|(char, _)| *char).collect(), is_exact, is_glob }
}

fn fields(chars: &[Char], is_quoted: bool, words: &mut Vec<Word>) {
    for field in chars.split(|(_, kind)| *kind == Kind::Separator) {
        if !field.is_empty() {
            words.push(word_of(field));
        }
    }
    if chars.is_empty() && is_quoted {
        words.push(Word::exact(""));
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Quote {
    None,
    Double,
    Document,
}

struct Reader<'a> {
    chars: Vec<char>,
    at: usize,
    state: &'a State,
    out: Vec<Char>,
    is_quoted: bool,
}

impl<'a> Reader<'a> {
    fn new(source: &str, state: &'a State) -> Self {
        Self { chars: source.chars().collect(), at: 0, state, out: Vec::new(), is_quoted: false }
    }

    fn peek(&self, ahead: usize) -> Option<char> {
        self.chars.get(self.at.saturating_add(ahead)).copied()
    }

    fn next(&mut self) -> Option<char> {
        let char = self.peek(0)?;
        self.at += 1;
        Some(char)
    }

    fn push(&mut self, char: char, kind: Kind) {
        // A replacement character in the text is as good as unknown.
        let kind = if char == UNKNOWN { Kind::Unknown } else { kind };
        self.out.push((char, kind));
    }

    fn read(&mut self, start: Quote) {
        let mut quote = start;
        while let Some(char) = self.next() {
            match (char, quote) {
                ('\\', _) => self.escape(quote),
                ('\'', Quote::None) => self.single(),
                ('"', Quote::None) => {
                    self.is_quoted = true;
                    quote = Quote::Double;
                }
                ('"', Quote::Double) => quote = Quote::None,
                ('$', _) => self.dollar(quote),
                ('`', _) => {
                    self.at -= 1;
                    self.skip();
                    self.push(UNKNOWN, Kind::Unknown);
                }
                (other, Quote::None) => self.push(other, Kind::Plain),
                (other, _) => self.push(other, Kind::Quoted),
            }
        }
    }

    fn escape(&mut self, quote: Quote) {
        match (self.next(), quote) {
            (Some('\n'), _) => {}
            (None, _) => self.push('\\', Kind::Quoted),
            (Some(char), Quote::None) => self.push(char, Kind::Quoted),
            (Some(char @ ('$' | '`' | '\\')), _) | (Some(char @ '"'), Quote::Double) => {
                self.push(char, Kind::Quoted);
            }
            (Some(char), _) => {
                self.push('\\', Kind::Quoted);
                self.push(char, Kind::Quoted);
            }
        }
    }

    fn single(&mut self) {
        self.is_quoted = true;
        while let Some(char) = self.next().filter(|char| *char != '\'') {
            self.push(char, Kind::Quoted);
        }
    }

    fn dollar(&mut self, quote: Quote) {
        match self.peek(0) {
            Some('\'') if quote == Quote::None => {
                self.at += 1;
                self.is_quoted = true;
                self.ansi();
            }
            // `$"…"` is a translated text: the quotes follow.
            Some('"') if quote == Quote::None => {}
            Some('(') => {
                self.skip();
                self.push(UNKNOWN, Kind::Unknown);
            }
            Some('{') => {
                let start = self.at + 1;
                self.skip();
                let end = self.at.saturating_sub(1).max(start);
                let name: String = self.chars.get(start..end).unwrap_or_default().iter().collect();
                self.variable(&name, quote);
            }
            Some(char) if char.is_ascii_alphabetic() || char == '_' => {
                let mut name = String::new();
                while let Some(char) =
                    self.peek(0).filter(|char| char.is_ascii_alphanumeric() || *char == '_')
                {
                    name.push(char);
                    self.at += 1;
                }
                self.variable(&name, quote);
            }
            Some(char) if char.is_ascii_digit() || "@*#?-$!".contains(char) => {
                self.at += 1;
                self.push(UNKNOWN, Kind::Unknown);
            }
            _ => self.push('$', Kind::Quoted),
        }
    }

    fn variable(&mut self, name: &str, quote: Quote) {
        if name == "IFS" && !self.state.has_own_separators() {
            let kind = if quote == Quote::None { Kind::Separator } else { Kind::Quoted };
            self.out.extend([(' ', kind), ('\t', kind), ('\n', kind)]);
            return;
        }
        let value = self.state.get(name).filter(|_| quote != Quote::None || !self.state.has_own_separators());
        match (value.map(str::to_owned), quote) {
            (Some(value), Quote::None) => value.chars().for_each(|char| {
                let kind = if char.is_ascii_whitespace() { Kind::Separator } else { Kind::Value };
                self.push(char, kind);
            }),
            (Some(value), _) => value.chars().for_each(|char| self.push(char, Kind::Quoted)),
            (None, _) => self.push(UNKNOWN, Kind::Unknown),
        }
    }

    /// The rest of `$'…'`.
    fn ansi(&mut self) {
        while let Some(char) = self.next() {
            match char {
                '\'' => return,
                '\\' => self.ansi_escape(),
                other => self.push(other, Kind::Quoted),
            }
        }
    }

    fn ansi_escape(&mut self) {
        let Some(char) = self.next() else { return };
        let decoded = match char {
            'a' => '\u{7}',
            'b' => '\u{8}',
            'e' | 'E' => '\u{1b}',
            'f' => '\u{c}',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'v' => '\u{b}',
            'x' => self.number(16, 2),
            'u' => self.number(16, 4),
            'U' => self.number(16, 8),
            '0'..='7' => {
                self.at -= 1;
                self.number(8, 3)
            }
            'c' => self.next().map_or(UNKNOWN, |char| char::from(u8::try_from(char).unwrap_or(0) & 0x1f)),
            '\\' | '\'' | '"' | '?' => char,
            other => {
                self.push('\\', Kind::Quoted);
                other
            }
        };
        self.push(decoded, Kind::Quoted);
    }

    fn number(&mut self, radix: u32, most: usize) -> char {
        let mut value = 0_u32;
        let mut count = 0;
        while count < most
            && let Some(digit) = self.peek(0).and_then(|char| char.to_digit(radix))
        {
            value = value.wrapping_mul(radix).wrapping_add(digit);
            self.at += 1;
            count += 1;
        }
        // Bytes of several are a part of a character: not decoded.
        let is_known = count > 0 && (value < 0x80 || most > 3);
        char::from_u32(value).filter(|char| is_known && *char != '\0').unwrap_or(UNKNOWN)
    }

    /// Skips `(…)`, `{…}` or a text in backquotes that starts here.
    fn skip(&mut self) {
        let mut open: Vec<char> = Vec::new();
        while let Some(char) = self.next() {
            let top = open.last().copied();
            match char {
                '\\' => self.at += 1,
                '\'' if top != Some('"') => while self.next().is_some_and(|char| char != '\'') {},
                _ if Some(char) == top => {
                    open.pop();
                }
                '"' | '`' => open.push(char),
                '(' if top != Some('"') || self.follows_dollar() => open.push(')'),
                '{' if open.is_empty() || self.follows_dollar() => open.push('}'),
                _ => {}
            }
            if open.is_empty() {
                return;
            }
        }
    }

    /// Whether the character before the last one is `$`.
    fn follows_dollar(&self) -> bool {
        self.at.checked_sub(2).and_then(|at| self.chars.get(at)) == Some(&'$')
    }
}

/// Replaces `~` at the start of a word: by the folder of the user, or of somebody else, which is not known.
fn expand_tilde(mut chars: Vec<Char>, state: &State) -> Vec<Char> {
    if chars.first() != Some(&('~', Kind::Plain)) {
        return chars;
    }
    let end = chars.iter().position(|(char, _)| *char == '/').unwrap_or(chars.len());
    let prefix = chars.get(..end).unwrap_or_default();
    if prefix.iter().any(|(_, kind)| matches!(kind, Kind::Quoted | Kind::Unknown)) {
        // With a quote in it, it is a name like another.
        return chars;
    }
    let home = state.get("HOME").filter(|_| end == 1);
    let home = home.map_or(vec![(UNKNOWN, Kind::Unknown)], |home| {
        home.chars().map(|char| (char, Kind::Quoted)).collect()
    });
    chars.splice(..end, home);
    chars
}

/// A word whose braces are being expanded: what is done, and what follows, the next part last.
struct Open {
    done: Vec<Char>,
    rest: Vec<Vec<Char>>,
}

/// Replaces `{a,b}` by one word for each part. Sequences such as `{1..9}` are unknown.
fn expand_braces(chars: Vec<Char>) -> Vec<Vec<Char>> {
    if chars.len() > MAX_BRACED && chars.contains(&('{', Kind::Plain)) {
        return vec![vec![(UNKNOWN, Kind::Unknown)]];
    }
    let mut open = vec![Open { done: Vec::new(), rest: vec![chars] }];
    let mut done = Vec::new();
    while let Some(mut word) = open.pop() {
        if done.len() + open.len() > MAX_BRACES {
            return vec![vec![(UNKNOWN, Kind::Unknown)]];
        }
        let Some(chars) = word.rest.pop() else {
            done.push(word.done);
            continue;
        };
        let Some(Braces { start, end, commas }) = first_braces(&chars) else {
            word.done.extend(chars);
            open.push(word);
            continue;
        };
        word.done.extend(chars.get(..start).unwrap_or_default());
        word.rest.push(chars.get(end + 1..).unwrap_or_default().to_vec());
        let mut parts: Vec<Vec<Char>> = Vec::new();
        let mut from = start + 1;
        for comma in commas.iter().chain([&end]) {
            parts.push(chars.get(from..*comma).unwrap_or_default().to_vec());
            from = comma + 1;
        }
        if commas.is_empty() {
            parts = vec![vec![(UNKNOWN, Kind::Unknown)]];
        }
        // The last part first: `open` is a stack.
        open.extend(parts.into_iter().rev().map(|part| {
            let mut rest = word.rest.clone();
            rest.push(part);
            Open { done: word.done.clone(), rest }
        }));
    }
    done
}

/// Braces that expand: their places and those of their commas.
struct Braces {
    start: usize,
    end: usize,
    commas: Vec<usize>,
}

/// The first braces that expand. As in bash, a closing one counts only after a comma or two dots outside of inner braces:
/// `{a},b}` is `a}` and `b`.
fn first_braces(chars: &[Char]) -> Option<Braces> {
    let is = |at: usize, wanted: char| chars.get(at) == Some(&(wanted, Kind::Plain));
    for start in (0..chars.len()).filter(|at| is(*at, '{') && (*at > 0 || !is(1, '}'))) {
        let (mut level, mut commas, mut is_sequence) = (0_usize, Vec::new(), false);
        for at in start + 1..chars.len() {
            if is(at, '}') && level == 0 && (is_sequence || !commas.is_empty()) {
                return Some(Braces { start, end: at, commas });
            }
            if is(at, '{') {
                level += 1;
            } else if is(at, '}') {
                level = level.saturating_sub(1);
            } else if level == 0 && is(at, ',') {
                commas.push(at);
            } else if level == 0 && is(at, '.') && is(at + 1, '.') && !is(at + 2, '}') {
                is_sequence = true;
            }
        }
    }
    None
}
