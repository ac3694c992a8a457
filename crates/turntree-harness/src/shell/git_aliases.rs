//! Aliases of git: those that a command brings with it, and those that are configured.

use super::facts::{Command, Word};
use super::nested::joined;

/// Reads the aliases that are configured for a folder: names and values.
pub type ReadGitAliases = fn(folder: &str) -> Vec<(String, String)>;

/// The most folders of a text whose aliases are read: each starts git.
const MAX_FOLDERS: usize = 4;

/// Commands of git, which are never aliases, so that nothing is read for them.
const COMMANDS: &str = "\
    add am apply archive bisect blame branch bundle cat-file check-ignore checkout checkout-index cherry \
    cherry-pick clean clone commit commit-graph commit-tree config count-objects describe diff diff-files \
    diff-index diff-tree difftool fast-export fast-import fetch filter-branch for-each-ref format-patch fsck gc \
    grep hash-object help init log ls-files ls-remote ls-tree maintenance merge merge-base merge-file merge-tree \
    mergetool mv name-rev notes pack-refs prune pull push range-diff read-tree rebase reflog remote repack \
    replace rerere reset restore rev-list rev-parse revert rm send-pack shortlog show show-branch show-ref \
    sparse-checkout stash status stripspace submodule switch symbolic-ref tag update-index update-ref var \
    verify-commit verify-tag version whatchanged worktree write-tree";

/// What a command of git may be.
#[derive(Debug)]
pub(super) enum GitAlias {
    /// No alias.
    None,
    /// It runs this text.
    Runs(Word),
    /// Too many folders have aliases.
    Unknown,
}

/// The aliases that the commands of a text may use.
#[derive(Debug)]
pub(super) struct GitAliases {
    read: Option<ReadGitAliases>,
    /// Those that were read, by folder.
    known: Vec<(String, Vec<(String, String)>)>,
}

impl GitAliases {
    /// Without a function only aliases of the command itself are followed.
    pub(super) fn new(read: Option<ReadGitAliases>) -> Self {
        Self { read, known: Vec::new() }
    }

    /// What a command of git runs, if it is an alias.
    pub(super) fn follow(&mut self, command: &Command) -> GitAlias {
        let Some(call) = Call::of(command) else { return GitAlias::None };
        if let Some(value) = call.own_value() {
            return GitAlias::Runs(call.expanded(&value));
        }
        let name = call.verb.value().map(str::to_lowercase).unwrap_or_default();
        let folder = call.folder.as_deref().filter(|_| !COMMANDS.split(' ').any(|command| command == name));
        let Some((folder, read)) = folder.zip(self.read) else { return GitAlias::None };
        let Some(aliases) = self.configured(folder, read) else { return GitAlias::Unknown };
        match aliases.iter().rev().find(|(own, _)| *own == name) {
            Some((_, value)) => GitAlias::Runs(call.expanded(value)),
            None => GitAlias::None,
        }
    }

    /// The aliases of a folder; `None` if those of too many folders were read.
    fn configured(&mut self, folder: &str, read: ReadGitAliases) -> Option<&[(String, String)]> {
        let at = match self.known.iter().position(|(own, _)| own == folder) {
            Some(at) => at,
            None if self.known.len() >= MAX_FOLDERS => return None,
            None => {
                self.known.push((folder.to_owned(), read(folder)));
                self.known.len() - 1
            }
        };
        self.known.get(at).map(|(_, aliases)| aliases.as_slice())
    }
}

/// A call of git.
struct Call<'a> {
    verb: &'a Word,
    rest: &'a [Word],
    /// Where it works; `None` if it is not known.
    folder: Option<String>,
    /// Names and values of `-c alias.name=value`.
    own: Vec<(&'a str, &'a str)>,
}

impl<'a> Call<'a> {
    fn of(command: &'a Command) -> Option<Self> {
        let arguments = command.arguments();
        let (mut own, mut folder) = (Vec::new(), command.cwd.clone());
        let mut at = 0;
        while let Some(word) = arguments.get(at).filter(|word| word.text.starts_with('-')) {
            let value = arguments.get(at + 1);
            let text = value.map(|word| word.text.as_str()).unwrap_or_default();
            match word.text.as_str() {
                "-c" | "--config-env" => {
                    let alias = text.get(..6).filter(|prefix| prefix.eq_ignore_ascii_case("alias."));
                    own.extend(alias.and_then(|_| text.get(6..)).and_then(|alias| alias.split_once('=')));
                    at += 2;
                }
                "-C" => {
                    let base = folder.take();
                    folder =
                        value.and_then(Word::value).and_then(|path| crate::path::join(base.as_deref(), path));
                    at += 2;
                }
                "--git-dir" | "--work-tree" | "--namespace" | "--exec-path" => at += 2,
                _ => at += 1,
            }
        }
        let (verb, rest) = arguments.get(at..)?.split_first()?;
        Some(Self { verb, rest, folder, own })
    }

    fn own_value(&self) -> Option<String> {
        let mut own = self.own.iter().rev();
        own.find(|(name, _)| name.eq_ignore_ascii_case(&self.verb.text)).map(|(_, value)| (*value).to_owned())
    }

    /// What git runs: another command of git, or after `!` one of the shell.
    fn expanded(&self, value: &str) -> Word {
        let rest = joined(self.rest);
        let text = match value.strip_prefix('!') {
            Some(script) => format!("{script} {}", rest.text),
            None => format!("git {value} {}", rest.text),
        };
        Word { text, is_exact: rest.is_exact, is_glob: false }
    }
}
