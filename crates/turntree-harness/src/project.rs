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
        Ok(Self { root, worktree, layout, config, clock })
    }

    /// As [`Self::find`], with the defaults if `turntree.toml` is not valid: a hook must not stop guarding because of it.
    ///
    /// # Errors
    /// [`HarnessError::Invalid`] if the folder does not exist.
    pub fn find_guarded(folder: &Path) -> Result<(Self, Option<HarnessError>), HarnessError> {
        let (root, worktree, layout) = locate(folder)?;
        let (config, error) = match Config::load(&root.join(CONFIG_FILE)) {
            Ok(config) => (config, None),
            Err(error) => (Config::default(), Some(error)),
        };
        Ok((Self { root, worktree, layout, config: Arc::new(config), clock: Arc::new(SystemClock) }, error))
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

fn locate(folder: &Path) -> Result<(PathBuf, PathBuf, Option<Layout>), HarnessError> {
    let folder = folder.canonicalize().map_err(|error| {
        HarnessError::Invalid(format!("path: the folder \"{}\" cannot be opened: {error}", folder.display()))
    })?;
    if let Some(layout) = Layout::find(&folder) {
        return Ok((layout.main_worktree(), layout.worktree.clone(), Some(layout)));
    }
    let root =
        folder.ancestors().find(|folder| folder.join(CONFIG_FILE).exists()).unwrap_or(&folder).to_owned();
    Ok((root.clone(), root, None))
}
