//! What a git command does.

use crate::shell::{Command, Word};

/// A git command after its global options.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Git {
    /// The command of git; `None` if it is not known.
    pub verb: Option<String>,
    /// Its arguments.
    pub arguments: Vec<Word>,
    /// The folder that it works in; `None` if it is not known.
    pub cwd: Option<String>,
    /// Settings of `-c`.
    pub settings: Vec<String>,
    /// Whether `--git-dir`, `--work-tree` or the environment point it elsewhere.
    pub is_redirected: bool,
}

impl Git {
    /// Reads a command. `None` if it is not git.
    pub fn of(command: &Command) -> Option<Self> {
        let program = command.program()?;
        if program != "git" {
            let verb = program.strip_prefix("git-").filter(|verb| !verb.is_empty())?;
            let arguments = command.arguments().to_vec();
            let cwd = command.cwd.clone();
            let verb = Some(verb.to_owned());
            return Some(Self { verb, arguments, cwd, settings: Vec::new(), is_redirected: false });
        }
        let mut git = Self {
            verb: None,
            arguments: Vec::new(),
            cwd: command.cwd.clone(),
            settings: Vec::new(),
            is_redirected: false,
        };
        git.is_redirected = command.environment.iter().any(|(name, _)| {
            matches!(
                name.as_str(),
                "GIT_DIR"
                    | "GIT_WORK_TREE"
                    | "GIT_COMMON_DIR"
                    | "GIT_CONFIG_COUNT"
                    | "GIT_CONFIG_GLOBAL"
                    | "GIT_CONFIG_PARAMETERS"
            )
        });
        let mut words = command.arguments().iter();
        while let Some(word) = words.next() {
            let text = word.text.as_str();
            match text {
                "-C" => {
                    let base = git.cwd.take();
                    let path = words.next().and_then(Word::value);
                    git.cwd = path.and_then(|path| crate::path::join(base.as_deref(), path));
                }
                "-c" | "--config-env" => {
                    git.settings.extend(words.next().map(|word| word.text.to_lowercase()))
                }
                "--git-dir" | "--work-tree" | "--namespace" => {
                    git.is_redirected = true;
                    words.next();
                }
                "--exec-path" => {}
                _ if text.starts_with("--git-dir=") || text.starts_with("--work-tree=") => {
                    git.is_redirected = true
                }
                _ if text.starts_with("-c") && !text.starts_with("--") => {
                    git.settings.push(text.get(2..).unwrap_or_default().to_lowercase())
                }
                _ if text.starts_with('-') => {}
                _ => {
                    git.verb = word.value().map(str::to_lowercase);
                    break;
                }
            }
        }
        git.arguments = words.cloned().collect();
        Some(git)
    }

    /// Whether it has a long option. Git accepts any unambiguous beginning of one.
    pub fn has_long(&self, option: &str) -> bool {
        self.options().any(|text| {
            let name = text.split('=').next().unwrap_or(text);
            name == option || (name.len() >= 5 && option.starts_with(name))
        })
    }

    /// Whether it has a short option, alone or among others.
    pub fn has_short(&self, letter: char) -> bool {
        self.options().any(|text| !text.starts_with("--") && text.starts_with('-') && text.contains(letter))
    }

    /// The options before `--`.
    fn options(&self) -> impl Iterator<Item = &str> {
        self.arguments
            .iter()
            .map(|word| word.text.as_str())
            .take_while(|text| *text != "--")
            .filter(|text| text.starts_with('-'))
    }

    /// The arguments that are not options.
    pub fn operands(&self) -> Vec<&Word> {
        let mut operands = Vec::new();
        let mut takes_value = false;
        let mut is_after = false;
        for word in &self.arguments {
            let text = word.text.as_str();
            if takes_value {
                takes_value = false;
            } else if text == "--" && !is_after {
                is_after = true;
            } else if is_after || !text.starts_with('-') {
                operands.push(word);
            } else {
                takes_value = matches!(
                    text,
                    "-m" | "-o"
                        | "--push-option"
                        | "--repo"
                        | "--receive-pack"
                        | "-F"
                        | "--author"
                        | "--date"
                );
            }
        }
        operands
    }

    /// True if it has a word that is not known.
    pub fn has_unknown(&self) -> bool {
        self.arguments.iter().any(|word| !word.is_exact)
    }

    /// Branches that a push updates: the destinations of its refspecs.
    pub fn pushed(&self) -> Vec<String> {
        let destination = |word: &&Word| {
            let text = word.text.trim_start_matches('+');
            let name = text.rsplit(':').next().unwrap_or(text);
            name.strip_prefix("refs/heads/").unwrap_or(name).to_owned()
        };
        self.operands().iter().skip(1).map(destination).collect()
    }

    /// Whether a push overwrites: `--force`, `-f`, `+refspec`.
    pub fn forces(&self) -> bool {
        let exact = self.options().any(|text| {
            let name = text.split('=').next().unwrap_or(text);
            name.len() >= 4 && "--force".starts_with(name)
        });
        exact
            || self.has_short('f')
            || self.has_long("--mirror")
            || self.operands().iter().skip(1).any(|word| word.text.starts_with('+'))
    }
}
