//! Exceptions from rules, for a time, with a reason.

use crate::error::HarnessError;
use crate::project::Project;
use crate::state::{State, new_id, record};

/// The longest time of an exception: 24 hours.
pub const MAX_SECONDS: u32 = 86_400;

/// An exception.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Override {
    /// Its id.
    pub id: String,
    /// The rule.
    pub rule: String,
    /// Why.
    pub reason: String,
    /// Who has made it.
    pub author: String,
    /// When it ends, in milliseconds since 1970.
    pub until: i64,
}

/// Lets a rule warn for a time instead of blocking. The command line asks for a terminal before it calls this.
///
/// # Errors
/// [`HarnessError::Invalid`] for an unknown rule, an empty reason or a time that is not from 1 to [`MAX_SECONDS`].
pub fn add(
    project: &Project,
    state: &State,
    rule: &str,
    reason: &str,
    author: &str,
    seconds: u32,
) -> Result<Override, HarnessError> {
    if !super::rules::is_rule(rule) && !rule.starts_with(super::user::PREFIX) {
        return Err(HarnessError::Invalid(format!(
            "rule: no rule has the id \"{rule}\"; `turntree policy list` shows them"
        )));
    }
    if reason.trim().is_empty() {
        return Err(HarnessError::Invalid(
            "reason: expected a text that says why the rule does not apply".to_owned(),
        ));
    }
    if seconds == 0 || seconds > MAX_SECONDS {
        return Err(HarnessError::Invalid(format!("seconds: expected 1 to {MAX_SECONDS}, got {seconds}")));
    }
    let now = project.now();
    let until = now.saturating_add(i64::from(seconds) * 1_000);
    let entry = Override {
        id: new_id(now),
        rule: rule.to_owned(),
        reason: reason.to_owned(),
        author: author.to_owned(),
        until,
    };
    let stored = entry.clone();
    state.write(move |connection| {
        let mut statement = connection.prepare_cached(
            "INSERT INTO override (id, rule, reason, author, at, until) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        )?;
        statement.execute((&stored.id, &stored.rule, &stored.reason, &stored.author, now, stored.until))?;
        record(
            connection,
            now,
            "policy.override",
            &stored.rule,
            &stored.author,
            &serde_json::json!({"reason": stored.reason, "until": stored.until}),
        )
    })?;
    Ok(entry)
}

/// The exceptions that apply now.
///
/// # Errors
/// The errors of the state file.
pub fn active(state: &State, now: i64) -> Result<Vec<Override>, HarnessError> {
    state.read(move |connection| {
        let mut statement = connection.prepare_cached(
            "SELECT id, rule, reason, author, until FROM override WHERE at <= ?1 AND until > ?1",
        )?;
        let found = statement.query_map([now], |row| {
            Ok(Override {
                id: row.get(0)?,
                rule: row.get(1)?,
                reason: row.get(2)?,
                author: row.get(3)?,
                until: row.get(4)?,
            })
        })?;
        Ok(found.collect::<Result<_, _>>()?)
    })
}
