//! The facts of a shell command.

use std::fmt::Write as _;

use serde_json::{Value, json};

/// Stands in [`Word::text`] for a part that is not known.
pub const UNKNOWN: char = '\u{fffd}';

/// Why a script with a command whose program is a hidden word is not understood.
pub(super) const HIDDEN: &str = "a program is named by a value that is not known";

/// A word after quotes, escapes, known variables and braces.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Word {
    /// The text, with [`UNKNOWN`] where a part is not known.
    pub text: String,
    /// Whether the whole text is known.
    pub is_exact: bool,
    /// Whether it has an unquoted pattern, which the shell replaces with the names of files.
    pub is_glob: bool,
}

impl Word {
    /// A word whose text is known.
    pub fn exact(text: impl Into<String>) -> Self {
        Self { text: text.into(), is_exact: true, is_glob: false }
    }

    /// A word of which nothing is known.
    pub fn unknown() -> Self {
        Self { text: UNKNOWN.to_string(), is_exact: false, is_glob: false }
    }

    /// Whether nothing of it is known: it may be several words.
    pub(super) fn is_hidden(&self) -> bool {
        !self.text.is_empty() && self.text.chars().all(|char| char == UNKNOWN)
    }

    /// The text if all of it is known.
    pub fn value(&self) -> Option<&str> {
        self.is_exact.then_some(self.text.as_str())
    }
}

/// How a command comes to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Via {
    /// It stands in the text.
    Direct,
    /// A wrapper runs it: `env`, `sudo`, `timeout`.
    Wrapper,
    /// A shell with `-c` runs it.
    Shell,
    /// `eval` runs it.
    Eval,
    /// A shell reads it from a here-document, a here-string or a pipe.
    Stdin,
    /// `xargs` or `parallel` runs it, with more arguments than are known.
    Xargs,
    /// `find -exec` runs it.
    Find,
    /// It runs on another machine.
    Ssh,
    /// An alias of git runs it.
    Alias,
}

impl Via {
    /// The name in facts.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Wrapper => "wrapper",
            Self::Shell => "sh -c",
            Self::Eval => "eval",
            Self::Stdin => "stdin",
            Self::Xargs => "xargs",
            Self::Find => "find -exec",
            Self::Ssh => "ssh",
            Self::Alias => "alias",
        }
    }
}

/// What a command reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stdin {
    /// The terminal or a file: not text that this command determines.
    Inherited,
    /// This text.
    Text(Word),
    /// The output of the named program.
    Pipe(String),
}

/// A redirect of input or output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Redirect {
    /// The operator: `>`, `>>`, `&>`, `<`.
    pub operator: String,
    /// The file.
    pub target: Word,
    /// The working directory; `None` if it is not known.
    pub cwd: Option<String>,
}

impl Redirect {
    /// Whether it writes the file.
    pub fn writes(&self) -> bool {
        self.operator.contains('>')
    }
}

/// One command that would run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    /// The program and its arguments, without wrappers.
    pub argv: Vec<Word>,
    /// How it comes to run.
    pub via: Via,
    /// Its working directory; `None` if it is not known.
    pub cwd: Option<String>,
    /// Variables that are set for it.
    pub environment: Vec<(String, Word)>,
    /// What it reads.
    pub stdin: Stdin,
    /// The wrappers that were removed, outermost first.
    pub wrappers: Vec<String>,
}

impl Command {
    /// The name of the program: without its folder, in lower case. `None` if it is not known.
    pub fn program(&self) -> Option<String> {
        let word = self.argv.first()?;
        let value = word.value().filter(|_| !word.is_glob)?;
        let name = value.rsplit(['/', '\\']).next().unwrap_or(value).to_lowercase();
        Some(name.strip_suffix(".exe").map_or(name.clone(), str::to_owned))
    }

    /// The arguments.
    pub fn arguments(&self) -> &[Word] {
        self.argv.get(1..).unwrap_or_default()
    }

    /// The command for messages, cut after 120 characters.
    pub fn show(&self) -> String {
        let mut text = String::new();
        for word in &self.argv {
            let separator = if text.is_empty() { "" } else { " " };
            let _ = write!(text, "{separator}{}", word.text.replace(UNKNOWN, "?"));
        }
        match text.char_indices().nth(120) {
            Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
            None => text,
        }
    }

    /// The command as JSON. A word that is not known is null.
    pub fn to_json(&self) -> Value {
        let argv: Vec<_> = self.argv.iter().map(Word::value).collect();
        let certainty = if self.argv.iter().all(|word| word.is_exact) { "exact" } else { "partial" };
        json!({"argv": argv, "via": self.via.as_str(), "cwd": self.cwd, "certainty": certainty})
    }
}

/// What a text would run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Script {
    /// All commands, also those of branches that may not be taken.
    pub commands: Vec<Command>,
    /// All redirects to and from files.
    pub redirects: Vec<Redirect>,
    /// Why a part of the text is not understood.
    pub unknown: Vec<String>,
}
