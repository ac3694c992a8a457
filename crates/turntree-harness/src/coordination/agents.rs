//! Agents, their signs of life, and what they announce.

use std::path::Path;

use rusqlite::Connection;
use serde::Serialize;
use serde_json::json;
use turntree_store::engines::sqlite::Failure;

use super::Coordination;
use super::claims::canonical;
use super::liveness::{self, COLUMNS, Process, is_live, signs_of};
use super::overlaps::{MAX_RESOURCE, Overlaps};
use crate::error::HarnessError;
use crate::state::{new_id, record};

/// An agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Agent {
    /// Its id.
    pub id: String,
    /// The harness.
    pub harness: String,
    /// The working tree.
    pub worktree: String,
    /// `active` or `completed`.
    pub status: String,
    /// When it was seen, in milliseconds since 1970.
    pub last_seen_at: i64,
    /// Whether it counts as alive.
    pub is_live: bool,
}

/// What an agent works on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Announcement {
    /// The agent.
    pub agent: String,
    /// The resource: `file:src/a.rs`.
    pub resource: String,
    /// What it does with it.
    pub intent: String,
    /// More about it.
    pub note: String,
    /// When it was announced.
    pub at: i64,
}

impl Coordination {
    pub(super) fn oldest(&self) -> i64 {
        self.project.now().saturating_sub(i64::from(self.project.config.coordination.stale_after) * 1_000)
    }

    /// Registers an agent, or makes one active again.
    ///
    /// # Errors
    /// The errors of the state file.
    pub fn register(&self, agent: &str, harness: &str, session: &str) -> Result<(), HarnessError> {
        self.register_process(agent, harness, session, None)
    }

    /// As [`Self::register`], for an agent that is this process.
    ///
    /// # Errors
    /// As [`Self::register`].
    pub fn register_own(&self, agent: &str, harness: &str) -> Result<(), HarnessError> {
        self.register_process(agent, harness, "", Process::own())
    }

    fn register_process(
        &self,
        agent: &str,
        harness: &str,
        session: &str,
        own: Option<Process>,
    ) -> Result<(), HarnessError> {
        let now = self.project.now();
        // The process of a hook's harness is a guess until the next event comes from it too.
        let is_confirmed = own.is_some();
        let process = own.or_else(|| self.harness_process.clone());
        let (agent, harness, session) = (agent.to_owned(), harness.to_owned(), session.to_owned());
        let worktree = self.project.worktree.display().to_string();
        let branch = self.project.layout.as_ref().and_then(crate::git::Layout::branch);
        self.state.write(move |connection| {
            connection
                .prepare_cached(
                    "INSERT INTO agent (id, name, harness, session, worktree, branch, status, started_at, last_seen_at) \
                     VALUES (?1, ?1, ?2, ?3, ?4, ?5, 'active', ?6, ?6) ON CONFLICT (id) DO UPDATE SET status = 'active', \
                     worktree = ?4, branch = ?5, last_seen_at = ?6",
                )?
                .execute((&agent, &harness, &session, &worktree, &branch, now))?;
            set_process(connection, &agent, process.as_ref(), is_confirmed)?;
            record(connection, now, "agent.registered", &agent, &agent, &json!({"harness": harness}))
        })
    }

    /// Notes a sign of life. Registers an agent that is not known.
    ///
    /// # Errors
    /// The errors of the state file.
    pub fn seen(&self, agent: &str) -> Result<(), HarnessError> {
        let (now, id) = (self.project.now(), agent.to_owned());
        let process = self.harness_process.clone();
        let count = self.state.write(move |connection| {
            let count = touch(connection, &id, now)?;
            set_process(connection, &id, process.as_ref(), false)?;
            Ok(count)
        })?;
        if count == 0 { self.register(agent, "", "") } else { Ok(()) }
    }

    /// Ends an agent: its announcements are done, its claims are released. Others are not touched.
    ///
    /// # Errors
    /// The errors of the state file.
    pub fn leave(&self, agent: &str) -> Result<(), HarnessError> {
        let (now, agent) = (self.project.now(), agent.to_owned());
        self.state.write(move |connection| {
            liveness::end(connection, &agent, now)?;
            record(connection, now, "agent.completed", &agent, &agent, &json!({}))
        })
    }

    /// The agents, the newest sign of life first.
    ///
    /// # Errors
    /// The errors of the state file.
    pub fn agents(&self) -> Result<Vec<Agent>, HarnessError> {
        let (oldest, folder) = (self.oldest(), self.project.state_folder());
        self.state.read(move |connection| {
            let mut statement = connection.prepare_cached(&format!(
                "SELECT harness, worktree, {COLUMNS} FROM agent ORDER BY last_seen_at DESC LIMIT 200",
            ))?;
            let agents = statement.query_map([], |row| {
                let signs = signs_of(row, 2)?;
                let is_live = is_live(&signs, &folder, oldest);
                let status = if signs.is_active { "active" } else { "completed" }.to_owned();
                let (id, last_seen_at) = (signs.id, signs.last_seen_at);
                Ok(Agent { id, harness: row.get(0)?, worktree: row.get(1)?, status, last_seen_at, is_live })
            })?;
            Ok(agents.collect::<Result<_, _>>()?)
        })
    }

    /// Announces work on a resource. Returns what other live agents have announced that overlaps with it: the same
    /// resource, folders and patterns (`file:src/**/*.rs`) that may have the same files, and files of the same folder.
    ///
    /// # Errors
    /// [`HarnessError::Invalid`] for a resource of more than [`MAX_RESOURCE`] bytes, and the errors of the state file.
    pub fn announce(
        &self,
        agent: &str,
        resource: &str,
        intent: &str,
        note: &str,
    ) -> Result<Overlaps, HarnessError> {
        if resource.len() > MAX_RESOURCE {
            return Err(HarnessError::Invalid(format!(
                "resource: expected at most {MAX_RESOURCE} bytes, got {}; announce the folder",
                resource.len()
            )));
        }
        let resource = self.resource_name(resource);
        self.announce_lines(agent, &resource, intent, note, &[])?;
        let (oldest, folder) = (self.oldest(), self.project.state_folder());
        let texts = [agent, &resource, intent].map(str::to_owned);
        self.state.read(move |connection| {
            let [agent, resource, intent] = &texts;
            Overlaps::find(connection, &folder, (agent, resource, intent), oldest)
        })
    }

    /// The name of a resource in claims and announcements. One that is outside of the project or has no kind is unchanged.
    pub fn resource_name(&self, resource: &str) -> String {
        canonical(&self.project, resource).unwrap_or_else(|_| resource.to_owned())
    }

    /// Announces work on lines of a file, or on the whole file if there are none. Returns what other live agents have
    /// announced for the same file.
    ///
    /// # Errors
    /// The errors of the state file.
    pub fn announce_lines(
        &self,
        agent: &str,
        resource: &str,
        intent: &str,
        note: &str,
        lines: &[(u32, u32)],
    ) -> Result<Vec<Announcement>, HarnessError> {
        self.seen(agent)?;
        let (now, oldest, folder) = (self.project.now(), self.oldest(), self.project.state_folder());
        let lines = json!(lines).to_string();
        let texts = [agent, resource, intent, note].map(str::to_owned);
        self.state.write(move |connection| {
            let [agent, resource, intent, note] = &texts;
            finish_gone(connection, &folder, resource, agent, (now, oldest))?;
            connection
                .prepare_cached(
                    "INSERT INTO announcement (id, agent, resource, intent, note, at, ranges) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7) \
                     ON CONFLICT (agent, resource) WHERE done_at IS NULL DO UPDATE SET intent = ?4, note = ?5, at = ?6, \
                     ranges = CASE WHEN ranges = '[]' OR ?7 = '[]' THEN '[]' ELSE (SELECT json_group_array(json(value)) FROM \
                     (SELECT value FROM json_each(announcement.ranges) UNION SELECT value FROM json_each(?7))) END",
                )?
                .execute((new_id(now), agent, resource, intent, note, now, &lines))?;
            record(connection, now, "work.announced", resource, agent, &json!({"intent": intent}))?;
            open(connection, Some((resource, agent)))
        })
    }

    /// Ends an announcement. False if there was none.
    ///
    /// # Errors
    /// The errors of the state file.
    pub fn complete(&self, agent: &str, resource: &str) -> Result<bool, HarnessError> {
        let now = self.project.now();
        let (agent, resource) = (agent.to_owned(), self.resource_name(resource));
        self.state.write(move |connection| {
            let mut statement = connection.prepare_cached(
                "UPDATE announcement SET done_at = ?3 WHERE agent = ?1 AND resource = ?2 AND done_at IS NULL",
            )?;
            Ok(statement.execute((&agent, &resource, now))? > 0)
        })
    }

    /// All open announcements, the newest first.
    ///
    /// # Errors
    /// The errors of the state file.
    pub fn announcements(&self) -> Result<Vec<Announcement>, HarnessError> {
        self.state.read(|connection| open(connection, None))
    }

    /// Adds an event about an agent.
    pub(crate) fn mark(&self, agent: &str, kind: &'static str, subject: &str) -> Result<(), HarnessError> {
        let now = self.project.now();
        let (agent, subject) = (agent.to_owned(), subject.to_owned());
        self.state.write(move |connection| record(connection, now, kind, &subject, &agent, &json!({})))
    }

    /// Adds an event once. False if it was there.
    pub(crate) fn mark_once(&self, agent: &str, subject: &str) -> Result<bool, HarnessError> {
        let now = self.project.now();
        let (agent, subject) = (agent.to_owned(), subject.to_owned());
        self.state.write(move |connection| {
            let mut statement = connection.prepare_cached(
                "INSERT INTO event (at, kind, subject, actor, payload) SELECT ?1, 'once', ?2, ?3, '{}' WHERE NOT EXISTS \
                 (SELECT 1 FROM event WHERE kind = 'once' AND subject = ?2 AND actor = ?3)",
            )?;
            Ok(statement.execute((now, &subject, &agent))? > 0)
        })
    }
}

/// Ends the announcements for a resource of other agents that are gone.
fn finish_gone(
    connection: &Connection,
    folder: &Path,
    resource: &str,
    agent: &str,
    (now, oldest): (i64, i64),
) -> Result<(), Failure> {
    let mut statement = connection.prepare_cached(&format!(
        "SELECT announcement.id, announcement.at, {COLUMNS} FROM announcement LEFT JOIN agent \
         ON agent.id = announcement.agent WHERE resource = ?1 AND announcement.agent <> ?2 AND done_at IS NULL",
    ))?;
    let mut rows = statement.query((resource, agent))?;
    let mut gone: Vec<String> = Vec::new();
    while let Some(row) = rows.next()? {
        let at: i64 = row.get(1)?;
        let is_known = row.get::<_, Option<String>>(2)?.is_some();
        let is_here = if is_known { is_live(&signs_of(row, 2)?, folder, oldest) } else { at >= oldest };
        if !is_here {
            gone.push(row.get(0)?);
        }
    }
    for id in gone {
        connection
            .prepare_cached("UPDATE announcement SET done_at = ?2 WHERE id = ?1")?
            .execute((&id, now))?;
    }
    Ok(())
}

/// Stores the process of an agent. One that was there before is confirmed.
fn set_process(
    connection: &Connection,
    agent: &str,
    process: Option<&Process>,
    is_confirmed: bool,
) -> Result<(), Failure> {
    let Some(Process { pid, start, host }) = process else { return Ok(()) };
    connection
        .prepare_cached(
            "UPDATE agent SET confirmed = ?5 OR (confirmed AND pid IS ?2 AND pid_start IS ?3) OR (pid IS ?2 AND pid_start IS ?3), \
             pid = ?2, pid_start = ?3, host = ?4 WHERE id = ?1",
        )?
        .execute((agent, pid, start, host, is_confirmed))?;
    Ok(())
}

fn touch(connection: &Connection, agent: &str, now: i64) -> Result<usize, Failure> {
    let mut statement =
        connection.prepare_cached("UPDATE agent SET last_seen_at = ?2, status = 'active' WHERE id = ?1")?;
    Ok(statement.execute((agent, now))?)
}

/// Open announcements: all, or those of others for a resource.
fn open(connection: &Connection, of: Option<(&str, &str)>) -> Result<Vec<Announcement>, Failure> {
    let (resource, agent) = of.unzip();
    let mut statement = connection.prepare_cached(
        "SELECT agent, resource, intent, note, at FROM announcement WHERE done_at IS NULL AND (?1 IS NULL OR resource = ?1) \
         AND (?2 IS NULL OR agent <> ?2) ORDER BY at DESC LIMIT 500",
    )?;
    let found = statement.query_map((resource, agent), |row| {
        Ok(Announcement {
            agent: row.get(0)?,
            resource: row.get(1)?,
            intent: row.get(2)?,
            note: row.get(3)?,
            at: row.get(4)?,
        })
    })?;
    Ok(found.collect::<Result<_, _>>()?)
}
