//! A repository with a linked worktree.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A folder that is removed at the end.
pub(crate) struct Repository {
    folder: PathBuf,
}

impl Drop for Repository {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

impl Repository {
    /// A repository with one commit on main, and a worktree on feature/x. It is outside of `/tmp`, which may be written.
    pub(crate) fn new() -> Self {
        let name =
            format!("harness-{}", turntree_core::ids::IdSource::string(&turntree_core::ids::RandomIds));
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        fs::create_dir_all(folder.join("main")).unwrap();
        let folder = folder.canonicalize().unwrap();
        let repository = Self { folder };
        let main = repository.main();
        git(&main, &["init", "-q", "-b", "main"]);
        fs::write(main.join("a.rs"), "fn a() {}\n").unwrap();
        git(&main, &["add", "."]);
        git(&main, &["commit", "-qm", "Start"]);
        git(&main, &["worktree", "add", "-q", "-b", "feature/x", "../tree"]);
        repository
    }

    pub(crate) fn main(&self) -> PathBuf {
        self.folder.join("main")
    }

    pub(crate) fn tree(&self) -> PathBuf {
        self.folder.join("tree")
    }
}

pub(crate) fn git(folder: &Path, arguments: &[&str]) {
    let settings = ["-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "commit.gpgsign=false"];
    let status = Command::new("git")
        .arg("-C")
        .arg(folder)
        .args(settings)
        .args(arguments)
        .stdout(Stdio::null())
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .status()
        .unwrap();
    assert!(status.success(), "git {arguments:?}");
}
