//! `turntree.toml`, typed.

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use serde::Deserialize;

use crate::error::HarnessError;
use crate::policy::decision::Level;

/// What `turntree.toml` says of the harness layer. Unknown keys are an error: a misspelled rule must not be silent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Policies.
    pub policy: PolicyConfig,
    /// Coordination.
    pub coordination: CoordinationConfig,
}

/// The table `[policy]`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PolicyConfig {
    /// Levels of rules, by their id: `"worktree.required" = "recommended"`.
    pub levels: BTreeMap<String, Setting>,
    /// Branches that agents do not commit or push to.
    pub protected_branches: Vec<String>,
    /// Patterns of paths in the main working tree that may be edited.
    pub main_checkout_allowed: Vec<String>,
    /// Folders outside of the project that may be written.
    pub scratch: Vec<String>,
    /// Commits behind the base branch that warn.
    pub behind_warn: u32,
    /// Commits behind the base branch that deny.
    pub behind_deny: u32,
}

/// How a rule acts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Setting {
    /// It decides as it is made.
    Required,
    /// It warns.
    Recommended,
    /// It informs.
    Optional,
    /// It is recorded without effect.
    Shadow,
    /// It is not asked.
    Off,
}

impl Setting {
    /// The level; `None` for shadow and off.
    pub fn level(self) -> Option<Level> {
        match self {
            Self::Required => Some(Level::Required),
            Self::Recommended => Some(Level::Recommended),
            Self::Optional => Some(Level::Optional),
            Self::Shadow | Self::Off => None,
        }
    }
}

impl Default for PolicyConfig {
    fn default() -> Self {
        let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        Self {
            levels: BTreeMap::new(),
            protected_branches: owned(&["main", "master"]),
            main_checkout_allowed: owned(&[
                "**/node_modules/**",
                "**/target/**",
                "**/build/**",
                "**/dist/**",
                "**/__pycache__/**",
                ".venv/**",
            ]),
            scratch: owned(&["/tmp", "/var/tmp", "/dev/shm", "/private/tmp"]),
            behind_warn: 50,
            behind_deny: 200,
        }
    }
}

/// The table `[coordination]`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CoordinationConfig {
    /// Seconds without a sign of life after which an agent counts as gone.
    pub stale_after: u32,
}

impl Default for CoordinationConfig {
    fn default() -> Self {
        Self { stale_after: 120 }
    }
}

impl Config {
    /// Reads a file. A missing file has the defaults.
    ///
    /// # Errors
    /// [`HarnessError::Invalid`] with the place in the file.
    pub fn load(path: &Path) -> Result<Self, HarnessError> {
        let text = match fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(HarnessError::system(path.display(), error)),
        };
        let config: Self = toml::from_str(&text).map_err(|error| {
            HarnessError::Invalid(format!("{}: {}", path.display(), error.to_string().trim()))
        })?;
        let unknown = config.policy.levels.keys().find(|id| !crate::policy::rules::is_rule(id));
        if let Some(id) = unknown {
            return Err(HarnessError::Invalid(format!(
                "{}: policy.levels: no rule has the id \"{id}\"; `turntree policy list` shows them",
                path.display()
            )));
        }
        Ok(config)
    }
}
