//! Worktrees of a project, and forecasts of merge conflicts.

use std::path::PathBuf;

use super::Coordination;
use crate::error::HarnessError;
use crate::git::{run, run_any};

/// A worktree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Worktree {
    /// Its name: `001-parser`.
    pub name: String,
    /// The branch: `feature/001-parser`.
    pub branch: String,
    /// The folder.
    pub path: PathBuf,
}

/// Two branches that would conflict.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflict {
    /// One branch.
    pub ours: String,
    /// The other one.
    pub theirs: String,
    /// The files.
    pub files: Vec<String>,
}

/// What would happen if all worktrees were merged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Forecast {
    /// The pairs that would conflict.
    pub conflicts: Vec<Conflict>,
    /// The branches of linked worktrees, in the order in which to merge them.
    pub order: Vec<String>,
}

/// The name of a branch or a commit. Git takes one that begins with `-` for an option.
fn revision<'a>(argument: &str, name: &'a str) -> Result<&'a str, HarnessError> {
    if name.is_empty() || name.starts_with('-') {
        return Err(HarnessError::Invalid(format!(
            "{argument}: expected the name of a branch or a commit, got \"{name}\""
        )));
    }
    Ok(name)
}

impl Coordination {
    /// Creates a worktree `.worktrees/NNN-name` on the branch `feature/NNN-name`.
    ///
    /// # Errors
    /// [`HarnessError::Invalid`] for a name that is not made of letters, digits and `-`, or outside of a repository; the
    /// errors of git.
    pub fn create_worktree(&self, name: &str, base: Option<&str>) -> Result<Worktree, HarnessError> {
        let is_valid = !name.is_empty()
            && name.len() <= 60
            && !name.starts_with('-')
            && name.chars().all(|char| char.is_ascii_alphanumeric() || matches!(char, '-' | '_'));
        if !is_valid {
            return Err(HarnessError::Invalid(format!(
                "name: expected letters, digits and \"-\", got \"{name}\""
            )));
        }
        if self.project.layout.is_none() {
            return Err(HarnessError::Invalid(format!(
                "\"{}\" is not a git repository",
                self.project.root.display()
            )));
        }
        let base = revision("base", base.unwrap_or("HEAD"))?.to_owned();
        let (now, root, slug_name, from) =
            (self.project.now(), self.project.root.clone(), name.to_owned(), base.clone());
        let worktree = self.state.write(move |connection| {
            let number: i64 = connection.query_row("SELECT coalesce(max(number), 0) + 1 FROM worktree", [], |row| row.get(0))?;
            let name = format!("{number:03}-{slug_name}");
            let path = root.join(".worktrees").join(&name);
            let branch = format!("feature/{name}");
            connection
                .prepare_cached(
                    "INSERT INTO worktree (slug, number, branch, path, base, created_at, status) VALUES (?1, ?2, ?3, ?4, ?5, ?6, 'active')",
                )?
                .execute((&name, number, &branch, path.to_string_lossy(), &from, now))?;
            Ok(Worktree { name, branch, path })
        })?;
        self.exclude_worktrees()?;
        let path = worktree.path.to_string_lossy().into_owned();
        let added = run(&self.project.root, &["worktree", "add", "-q", "-b", &worktree.branch, &path, &base]);
        if let Err(error) = added {
            self.forget_worktree(&worktree.name)?;
            return Err(error);
        }
        Ok(worktree)
    }

    /// Git does not show the folder of worktrees as new files.
    fn exclude_worktrees(&self) -> Result<(), HarnessError> {
        let folder = self.project.root.join(".worktrees");
        let create =
            std::fs::create_dir_all(&folder).and_then(|()| std::fs::write(folder.join(".gitignore"), "*\n"));
        create.map_err(|error| HarnessError::system(folder.display(), error))
    }

    fn forget_worktree(&self, name: &str) -> Result<(), HarnessError> {
        let name = name.to_owned();
        self.state.write(move |connection| {
            connection
                .prepare_cached("UPDATE worktree SET status = 'removed' WHERE slug = ?1")?
                .execute([&name])?;
            Ok(())
        })
    }

    /// The worktrees that git knows, the main one first.
    ///
    /// # Errors
    /// The errors of git.
    pub fn worktrees(&self) -> Result<Vec<Worktree>, HarnessError> {
        let text = run(&self.project.root, &["worktree", "list", "--porcelain"])?;
        let mut found = Vec::new();
        for block in text.split("\n\n") {
            let field = |name: &str| block.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
            let Some(path) = field("worktree ").map(PathBuf::from) else { continue };
            let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            let branch = field("branch refs/heads/").unwrap_or_default().to_owned();
            found.push(Worktree { name, branch, path });
        }
        Ok(found)
    }

    /// Removes a worktree. The branch stays.
    ///
    /// # Errors
    /// [`HarnessError::Invalid`] if there is none of that name, if it is the main one, or if it has uncommitted changes and
    /// `force` is false.
    pub fn remove_worktree(&self, name: &str, force: bool) -> Result<(), HarnessError> {
        let linked = self.worktrees()?.into_iter().skip(1).find(|worktree| worktree.name == name);
        let Some(worktree) = linked else {
            return Err(HarnessError::Invalid(format!(
                "name: no worktree is named \"{name}\"; see `turntree worktree list`"
            )));
        };
        let is_dirty = !run(&worktree.path, &["status", "--porcelain"])?.trim().is_empty();
        if is_dirty && !force {
            return Err(HarnessError::Invalid(format!(
                "the worktree \"{name}\" has uncommitted changes; commit them, or remove it with force"
            )));
        }
        let path = worktree.path.to_string_lossy().into_owned();
        let mut arguments = vec!["worktree", "remove"];
        arguments.extend(force.then_some("--force"));
        arguments.push(&path);
        run(&self.project.root, &arguments)?;
        self.forget_worktree(name)
    }

    /// Which branches of the project's worktrees would conflict with each other, and an order to merge them: those with the
    /// fewest conflicts first.
    ///
    /// # Errors
    /// The errors of git.
    pub fn forecast_all(&self) -> Result<Forecast, HarnessError> {
        let mut branches: Vec<String> =
            self.worktrees()?.into_iter().map(|worktree| worktree.branch).collect();
        branches.retain(|branch| !branch.is_empty());
        let mut conflicts = Vec::new();
        let mut counts = vec![0_usize; branches.len()];
        for (first, ours) in branches.iter().enumerate() {
            for (second, theirs) in branches.iter().enumerate().skip(first + 1) {
                let files = self.forecast(ours, theirs)?;
                if files.is_empty() {
                    continue;
                }
                for index in [first, second] {
                    if let Some(count) = counts.get_mut(index) {
                        *count += files.len();
                    }
                }
                conflicts.push(Conflict { ours: ours.clone(), theirs: theirs.clone(), files });
            }
        }
        let mut order: Vec<(usize, String)> = counts.into_iter().zip(branches).skip(1).collect();
        order.sort();
        Ok(Forecast { conflicts, order: order.into_iter().map(|(_, branch)| branch).collect() })
    }

    /// The files in which two branches would conflict, without touching any working tree.
    ///
    /// # Errors
    /// The errors of git.
    pub fn forecast(&self, ours: &str, theirs: &str) -> Result<Vec<String>, HarnessError> {
        let (ours, theirs) = (revision("ours", ours)?, revision("theirs", theirs)?);
        let arguments = ["merge-tree", "--write-tree", "--name-only", "--no-messages", ours, theirs];
        let (code, out, err) = run_any(&self.project.root, &arguments)?;
        match code {
            Some(0) => Ok(Vec::new()),
            // Conflicts have a tree; a branch that does not exist ends with the same status and none.
            Some(1) if !out.is_empty() => {
                Ok(out.lines().skip(1).filter(|line| !line.is_empty()).map(str::to_owned).collect())
            }
            _ => Err(HarnessError::system("git merge-tree", err.trim())),
        }
    }
}
