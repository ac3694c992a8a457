//! Paths as text: joined, normalized, resolved through links, compared.

use std::path::{Path, PathBuf};

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

/// True if a text matches a pattern of `*`, `?` and `**`. `*` does not cross `/`, `**` does.
pub fn matches(pattern: &str, text: &str) -> bool {
    let text: Vec<char> = text.chars().collect();
    let mut reachable: Vec<bool> = (0..=text.len()).map(|index| index == 0).collect();
    for token in tokens(pattern) {
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
