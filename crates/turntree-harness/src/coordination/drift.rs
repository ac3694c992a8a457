//! Files that have changed on the base branch since a working tree has left it.

use rusqlite::OptionalExtension;

use crate::error::HarnessError;
use crate::git::{Layout, run};
use crate::path::composed;
use crate::project::Project;
use crate::state::State;

/// The most results that are kept.
const KEPT: u32 = 200;

/// The base branch on which a file has changed: a protected branch of `origin`, as it was fetched last, because a hook does
/// not use the network. Without one, it is the branch of the main working tree.
pub(super) fn base_of_changed(
    project: &Project,
    state: &State,
    layout: &Layout,
    relative: &str,
) -> Result<Option<String>, HarnessError> {
    let Some(head) = layout.head_commit() else { return Ok(None) };
    let bases = project.config.policy.protected_branches.iter().filter(|base| !base.contains('*'));
    let remotes = bases.map(|base| (format!("refs/remotes/origin/{base}"), format!("origin/{base}")));
    let main = || layout.main_branch().map(|branch| (format!("refs/heads/{branch}"), branch));
    let commit = |(reference, name): (String, String)| Some((layout.commit_of(&reference)?, name));
    let found = remotes.into_iter().find_map(commit).or_else(|| main().and_then(commit));
    let Some((base, name)) = found.filter(|(base, _)| *base != head) else { return Ok(None) };
    let relative = composed(relative);
    let paths = paths(project, state, layout, &head, &base)?;
    Ok(paths.iter().any(|path| composed(path) == relative).then_some(name))
}

/// The files, from the state if the same commits were compared before: a hook has no time for git.
fn paths(
    project: &Project,
    state: &State,
    layout: &Layout,
    head: &str,
    base: &str,
) -> Result<Vec<String>, HarnessError> {
    let key = (head.to_owned(), base.to_owned());
    let known = state.read(move |connection| {
        let mut statement =
            connection.prepare_cached("SELECT paths FROM drift WHERE head = ?1 AND base = ?2")?;
        Ok(statement.query_row((&key.0, &key.1), |row| row.get::<_, String>(0)).optional()?)
    })?;
    if let Some(text) = known {
        return Ok(serde_json::from_str(&text).unwrap_or_default());
    }
    // Unrelated histories have no common ancestor: nothing has drifted.
    let range = format!("{head}...{base}");
    let names = run(&layout.worktree, &["diff", "--name-only", "-z", "--no-renames", &range, "--"])
        .unwrap_or_default();
    let paths: Vec<String> = names.split('\0').filter(|name| !name.is_empty()).map(str::to_owned).collect();
    let row = (head.to_owned(), base.to_owned(), serde_json::json!(paths).to_string(), project.now());
    state.write(move |connection| {
        connection
            .prepare_cached("INSERT OR REPLACE INTO drift (head, base, paths, at) VALUES (?1, ?2, ?3, ?4)")?
            .execute((&row.0, &row.1, &row.2, row.3))?;
        connection
            .prepare_cached(
                "DELETE FROM drift WHERE at < (SELECT at FROM drift ORDER BY at DESC LIMIT 1 OFFSET ?1)",
            )?
            .execute([KEPT])?;
        Ok(())
    })?;
    Ok(paths)
}
