//! Files that other agents have announced or claimed.

use std::cell::RefCell;

use rusqlite::OptionalExtension;

use crate::error::HarnessError;
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
        let (resource, agent) = (format!("file:{relative}"), agent.to_owned());
        self.state.read(move |connection| {
            let claim = connection
                .prepare_cached(
                    "SELECT owner FROM claim WHERE resource = ?1 AND owner <> ?2 AND released_at IS NULL \
                     AND expires_at > ?3 AND mode = 'exclusive'",
                )?
                .query_row((&resource, &agent, now), |row| row.get::<_, String>(0))
                .optional()?;
            if let Some(agent) = claim {
                return Ok(Some(OtherAgent { agent, is_live: true }));
            }
            let other = connection
                .prepare_cached(
                    "SELECT announcement.agent, max(announcement.at, coalesce(agent.last_seen_at, 0)) >= ?3 \
                     AND coalesce(agent.status, 'active') = 'active' AS live FROM announcement \
                     LEFT JOIN agent ON agent.id = announcement.agent WHERE resource = ?1 AND announcement.agent <> ?2 \
                     AND done_at IS NULL ORDER BY live DESC LIMIT 1",
                )?
                .query_row((&resource, &agent, oldest), |row| {
                    Ok(OtherAgent { agent: row.get(0)?, is_live: row.get(1)? })
                })
                .optional()?;
            Ok(other)
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
}
