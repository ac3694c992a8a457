//! Variables and the working directory, at each point of a script.

use std::collections::BTreeMap;

use super::git_aliases::ReadGitAliases;

/// Where a script starts.
#[derive(Debug, Clone, Default)]
pub struct Surroundings {
    /// The working directory, absolute; `None` if it is not known.
    pub cwd: Option<String>,
    /// The folder of the user, which `~` and `$HOME` name.
    pub home: Option<String>,
    /// Reads the aliases of git that are configured for a folder; without it they are not followed.
    pub git_aliases: Option<ReadGitAliases>,
}

/// The most open scopes. Deeper ones make the text count as not understood.
const MAX_DEPTH: usize = 64;

/// What the end of a scope does to changes made in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ScopeKind {
    /// They are undone: a subshell.
    Subshell,
    /// They may or may not have happened: a branch, a loop, the right side of `&&`.
    Conditional,
}

struct Scope {
    end: usize,
    kind: ScopeKind,
    cwd: Option<String>,
    variables: BTreeMap<String, Option<String>>,
}

/// Variables whose text is known, and the working directory.
pub(super) struct State {
    pub(super) cwd: Option<String>,
    pub(super) home: Option<String>,
    /// `None`: the variable is set to something that is not known.
    variables: BTreeMap<String, Option<String>>,
    scopes: Vec<Scope>,
}

impl State {
    pub(super) fn new(surroundings: &Surroundings) -> Self {
        Self {
            cwd: surroundings.cwd.clone(),
            home: surroundings.home.clone(),
            variables: BTreeMap::new(),
            scopes: Vec::new(),
        }
    }

    /// Opens a scope that ends at the byte `end`. False if there are too many.
    pub(super) fn open(&mut self, end: usize, kind: ScopeKind) -> bool {
        if self.scopes.len() >= MAX_DEPTH {
            return false;
        }
        let (cwd, variables) = (self.cwd.clone(), self.variables.clone());
        self.scopes.push(Scope { end, kind, cwd, variables });
        true
    }

    /// Closes the scopes that end at or before the byte `at`.
    pub(super) fn close_before(&mut self, at: usize) {
        while let Some(scope) = self.scopes.pop_if(|scope| scope.end <= at) {
            match scope.kind {
                ScopeKind::Subshell => {
                    self.cwd = scope.cwd;
                    self.variables = scope.variables;
                }
                ScopeKind::Conditional => {
                    if self.cwd != scope.cwd {
                        self.cwd = None;
                    }
                    for (name, value) in &mut self.variables {
                        if scope.variables.get(name) != Some(value) {
                            *value = None;
                        }
                    }
                }
            }
        }
    }

    pub(super) fn set(&mut self, name: &str, value: Option<String>) {
        self.variables.insert(name.to_owned(), value);
    }

    /// Makes every variable unknown: code that is not seen may have changed it.
    pub(super) fn forget(&mut self) {
        for value in self.variables.values_mut() {
            *value = None;
        }
    }

    /// The value of a variable; `None` if it is not known.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        match (self.variables.get(name), name) {
            (Some(value), _) => value.as_deref(),
            (None, "HOME") => self.home.as_deref(),
            (None, "PWD") => self.cwd.as_deref(),
            (None, _) => None,
        }
    }

    /// Whether the script has set a variable, also to a value that is not known.
    pub(super) fn is_set(&self, name: &str) -> bool {
        self.variables.contains_key(name)
    }

    /// Whether the script has changed how words are split.
    pub(super) fn has_own_separators(&self) -> bool {
        self.variables.contains_key("IFS")
    }
}
