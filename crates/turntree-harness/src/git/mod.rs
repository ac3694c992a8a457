//! Git, read from its files where a hook needs it, and called as a program where that is not enough.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::error::HarnessError;

/// Variables that point git elsewhere or change what it does.
const REDIRECTIONS: &[&str] = &[
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_OBJECT_DIRECTORY",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_COMMON_DIR",
    "GIT_NAMESPACE",
    "GIT_CONFIG",
    "GIT_CONFIG_PARAMETERS",
    "GIT_CONFIG_COUNT",
    "GIT_CONFIG_GLOBAL",
    "GIT_CONFIG_SYSTEM",
    "GIT_GRAFT_FILE",
    "GIT_IMPLICIT_WORK_TREE",
    "GIT_NO_REPLACE_OBJECTS",
    "GIT_PREFIX",
    "GIT_REPLACE_REF_BASE",
    "GIT_SHALLOW_FILE",
    "GIT_CEILING_DIRECTORIES",
    "GIT_DISCOVERY_ACROSS_FILESYSTEM",
    "GIT_EXEC_PATH",
    "GIT_TEMPLATE_DIR",
    "GIT_EXTERNAL_DIFF",
    "GIT_DIFF_OPTS",
    "GIT_TRACE",
];

/// Where the parts of a git repository are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    /// The folder that the paths of this working tree start in.
    pub worktree: PathBuf,
    /// The folder of this working tree's own data.
    pub git_dir: PathBuf,
    /// The folder that all working trees share.
    pub common_dir: PathBuf,
}

impl Layout {
    /// The working tree that has a folder. The environment is not read: `GIT_DIR` and the like have no effect.
    pub fn find(folder: &Path) -> Option<Self> {
        folder.ancestors().find_map(Self::at)
    }

    /// The working tree that begins in a folder.
    pub(crate) fn at(folder: &Path) -> Option<Self> {
        let dot_git = folder.join(".git");
        let git_dir = if dot_git.is_dir() {
            dot_git
        } else {
            let text = fs::read_to_string(&dot_git).ok()?;
            folder.join(text.strip_prefix("gitdir:")?.trim())
        };
        if !git_dir.join("HEAD").exists() {
            return None;
        }
        let common_dir = match fs::read_to_string(git_dir.join("commondir")) {
            Ok(text) => git_dir.join(text.trim()),
            Err(_) => git_dir.clone(),
        };
        let real = |path: PathBuf| path.canonicalize().unwrap_or(path);
        Some(Self { worktree: real(folder.to_owned()), git_dir: real(git_dir), common_dir: real(common_dir) })
    }

    /// The main working tree: the folder that has the shared data. Of a bare repository: the folder around it that has
    /// `.turntree`, else its own.
    pub fn main_worktree(&self) -> PathBuf {
        match self.common_dir.parent() {
            Some(parent) if self.common_dir.ends_with(".git") => parent.to_owned(),
            Some(parent) if parent.join(crate::project::STATE_FOLDER).is_dir() => parent.to_owned(),
            _ => self.common_dir.clone(),
        }
    }

    /// Whether this is a linked working tree.
    pub fn is_linked(&self) -> bool {
        self.git_dir != self.common_dir
            && self.git_dir.parent().is_some_and(|folder| folder.ends_with("worktrees"))
    }

    /// The commit that is checked out.
    pub fn head_commit(&self) -> Option<String> {
        let head = fs::read_to_string(self.git_dir.join("HEAD")).ok()?;
        match head.trim().strip_prefix("ref: ") {
            Some(name) => self.commit_of(name),
            None => Some(head.trim().to_owned()),
        }
    }

    /// The commit of a reference: `refs/heads/main`.
    pub fn commit_of(&self, name: &str) -> Option<String> {
        if name.contains("..") {
            return None;
        }
        let loose = fs::read_to_string(self.common_dir.join(name)).ok();
        if let Some(commit) = loose {
            return Some(commit.trim().to_owned()).filter(|commit| !commit.starts_with("ref:"));
        }
        let packed = fs::read_to_string(self.common_dir.join("packed-refs")).ok()?;
        let found = packed.lines().find_map(|line| line.split_once(' ').filter(|(_, other)| *other == name));
        found.map(|(commit, _)| commit.to_owned())
    }

    /// The branch that is checked out; `None` on a detached head.
    pub fn branch(&self) -> Option<String> {
        branch_of(&self.git_dir)
    }

    /// The branch of the main working tree, or that a bare repository names.
    pub fn main_branch(&self) -> Option<String> {
        branch_of(&self.common_dir)
    }
}

fn branch_of(folder: &Path) -> Option<String> {
    let head = fs::read_to_string(folder.join("HEAD")).ok()?;
    Some(head.trim().strip_prefix("ref: refs/heads/")?.to_owned())
}

/// The aliases that are configured for a folder: names in lowercase, and values. None if git cannot tell.
pub fn aliases(folder: &str) -> Vec<(String, String)> {
    let listed =
        run(Path::new(folder), &["config", "--null", "--get-regexp", "^alias\\."]).unwrap_or_default();
    let entry = |entry: &str| {
        let (name, value) = entry.split_once('\n')?;
        Some((name.get("alias.".len()..)?.to_lowercase(), value.to_owned()))
    };
    listed.split('\0').filter_map(entry).collect()
}

/// Runs git in a folder, without the variables that point it elsewhere, and returns what it prints.
///
/// # Errors
/// [`HarnessError::System`] if git cannot be started or fails.
pub fn run(folder: &Path, arguments: &[&str]) -> Result<String, HarnessError> {
    run_on(None, folder, arguments)
}

/// As [`run`], with another index than that of the working tree.
///
/// # Errors
/// As [`run`].
pub fn run_on(index: Option<&Path>, folder: &Path, arguments: &[&str]) -> Result<String, HarnessError> {
    let (code, out, err) = start(index, folder, arguments)?;
    match code {
        Some(0) => Ok(out),
        _ => Err(HarnessError::system(format!("git {}", arguments.join(" ")), err.trim())),
    }
}

/// As [`run`], with the exit status and the error output.
///
/// # Errors
/// [`HarnessError::System`] if git cannot be started.
pub fn run_any(folder: &Path, arguments: &[&str]) -> Result<Ended, HarnessError> {
    start(None, folder, arguments)
}

/// The exit status, the output and the error output of a program.
type Ended = (Option<i32>, String, String);

fn start(index: Option<&Path>, folder: &Path, arguments: &[&str]) -> Result<Ended, HarnessError> {
    let mut command = Command::new("git");
    command.arg("-C").arg(folder).args(["-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null"]);
    command.args(arguments).stdin(Stdio::null());
    for name in REDIRECTIONS {
        command.env_remove(name);
    }
    if let Some(index) = index {
        command.env("GIT_INDEX_FILE", index);
    }
    command.env("GIT_TERMINAL_PROMPT", "0").env("LC_ALL", "C");
    let output = command.output().map_err(|error| HarnessError::system("git", error))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ok((output.status.code(), text(&output.stdout), text(&output.stderr)))
}
