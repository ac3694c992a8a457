//! The user's own rules of a project: files `*.policy.toml` and `*.cedar` in the folder of policies.

use std::fmt;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::cedar::{self, CedarRules};
use super::evaluator::Evaluator;
use super::user::{self, Examples, UserRules};
use crate::error::HarnessError;

/// Where a rule stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// The file.
    pub file: String,
    /// The line, counted from 1; 0 if only the file is known.
    pub line: usize,
}

impl fmt::Display for Origin {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => formatter.write_str(&self.file),
            line => write!(formatter, "{}:{line}", self.file),
        }
    }
}

/// The user's own rules of a project.
#[derive(Debug, Clone, Default)]
pub struct Policies {
    /// Those in TOML.
    pub toml: UserRules,
    /// Those in Cedar.
    pub cedar: CedarRules,
    /// Names the texts of the files.
    digest: String,
}

impl Policies {
    /// Reads the rules of a folder, in the order of the files' names. A folder that does not exist has none.
    ///
    /// # Errors
    /// [`HarnessError::Invalid`] with the file and what is wrong, and [`HarnessError::System`] if it cannot be read.
    pub fn load(folder: &Path) -> Result<Self, HarnessError> {
        Self::load_with(folder, CedarRules::parse)
    }

    /// As [`Self::load`], without a second check of files that were valid: see [`CedarRules::parse_marked`].
    ///
    /// # Errors
    /// As [`Self::load`].
    pub fn load_marked(folder: &Path, marker: &Path) -> Result<Self, HarnessError> {
        Self::load_with(folder, |files| CedarRules::parse_marked(files, marker))
    }

    fn load_with(
        folder: &Path,
        cedar: impl FnOnce(&[(String, String)]) -> Result<CedarRules, HarnessError>,
    ) -> Result<Self, HarnessError> {
        let (toml_files, cedar_files) = (files(folder, user::SUFFIX)?, files(folder, cedar::SUFFIX)?);
        let mut digest = Sha256::new();
        for (name, text) in toml_files.iter().chain(&cedar_files) {
            digest.update(format!("{} {name}\n{text}", text.len()));
        }
        let digest = crate::state::hex(&digest.finalize());
        let (toml, cedar) = (UserRules::parse(&toml_files)?, cedar(&cedar_files)?);
        let double = cedar.list().iter().find(|rule| toml.list().iter().any(|other| other.id == rule.id));
        if let Some(rule) = double {
            return Err(HarnessError::Invalid(format!(
                "{}: {}: a rule in TOML has this id; rename one",
                rule.origin, rule.id
            )));
        }
        Ok(Self { toml, cedar, digest })
    }

    /// The rules, by their kind.
    pub fn evaluators(&self) -> [&dyn Evaluator; 2] {
        [&self.toml, &self.cedar]
    }

    /// The ids and examples of all rules.
    pub fn examples(&self) -> Vec<(&str, &Examples)> {
        let toml = self.toml.list().iter().map(|rule| (rule.id.as_str(), &rule.examples));
        toml.chain(self.cedar.list().iter().map(|rule| (rule.id.as_str(), &rule.examples))).collect()
    }

    /// Where a rule stands.
    pub fn origin(&self, id: &str) -> Option<Origin> {
        let toml = self.toml.origin(id);
        toml.or_else(|| Some(self.cedar.list().iter().find(|rule| rule.id == id)?.origin.clone()))
    }

    /// Names the set of rules: changes when a file changes.
    pub fn digest(&self) -> &str {
        &self.digest
    }
}

/// The names and texts of the files of a folder that end with a suffix.
fn files(folder: &Path, suffix: &str) -> Result<Vec<(String, String)>, HarnessError> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(HarnessError::system(folder.display(), error)),
    };
    let mut paths = Vec::new();
    for entry in entries {
        // A file that cannot be listed may be the one that forbids.
        let path = entry.map_err(|error| HarnessError::system(folder.display(), error))?.path();
        if path.to_string_lossy().ends_with(suffix) {
            paths.push(path);
        }
    }
    paths.sort();
    let read = |path: &PathBuf| {
        let text = fs::read_to_string(path).map_err(|error| HarnessError::system(path.display(), error))?;
        Ok((path.display().to_string(), text))
    };
    paths.iter().map(read).collect()
}
