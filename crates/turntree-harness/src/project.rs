//! A project: the main working tree, whatever working tree or folder a caller is in.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use turntree_core::time::{Clock, SystemClock};

use crate::config::Config;
use crate::error::HarnessError;
use crate::git::Layout;
use crate::state::State;

/// The folder of a project's state, in its main working tree.
pub const STATE_FOLDER: &str = ".turntree";

/// The file of a project's configuration.
pub const CONFIG_FILE: &str = "turntree.toml";

/// A project and where its state is.
#[derive(Debug, Clone)]
pub struct Project {
    /// The main working tree.
    pub root: PathBuf,
    /// The working tree that the caller is in; the same as the root if it is the main one.
    pub worktree: PathBuf,
    /// Git's folders, if the project is a repository.
    pub layout: Option<Layout>,
    /// What `turntree.toml` says.
    pub config: Arc<Config>,
    problem: Option<Arc<str>>,
    clock: Arc<dyn Clock>,
}

impl Project {
    /// The project of a folder: its git repository, else the nearest folder above with `turntree.toml`, else the folder.
    ///
    /// # Errors
    /// [`HarnessError::Invalid`] if the folder does not exist or `turntree.toml` is not valid.
    pub fn find(folder: &Path) -> Result<Self, HarnessError> {
        Self::find_with_clock(folder, Arc::new(SystemClock))
    }

    /// As [`Self::find`], with a clock.
    ///
    /// # Errors
    /// As [`Self::find`].
    pub fn find_with_clock(folder: &Path, clock: Arc<dyn Clock>) -> Result<Self, HarnessError> {
        let (root, worktree, layout) = locate(folder)?;
        let config = Arc::new(Config::load(&root.join(CONFIG_FILE))?);
        Ok(Self { root, worktree, layout, config, problem: None, clock })
    }

    /// As [`Self::find`], with the defaults if `turntree.toml` is not valid: a hook must not stop guarding because of it.
    /// [`Self::problem`] has what is wrong then, and the gate lets no action pass without a person.
    ///
    /// # Errors
    /// [`HarnessError::Invalid`] if the folder does not exist.
    pub fn find_guarded(folder: &Path) -> Result<Self, HarnessError> {
        let (root, worktree, layout) = locate(folder)?;
        let (config, problem) = match Config::load(&root.join(CONFIG_FILE)) {
            Ok(config) => (config, None),
            Err(error) => (Config::default(), Some(one_line(&error.to_string()).into())),
        };
        let (config, clock) = (Arc::new(config), Arc::new(SystemClock));
        Ok(Self { root, worktree, layout, config, problem, clock })
    }

    /// What is wrong with `turntree.toml`, in one line. The defaults apply then.
    pub fn problem(&self) -> Option<&str> {
        self.problem.as_deref()
    }

    /// The folder of the state.
    pub fn state_folder(&self) -> PathBuf {
        self.root.join(STATE_FOLDER)
    }

    /// The current time, in milliseconds since 1970.
    pub fn now(&self) -> i64 {
        self.clock.now().microseconds() / 1_000
    }

    /// Opens the state, and creates it if it does not exist.
    ///
    /// # Errors
    /// [`HarnessError::System`] if the folder cannot be created, and the errors of the state file.
    pub fn state(&self) -> Result<State, HarnessError> {
        let folder = self.state_folder();
        fs::create_dir_all(&folder).map_err(|error| HarnessError::system(folder.display(), error))?;
        let ignore = folder.join(".gitignore");
        if !ignore.exists() {
            fs::write(&ignore, "*\n").map_err(|error| HarnessError::system(ignore.display(), error))?;
        }
        State::open(&folder.join("state.db"))
    }
}

/// The message of a parser in one line of at most 400 characters, without the lines that point below what they quote.
fn one_line(message: &str) -> String {
    let lines = message.lines().map(str::trim).filter(|line| !line.starts_with('|') && !line.is_empty());
    lines.collect::<Vec<_>>().join(": ").chars().take(400).collect()
}

fn locate(folder: &Path) -> Result<(PathBuf, PathBuf, Option<Layout>), HarnessError> {
    let folder = folder.canonicalize().map_err(|error| {
        HarnessError::Invalid(format!("path: the folder \"{}\" cannot be opened: {error}", folder.display()))
    })?;
    if let Some(layout) = Layout::find(&folder) {
        return Ok((layout.main_worktree(), layout.worktree.clone(), Some(layout)));
    }
    // A link to a file that is gone says where the project is, too.
    let has_config = |folder: &&Path| folder.join(CONFIG_FILE).symlink_metadata().is_ok();
    let root = folder.ancestors().find(has_config).unwrap_or(&folder).to_owned();
    Ok((root.clone(), root, None))
}
