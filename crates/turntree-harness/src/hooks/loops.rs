//! Repeated calls of a tool with the same arguments.

use sha2::{Digest, Sha256};

use crate::error::HarnessError;
use crate::policy::action::{Action, ActionKind};
use crate::policy::decision::Outcome;
use crate::project::Project;
use crate::state::State;

/// The time in which calls are counted.
const WINDOW_MS: i64 = 300_000;

/// Calls closer than this are one: harnesses report some calls twice.
const SAME_MS: i64 = 5_000;

/// Calls that note, warn, and end the turn.
const LIMITS: [(u32, Outcome); 3] = [(200, Outcome::Deny), (50, Outcome::Warn), (15, Outcome::Warn)];

/// Counts a call. Returns the number of calls and the outcome if a limit is reached.
pub(super) fn count(
    project: &Project,
    state: &State,
    action: &Action,
) -> Result<Option<(u32, Outcome)>, HarnessError> {
    let detail = match &action.kind {
        ActionKind::Shell { command, .. } => command.clone(),
        ActionKind::Edit { added, .. } => format!("{:?} {added}", action.paths),
        _ => format!("{:?} {}", action.paths, action.facts()),
    };
    let digest = Sha256::digest(format!("{}\0{detail}", action.tool()).as_bytes());
    let hash = crate::state::hex(digest.get(..16).unwrap_or_default());
    let (session, now) = (action.session.clone(), project.now());
    let count: u32 = state.write(move |connection| {
        connection.prepare_cached("DELETE FROM tool_call WHERE at < ?1")?.execute([now - WINDOW_MS])?;
        connection
            .prepare_cached(
                "INSERT INTO tool_call (session, hash, at) SELECT ?1, ?2, ?3 WHERE NOT EXISTS \
                 (SELECT 1 FROM tool_call WHERE session = ?1 AND hash = ?2 AND at > ?4)",
            )?
            .execute((&session, &hash, now, now - SAME_MS))?;
        let mut statement =
            connection.prepare_cached("SELECT count(*) FROM tool_call WHERE session = ?1 AND hash = ?2")?;
        Ok(statement.query_row((&session, &hash), |row| row.get(0))?)
    })?;
    Ok(LIMITS.iter().find(|(limit, _)| count >= *limit).map(|(_, outcome)| (count, *outcome)))
}
