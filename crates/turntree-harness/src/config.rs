//! `turntree.toml`, typed.

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::HarnessError;
use crate::policy::decision::Level;
use crate::toml_file;

/// What `turntree.toml` says of the harness layer. Unknown keys are an error: a misspelled rule must not be silent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Policies.
    pub policy: PolicyConfig,
    /// Coordination.
    pub coordination: CoordinationConfig,
}

/// The table `[policy]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PolicyConfig {
    /// Levels of rules, by their id: `"worktree.required" = "recommended"`.
    pub levels: BTreeMap<String, Setting>,
    /// The folder of the files `*.policy.toml` and `*.cedar`, below the main working tree.
    pub folder: String,
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
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

impl From<Level> for Setting {
    fn from(level: Level) -> Self {
        match level {
            Level::Required => Self::Required,
            Level::Recommended => Self::Recommended,
            Level::Optional => Self::Optional,
        }
    }
}

impl Default for PolicyConfig {
    fn default() -> Self {
        let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        Self {
            levels: BTreeMap::new(),
            folder: "policies".to_owned(),
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
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CoordinationConfig {
    /// Seconds without a sign of life after which an agent counts as gone, if neither a lock nor its process tells.
    pub stale_after: u32,
    /// What counts as the same work: the whole `file`, or only lines of it that touch, for agents in different worktrees.
    pub overlap: Overlap,
}

/// What counts as the same work.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Overlap {
    /// The same file.
    #[default]
    File,
    /// The same lines of a file.
    Hunk,
}

impl Default for CoordinationConfig {
    fn default() -> Self {
        Self { stale_after: 120, overlap: Overlap::File }
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
            // A link to a file that is gone is not a missing file: what it said is not known.
            Err(error) if error.kind() == ErrorKind::NotFound && path.symlink_metadata().is_err() => {
                return Ok(Self::default());
            }
            Err(error) => return Err(HarnessError::system(path.display(), error)),
        };
        let config: Self = toml_file::parse(path, &text)?;
        let is_known =
            |id: &str| crate::policy::rules::is_rule(id) || id.starts_with(crate::policy::user::PREFIX);
        let unknown = config.policy.levels.keys().find(|id| !is_known(id));
        if let Some(id) = unknown {
            return Err(HarnessError::Invalid(format!(
                "{}: policy.levels: no rule has the id \"{id}\"; `turntree policy list` shows them",
                path.display()
            )));
        }
        Ok(config)
    }
}

/// The JSON Schema of `turntree.toml`.
pub fn schema() -> serde_json::Value {
    let mut schema = schemars::schema_for!(Config).to_value();
    if let Some(object) = schema.as_object_mut() {
        object.insert("title".to_owned(), "turntree.toml".into());
    }
    schema
}

/// The JSON Schema of files `*.policy.toml`.
pub fn policy_schema() -> serde_json::Value {
    let mut schema = schemars::schema_for!(crate::policy::user::PolicyFile).to_value();
    if let Some(object) = schema.as_object_mut() {
        object.insert("title".to_owned(), "*.policy.toml".into());
    }
    schema
}

/// The schema of files `*.cedar`, in Cedar's syntax.
pub fn cedar_schema() -> &'static str {
    turntree_cedar::SCHEMA
}
