//! Messages with receipts, and the board.

use rusqlite::Connection;
use serde_json::json;
use turntree_store::engines::sqlite::Failure;

use super::Coordination;
use crate::error::HarnessError;
use crate::state::{new_id, record};

/// A message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// Its id.
    pub id: String,
    /// The channel.
    pub channel: String,
    /// Who has sent it.
    pub from: String,
    /// Whom it is for; `None`: all agents.
    pub to: Option<String>,
    /// The text.
    pub text: String,
    /// When it was sent, in milliseconds since 1970.
    pub at: i64,
}

/// A post on the board. Reading does not consume it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Post {
    /// Its id.
    pub id: String,
    /// Who has posted it.
    pub agent: String,
    /// `note`, `finding`, `dead-end`, `norm` or `flag`.
    pub kind: String,
    /// The text.
    pub text: String,
    /// When, in milliseconds since 1970.
    pub at: i64,
}

const KINDS: &[&str] = &["note", "finding", "dead-end", "norm", "flag"];

impl Coordination {
    /// Sends a message to an agent, or to all. Returns its id.
    ///
    /// # Errors
    /// The errors of the state file.
    pub fn send(
        &self,
        from: &str,
        to: Option<&str>,
        channel: &str,
        text: &str,
        priority: i64,
    ) -> Result<String, HarnessError> {
        let now = self.project.now();
        let id = new_id(now);
        let (own, to) = (id.clone(), to.map(str::to_owned));
        let texts = [from, channel, text].map(str::to_owned);
        self.state.write(move |connection| {
            let [from, channel, text] = &texts;
            connection
                .prepare_cached(
                    "INSERT INTO message (id, channel, from_agent, to_agent, text, priority, at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
                )?
                .execute((&own, channel, from, &to, text, priority, now))?;
            record(connection, now, "message.sent", channel, from, &json!({"to": to}))
        })?;
        Ok(id)
    }

    /// Takes the unread messages of an agent, the most urgent first: each is returned once. Own messages are not returned,
    /// nor those that were sent before the agent was registered.
    ///
    /// # Errors
    /// The errors of the state file.
    pub fn inbox(&self, agent: &str) -> Result<Vec<Message>, HarnessError> {
        let (now, agent) = (self.project.now(), agent.to_owned());
        self.state.write(move |connection| {
            let messages = unread(connection, &agent, now)?;
            for message in &messages {
                connection
                    .prepare_cached("INSERT INTO receipt (message, agent, read_at) VALUES (?1, ?2, ?3)")?
                    .execute((&message.id, &agent, now))?;
            }
            Ok(messages)
        })
    }

    /// Posts on the board. Returns the id.
    ///
    /// # Errors
    /// [`HarnessError::Invalid`] for an unknown kind.
    pub fn post(&self, agent: &str, kind: &str, text: &str) -> Result<String, HarnessError> {
        if !KINDS.contains(&kind) {
            return Err(HarnessError::Invalid(format!(
                "kind: expected one of {}, got \"{kind}\"",
                KINDS.join(", ")
            )));
        }
        let now = self.project.now();
        let id = new_id(now);
        let priority = if kind == "flag" { 8 } else { 5 };
        let (own, texts) = (id.clone(), [agent, kind, text].map(str::to_owned));
        self.state.write(move |connection| {
            let [agent, kind, text] = &texts;
            connection
                .prepare_cached("INSERT INTO board_post (id, agent, kind, text, priority, at) VALUES (?1, ?2, ?3, ?4, ?5, ?6)")?
                .execute((&own, agent, kind, text, priority, now))?;
            record(connection, now, "board.posted", kind, agent, &json!({}))
        })?;
        Ok(id)
    }

    /// The newest posts of the board, the newest first.
    ///
    /// # Errors
    /// The errors of the state file.
    pub fn board(&self, limit: u32) -> Result<Vec<Post>, HarnessError> {
        self.state.read(move |connection| {
            let mut statement = connection.prepare_cached(
                "SELECT id, agent, kind, text, at FROM board_post ORDER BY id DESC LIMIT ?1",
            )?;
            let posts = statement.query_map([limit], |row| {
                Ok(Post {
                    id: row.get(0)?,
                    agent: row.get(1)?,
                    kind: row.get(2)?,
                    text: row.get(3)?,
                    at: row.get(4)?,
                })
            })?;
            Ok(posts.collect::<Result<_, _>>()?)
        })
    }
}

fn unread(connection: &Connection, agent: &str, now: i64) -> Result<Vec<Message>, Failure> {
    let mut statement = connection.prepare_cached(
        "SELECT id, channel, from_agent, to_agent, text, at FROM message WHERE from_agent <> ?1 \
         AND (to_agent = ?1 OR (to_agent IS NULL AND at >= coalesce((SELECT started_at FROM agent WHERE agent.id = ?1), 0))) \
         AND (expires_at IS NULL OR expires_at > ?2) \
         AND NOT EXISTS (SELECT 1 FROM receipt WHERE receipt.message = message.id AND receipt.agent = ?1) \
         ORDER BY priority DESC, id LIMIT 200",
    )?;
    let messages = statement.query_map((agent, now), |row| {
        Ok(Message {
            id: row.get(0)?,
            channel: row.get(1)?,
            from: row.get(2)?,
            to: row.get(3)?,
            text: row.get(4)?,
            at: row.get(5)?,
        })
    })?;
    Ok(messages.collect::<Result<_, _>>()?)
}
