//! Slots of models: how many calls of all processes run at once, with a limit that adapts.

use rusqlite::{Connection, OptionalExtension};
use turntree_store::engines::sqlite::Failure;

use super::Coordination;
use crate::error::HarnessError;
use crate::state::new_id;

/// The time without a failure after which a limit grows by one.
const COOLDOWN_MS: i64 = 10_000;

/// A slot of a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slot {
    /// Its id.
    pub id: String,
    /// The model or the machine.
    pub target: String,
    /// When it ends by itself, in milliseconds since 1970.
    pub expires_at: i64,
}

impl Coordination {
    /// Takes a slot of a target. `None` if all are taken.
    ///
    /// # Errors
    /// [`HarnessError::Invalid`] if the ceiling is 0.
    pub fn take_slot(
        &self,
        target: &str,
        holder: &str,
        ceiling: u32,
        ttl_ms: i64,
    ) -> Result<Option<Slot>, HarnessError> {
        super::claims::check_ttl(ttl_ms)?;
        if ceiling == 0 {
            return Err(HarnessError::Invalid("ceiling: expected a positive number of slots".to_owned()));
        }
        let now = self.project.now();
        let (target, holder) = (target.to_owned(), holder.to_owned());
        self.state.write(move |connection| {
            connection.prepare_cached("DELETE FROM model_lease WHERE target = ?1 AND expires_at <= ?2")?.execute((&target, now))?;
            let limit = limit(connection, &target, ceiling)?;
            let taken: u32 = connection
                .prepare_cached("SELECT count(*) FROM model_lease WHERE target = ?1")?
                .query_row([&target], |row| row.get(0))?;
            if taken >= limit {
                return Ok(None);
            }
            let slot = Slot { id: new_id(now), target: target.clone(), expires_at: now.saturating_add(ttl_ms) };
            connection
                .prepare_cached("INSERT INTO model_lease (id, target, holder, acquired_at, expires_at) VALUES (?1, ?2, ?3, ?4, ?5)")?
                .execute((&slot.id, &target, &holder, now, slot.expires_at))?;
            Ok(Some(slot))
        })
    }

    /// Gives a slot back and says how the call ended: a failure for lack of capacity halves the limit; a success after some
    /// time without one raises it by one, up to the ceiling.
    ///
    /// # Errors
    /// The errors of the state file.
    pub fn give_slot(&self, slot: &Slot, is_exhausted: bool) -> Result<(), HarnessError> {
        let (now, slot) = (self.project.now(), slot.clone());
        self.state.write(move |connection| {
            connection.prepare_cached("DELETE FROM model_lease WHERE id = ?1")?.execute([&slot.id])?;
            if is_exhausted {
                connection
                    .prepare_cached("UPDATE model_limit SET limit_value = max(1, limit_value / 2), changed_at = ?2 WHERE target = ?1")?
                    .execute((&slot.target, now))?;
            } else {
                connection
                    .prepare_cached(
                        "UPDATE model_limit SET limit_value = min(ceiling, limit_value + 1), changed_at = ?2 \
                         WHERE target = ?1 AND limit_value < ceiling AND changed_at <= ?3",
                    )?
                    .execute((&slot.target, now, now - COOLDOWN_MS))?;
            }
            Ok(())
        })
    }

    /// The current limit of a target; `None` if none of its slots was taken yet.
    ///
    /// # Errors
    /// The errors of the state file.
    pub fn slot_limit(&self, target: &str) -> Result<Option<u32>, HarnessError> {
        let target = target.to_owned();
        self.state.read(move |connection| {
            let mut statement =
                connection.prepare_cached("SELECT limit_value FROM model_limit WHERE target = ?1")?;
            Ok(statement.query_row([&target], |row| row.get(0)).optional()?)
        })
    }
}

fn limit(connection: &Connection, target: &str, ceiling: u32) -> Result<u32, Failure> {
    let mut statement = connection.prepare_cached(
        "INSERT INTO model_limit (target, limit_value, ceiling, changed_at) VALUES (?1, ?2, ?2, 0) \
         ON CONFLICT (target) DO UPDATE SET ceiling = ?2, limit_value = min(limit_value, ?2) RETURNING limit_value",
    )?;
    Ok(statement.query_row((target, ceiling), |row| row.get(0))?)
}
