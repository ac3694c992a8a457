//! The statement that lists sessions.

use rusqlite::{Connection, named_params};
use turntree_core::time::Timestamp;

use super::failure::Failure;
use super::log::{INFO, info_of};
use crate::engine::{SessionPage, SessionQuery, SessionStatus};
use crate::page::Pager;

pub(super) fn sessions(connection: &Connection, query: &SessionQuery) -> Result<SessionPage, Failure> {
    let pager = Pager::new(query)?;
    let (after_time, after_id) = pager.after().map_or((i64::MAX, ""), |position| {
        let time = position.updated_at.0;
        (time.microseconds(), &*position.id)
    });
    let oldest = query.updated_after.map_or(i64::MIN, |time| time.microseconds().saturating_add(1));
    let newest = query.updated_before.map_or(i64::MAX, Timestamp::microseconds).min(after_time);
    // One more than the page has says whether others follow.
    let limit = i64::try_from(query.limit).unwrap_or(i64::MAX).saturating_add(1);
    let mut statement = connection.prepare_cached(&format!(
        "SELECT {INFO} FROM sessions \
         WHERE updated_at BETWEEN :oldest AND :newest AND (updated_at < :after_time OR id > :after_id) \
         AND (:agent IS NULL OR agent = :agent) AND (:status IS NULL OR status = :status) \
         ORDER BY updated_at DESC, id LIMIT :limit"
    ))?;
    let values = named_params! {
        ":oldest": oldest,
        ":newest": newest,
        ":after_time": after_time,
        ":after_id": after_id,
        ":agent": query.agent,
        ":status": query.status.map(SessionStatus::as_str),
        ":limit": limit,
    };
    let rows = statement.query_map(values, info_of)?;
    let mut sessions = rows.collect::<Result<Vec<_>, _>>()?;
    let has_more = sessions.len() > query.limit;
    sessions.truncate(query.limit);
    Ok(pager.finish(sessions, has_more))
}
