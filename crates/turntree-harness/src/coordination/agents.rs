//! Agents, their signs of life, and what they announce.

use rusqlite::Connection;
use serde_json::json;
use turntree_store::engines::sqlite::Failure;

use super::Coordination;
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
#[derive(Debug, Clone, PartialEq, Eq)]
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
    fn oldest(&self) -> i64 {
        self.project.now().saturating_sub(i64::from(self.project.config.coordination.stale_after) * 1_000)
    }

    /// Registers an agent, or makes one active again.
    ///
    /// # Errors
    /// The errors of the state file.
    pub fn register(&self, agent: &str, harness: &str, session: &str) -> Result<(), HarnessError> {
        let now = self.project.now();
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
            record(connection, now, "agent.registered", &agent, &agent, &json!({"harness": harness}))
        })
    }

    /// Notes a sign of life. Registers an agent that is not known.
    ///
    /// # Errors
    /// The errors of the state file.
    pub fn seen(&self, agent: &str) -> Result<(), HarnessError> {
        let (now, id) = (self.project.now(), agent.to_owned());
        let count = self.state.write(move |connection| touch(connection, &id, now))?;
        if count == 0 { self.register(agent, "", "") } else { Ok(()) }
    }

    /// Ends an agent: its announcements are done, its claims are released. Others are not touched.
    ///
    /// # Errors
    /// The errors of the state file.
    pub fn leave(&self, agent: &str) -> Result<(), HarnessError> {
        let (now, agent) = (self.project.now(), agent.to_owned());
        self.state.write(move |connection| {
            let statements = [
                "UPDATE agent SET status = 'completed', last_seen_at = ?2 WHERE id = ?1",
                "UPDATE announcement SET done_at = ?2 WHERE agent = ?1 AND done_at IS NULL",
                "UPDATE claim SET released_at = ?2 WHERE owner = ?1 AND released_at IS NULL",
            ];
            for statement in statements {
                connection.prepare_cached(statement)?.execute((&agent, now))?;
            }
            record(connection, now, "agent.completed", &agent, &agent, &json!({}))
        })
    }

    /// The agents, the newest sign of life first.
    ///
    /// # Errors
    /// The errors of the state file.
    pub fn agents(&self) -> Result<Vec<Agent>, HarnessError> {
        let oldest = self.oldest();
        self.state.read(move |connection| {
            let mut statement = connection.prepare_cached(
                "SELECT id, harness, worktree, status, last_seen_at FROM agent ORDER BY last_seen_at DESC LIMIT 200",
            )?;
            let agents = statement.query_map([], |row| {
                let (status, last_seen_at): (String, i64) = (row.get(3)?, row.get(4)?);
                let is_live = status == "active" && last_seen_at >= oldest;
                Ok(Agent { id: row.get(0)?, harness: row.get(1)?, worktree: row.get(2)?, status, last_seen_at, is_live })
            })?;
            Ok(agents.collect::<Result<_, _>>()?)
        })
    }

    /// Announces work on a resource. Returns what other live agents have announced for it.
    ///
    /// # Errors
    /// The errors of the state file.
    pub fn announce(
        &self,
        agent: &str,
        resource: &str,
        intent: &str,
        note: &str,
    ) -> Result<Vec<Announcement>, HarnessError> {
        self.seen(agent)?;
        let (now, oldest) = (self.project.now(), self.oldest());
        let texts = [agent, resource, intent, note].map(str::to_owned);
        self.state.write(move |connection| {
            let [agent, resource, intent, note] = &texts;
            // Announcements of agents that are gone are done.
            connection
                .prepare_cached(
                    "UPDATE announcement SET done_at = ?1 WHERE resource = ?2 AND agent <> ?3 AND done_at IS NULL AND at < ?4 \
                     AND NOT EXISTS (SELECT 1 FROM agent WHERE agent.id = announcement.agent AND last_seen_at >= ?4 AND status = 'active')",
                )?
                .execute((now, resource, agent, oldest))?;
            connection
                .prepare_cached(
                    "INSERT INTO announcement (id, agent, resource, intent, note, at) VALUES (?1, ?2, ?3, ?4, ?5, ?6) \
                     ON CONFLICT (agent, resource) WHERE done_at IS NULL DO UPDATE SET intent = ?4, note = ?5, at = ?6",
                )?
                .execute((new_id(now), agent, resource, intent, note, now))?;
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
        let (agent, resource) = (agent.to_owned(), resource.to_owned());
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
