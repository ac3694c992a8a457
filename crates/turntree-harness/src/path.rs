//! Paths as text: joined, normalized, resolved through links, compared.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use unicode_normalization::{UnicodeNormalization as _, is_nfc};

/// Joins a path to a folder and removes `.` and `..`. `None` if the path is relative and the folder is not known.
pub fn join(base: Option<&str>, path: &str) -> Option<String> {
    if path.starts_with('/') {
        return Some(normalize(path));
    }
    base.map(|base| normalize(&format!("{base}/{path}")))
}

/// Removes `.`, `..` and repeated `/` of an absolute path, without looking at the disk.
pub fn normalize(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            other => parts.push(other),
        }
    }
    format!("/{}", parts.join("/"))
}

/// The place that a path names on this disk: links are followed, also those of folders above a file that does not exist.
pub fn resolve(path: &str) -> String {
    let normal = normalize(path);
    let path = Path::new(&normal);
    let mut missing: Vec<&std::ffi::OsStr> = Vec::new();
    let mut existing = path;
    loop {
        if let Ok(found) = existing.canonicalize() {
            let mut full: PathBuf = found;
            full.extend(missing.iter().rev());
            return full.to_string_lossy().into_owned();
        }
        // A link to nothing: what is written appears where it points to.
        if let Ok(target) = existing.read_link() {
            let folder = existing.parent().unwrap_or(existing).to_string_lossy().into_owned();
            let target = join(Some(&folder), &target.to_string_lossy());
            let mut full = PathBuf::from(target.unwrap_or_default());
            full.extend(missing.iter().rev());
            return full.to_string_lossy().into_owned();
        }
        match (existing.parent(), existing.file_name()) {
            (Some(parent), Some(name)) => {
                missing.push(name);
                existing = parent;
            }
            _ => return normal,
        }
    }
}

/// The path below a folder; empty for the folder itself. `None` if it is elsewhere.
pub fn below<'a>(folder: &str, path: &'a str) -> Option<&'a str> {
    let folder = folder.trim_end_matches('/');
    let rest = path.strip_prefix(folder)?;
    if rest.is_empty() { Some(rest) } else { rest.strip_prefix('/') }
}

/// A text with composed characters (NFC). macOS names files with decomposed ones: both spellings are the same file there,
/// and look the same everywhere.
pub fn composed(text: &str) -> Cow<'_, str> {
    if text.is_ascii() || is_nfc(text) { Cow::Borrowed(text) } else { Cow::Owned(text.nfc().collect()) }
}

#[derive(Debug, Clone, Copy)]
enum Token {
    /// `**/`: nothing, or folders.
    Folders,
    /// `**`
    Any,
    /// `*`
    Star,
    /// `?`
    One,
    Char(char),
}

fn tokens(pattern: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut rest = pattern;
    while let Some(char) = rest.chars().next() {
        let (token, length) = match char {
            '*' if rest.starts_with("**/") => (Token::Folders, 3),
            '*' if rest.starts_with("**") => (Token::Any, 2),
            '*' => (Token::Star, 1),
            '?' => (Token::One, 1),
            other => (Token::Char(other), other.len_utf8()),
        };
        tokens.push(token);
        rest = rest.get(length..).unwrap_or_default();
    }
    tokens
}

/// True if a text matches a pattern of `*`, `?` and `**`. `*` does not cross `/`, `**` does. Composed and decomposed
/// characters are the same.
pub fn matches(pattern: &str, text: &str) -> bool {
    let (pattern, text) = (composed(pattern), composed(text));
    let text: Vec<char> = text.chars().collect();
    let mut reachable: Vec<bool> = (0..=text.len()).map(|index| index == 0).collect();
    for token in tokens(&pattern) {
        let mut next = Vec::with_capacity(reachable.len());
        let mut is_open = false;
        for (index, here) in reachable.iter().enumerate() {
            let before = index.checked_sub(1).and_then(|at| Some((*reachable.get(at)?, *text.get(at)?)));
            let is_reached = match token {
                Token::Folders => {
                    is_open |= *here;
                    *here || (is_open && before.is_some_and(|(_, char)| char == '/'))
                }
                Token::Any => {
                    is_open |= *here;
                    is_open
                }
                Token::Star => {
                    is_open = *here || (is_open && before.is_some_and(|(_, char)| char != '/'));
                    is_open
                }
                Token::One => before.is_some_and(|(reached, char)| reached && char != '/'),
                Token::Char(wanted) => before.is_some_and(|(reached, char)| reached && char == wanted),
            };
            next.push(is_reached);
        }
        reachable = next;
    }
    reachable.last().copied().unwrap_or(false)
}

/// What a token takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Taken {
    /// Every character.
    All,
    /// Every character but `/`.
    NotSlash,
    /// One character.
    Only(char),
}

impl Taken {
    fn meets(self, other: Self) -> bool {
        match (self, other) {
            (Self::Only(own), Self::Only(other)) => own == other,
            (Self::Only(own), Self::NotSlash) | (Self::NotSlash, Self::Only(own)) => own != '/',
            _ => true,
        }
    }
}

/// A place in a pattern: before a token, or inside of the folders that `**/` takes.
#[derive(Debug, Clone, Copy)]
struct Place {
    at: usize,
    is_inside: bool,
}

impl Place {
    const fn before(at: usize) -> Self {
        Self { at, is_inside: false }
    }

    fn number(self) -> usize {
        self.at * 2 + usize::from(self.is_inside)
    }

    /// The next place, if the token here may be empty.
    fn skip(self, tokens: &[Token]) -> Option<Self> {
        let may_be_empty = match tokens.get(self.at)? {
            Token::Star | Token::Any => true,
            Token::Folders => !self.is_inside,
            Token::One | Token::Char(_) => false,
        };
        may_be_empty.then(|| Self::before(self.at + 1))
    }

    /// What the token here takes, and the place after that.
    fn take(self, tokens: &[Token]) -> Vec<(Taken, Self)> {
        let next = Self::before(self.at + 1);
        match tokens.get(self.at) {
            Some(Token::Star) => vec![(Taken::NotSlash, self)],
            Some(Token::Any) => vec![(Taken::All, self)],
            Some(Token::Folders) => {
                vec![(Taken::All, Self { is_inside: true, ..self }), (Taken::Only('/'), next)]
            }
            Some(Token::One) => vec![(Taken::NotSlash, next)],
            Some(Token::Char(char)) => vec![(Taken::Only(*char), next)],
            None => Vec::new(),
        }
    }
}

/// True if there is a text that matches both patterns. The time grows with the product of their lengths.
pub fn have_common_match(left: &str, right: &str) -> bool {
    let (left, right) = (tokens(&composed(left)), tokens(&composed(right)));
    let width = right.len() * 2 + 1;
    let mut seen = vec![false; (left.len() * 2 + 1) * width];
    let mut pending = vec![(Place::before(0), Place::before(0))];
    while let Some((own, other)) = pending.pop() {
        let Some(is_seen) = seen.get_mut(own.number() * width + other.number()).filter(|seen| !**seen) else {
            continue;
        };
        *is_seen = true;
        if own.at == left.len() && other.at == right.len() {
            return true;
        }
        pending.extend(own.skip(&left).map(|next| (next, other)));
        pending.extend(other.skip(&right).map(|next| (own, next)));
        for (taken, next) in own.take(&left) {
            let both = other.take(&right).into_iter().filter(|(others, _)| taken.meets(*others));
            pending.extend(both.map(|(_, after)| (next, after)));
        }
    }
    false
}
