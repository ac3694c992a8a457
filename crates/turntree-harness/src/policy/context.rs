//! What is known around an action: places of files, branches, other agents.

use std::cell::RefCell;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

use turntree_core::runtime::environment;

use crate::git::Layout;
use crate::project::Project;

/// Where a file is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The path on this disk, links followed.
    pub real: String,
    /// The path below its working tree, or below the project.
    pub relative: Option<String>,
    /// Whether it is in the main working tree of the project's repository.
    pub is_main_checkout: bool,
    /// Whether it belongs to the project.
    pub is_inside: bool,
    /// Whether it is in the data of git.
    pub is_git_data: bool,
}

/// Another agent that works on a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OtherAgent {
    /// Its id.
    pub agent: String,
    /// Whether it has shown a sign of life in time.
    pub is_live: bool,
    /// The lines that it changes; none for the whole file.
    pub lines: Vec<(u32, u32)>,
    /// Its working tree, if it is known.
    pub worktree: Option<String>,
}

/// What is known around an action.
#[derive(Debug)]
pub struct Context<'a> {
    /// The project.
    pub project: &'a Project,
    /// The folder of the user.
    pub home: Option<String>,
    /// Finds who else works on a path below the working tree.
    pub others: &'a dyn Others,
    seen: Seen,
}

/// What was looked at on the disk. Rules ask about the same paths, and one decision is about one state of the disk.
#[derive(Debug, Default)]
struct Seen {
    places: RefCell<HashMap<String, Place>>,
    /// What [`Layout::at`] says about folders.
    layouts: RefCell<HashMap<PathBuf, Option<Layout>>>,
}

impl Seen {
    fn layout(&self, path: &Path) -> Option<Layout> {
        let mut layouts = self.layouts.borrow_mut();
        path.ancestors().find_map(|folder| {
            if let Some(known) = layouts.get(folder) {
                return known.clone();
            }
            layouts.entry(folder.to_owned()).or_insert_with(|| Layout::at(folder)).clone()
        })
    }
}

/// Knows who works on what.
pub trait Others: std::fmt::Debug {
    /// Another agent that has announced or claimed the file.
    fn on_file(&self, relative: &str, agent: &str) -> Option<OtherAgent>;

    /// The index that a commit takes, if git has made one for it.
    fn index(&self) -> Option<&Path> {
        None
    }

    /// The base branch, if a file has changed there since the head of a working tree has left it.
    fn has_drifted(&self, _layout: &Layout, _relative: &str) -> Option<String> {
        None
    }
}

/// Knows nobody.
#[derive(Debug)]
pub struct Alone;

impl Others for Alone {
    fn on_file(&self, _relative: &str, _agent: &str) -> Option<OtherAgent> {
        None
    }
}

impl<'a> Context<'a> {
    /// What is known around the actions of one decision.
    pub fn new(project: &'a Project, home: Option<String>, others: &'a dyn Others) -> Self {
        Self { project, home, others, seen: Seen::default() }
    }

    /// The folder of the user.
    pub fn home_of_environment() -> Option<String> {
        environment("HOME").or_else(|| environment("USERPROFILE"))
    }

    /// Where a file is, or would be.
    pub fn place(&self, path: &str) -> Place {
        if let Some(known) = self.seen.places.borrow().get(path) {
            return known.clone();
        }
        let place = self.look(path);
        self.seen.places.borrow_mut().insert(path.to_owned(), place.clone());
        place
    }

    fn look(&self, path: &str) -> Place {
        let real = crate::path::resolve(path);
        let layout = self.seen.layout(Path::new(&real));
        let own = self.project.layout.as_ref().map(|layout| &layout.common_dir);
        let is_same = layout.as_ref().is_some_and(|layout| Some(&layout.common_dir) == own);
        let root = self.project.root.to_string_lossy();
        let below_root = crate::path::below(&root, &real);
        let is_git_data =
            own.is_some_and(|folder| crate::path::below(&folder.to_string_lossy(), &real).is_some());
        let base =
            layout.as_ref().filter(|_| is_same).map(|layout| layout.worktree.to_string_lossy().into_owned());
        let relative = base.as_deref().map_or(below_root, |base| crate::path::below(base, &real));
        Place {
            relative: relative.map(str::to_owned),
            is_main_checkout: is_same && layout.is_some_and(|layout| !layout.is_linked()),
            is_inside: is_same || below_root.is_some(),
            is_git_data,
            real,
        }
    }

    /// The working tree of a folder.
    pub fn layout(&self, folder: &str) -> Option<Layout> {
        self.seen.layout(Path::new(&crate::path::resolve(folder)))
    }

    /// The branch of a folder.
    pub fn branch(&self, folder: &str) -> Option<String> {
        self.layout(folder)?.branch()
    }

    /// Whether agents must not change a branch.
    pub fn is_protected(&self, branch: &str) -> bool {
        self.project
            .config
            .policy
            .protected_branches
            .iter()
            .any(|pattern| crate::path::matches(pattern, branch))
    }

    /// Whether a path may be written although it is outside of the project.
    pub fn is_scratch(&self, real: &str) -> bool {
        let devices = ["/dev/null", "/dev/stdout", "/dev/stderr", "/dev/tty", "/dev/zero", "/dev/fd"];
        devices.iter().any(|device| crate::path::below(device, real).is_some())
            || self.project.config.policy.scratch.iter().any(|folder| {
                let folder = folder.replacen(
                    '~',
                    self.home.as_deref().unwrap_or("~"),
                    usize::from(folder.starts_with("~/")),
                );
                // A project in a scratch folder is not scratch itself.
                let root = self.project.root.to_string_lossy();
                let has_project = crate::path::below(&folder, &root).is_some();
                crate::path::below(&folder, real).is_some()
                    && !(has_project && crate::path::below(&root, real).is_some())
            })
    }
}
