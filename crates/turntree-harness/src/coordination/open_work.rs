//! Files that other agents have announced or claimed.

use std::cell::RefCell;

use rusqlite::OptionalExtension;

use super::drift;
use super::liveness::{COLUMNS, Signs, is_live, signs_of};
use crate::error::HarnessError;
use crate::git::Layout;
use crate::policy::context::{OtherAgent, Others};
use crate::project::Project;
use crate::state::State;

/// Looks into the state of a project.
#[derive(Debug)]
pub struct OpenWork<'a> {
    project: &'a Project,
    state: &'a State,
    error: RefCell<Option<HarnessError>>,
}

impl<'a> OpenWork<'a> {
    /// Looks into a state.
    pub fn new(project: &'a Project, state: &'a State) -> Self {
        Self { project, state, error: RefCell::new(None) }
    }

    /// The error of a look that failed.
    pub fn take_error(&self) -> Option<HarnessError> {
        self.error.borrow_mut().take()
    }

    fn find(&self, relative: &str, agent: &str) -> Result<Option<OtherAgent>, HarnessError> {
        let now = self.project.now();
        let oldest = now.saturating_sub(i64::from(self.project.config.coordination.stale_after) * 1_000);
        let folder = self.project.state_folder();
        let (resource, agent) = (super::resource_of_file(relative), agent.to_owned());
        self.state.read(move |connection| {
            let claim = connection
                .prepare_cached(
                    "SELECT owner FROM claim WHERE resource = ?1 AND owner <> ?2 AND released_at IS NULL \
                     AND expires_at > ?3 AND mode = 'exclusive'",
                )?
                .query_row((&resource, &agent, now), |row| row.get::<_, String>(0))
                .optional()?;
            if let Some(agent) = claim {
                return Ok(Some(OtherAgent { agent, is_live: true, lines: Vec::new(), worktree: None }));
            }
            let mut statement = connection.prepare_cached(&format!(
                "SELECT announcement.agent, announcement.at, announcement.ranges, agent.worktree, {COLUMNS} FROM announcement \
                 LEFT JOIN agent ON agent.id = announcement.agent WHERE resource = ?1 AND announcement.agent <> ?2 \
                 AND done_at IS NULL",
            ))?;
            let mut rows = statement.query((&resource, &agent))?;
            let mut found: Option<OtherAgent> = None;
            while let Some(row) = rows.next()? {
                let at: i64 = row.get(1)?;
                let is_known = row.get::<_, Option<String>>(4)?.is_some();
                let is_live = if is_known {
                    let signs = signs_of(row, 4)?;
                    // A fresh announcement is a sign of life too.
                    let signs = Signs { last_seen_at: signs.last_seen_at.max(at), ..signs };
                    is_live(&signs, &folder, oldest)
                } else {
                    at >= oldest
                };
                let ranges: String = row.get(2)?;
                let lines = serde_json::from_str(&ranges).unwrap_or_default();
                let other = OtherAgent { agent: row.get(0)?, is_live, lines, worktree: row.get(3)? };
                if found.as_ref().is_none_or(|found| other.is_live && !found.is_live) {
                    found = Some(other);
                }
            }
            Ok(found)
        })
    }
}

impl Others for OpenWork<'_> {
    fn on_file(&self, relative: &str, agent: &str) -> Option<OtherAgent> {
        self.find(relative, agent).unwrap_or_else(|error| {
            *self.error.borrow_mut() = Some(error);
            None
        })
    }

    fn has_drifted(&self, layout: &Layout, relative: &str) -> Option<String> {
        drift::base_of_changed(self.project, self.state, layout, relative).unwrap_or_else(|error| {
            *self.error.borrow_mut() = Some(error);
            None
        })
    }
}
