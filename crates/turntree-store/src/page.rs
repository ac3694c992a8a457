//! Pages of a list of sessions.

use std::cmp::{Ordering, Reverse};
use std::sync::Arc;

use turntree_core::time::Timestamp;

use crate::engine::{SessionInfo, SessionPage, SessionQuery};
use crate::error::StoreError;

/// The position of a session in the list: the most recently updated first, then by id.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// When the session last changed.
    pub updated_at: Reverse<Timestamp>,
    /// The id of the session.
    pub id: Arc<str>,
}

impl Position {
    /// The position of a session.
    pub fn of(info: &SessionInfo) -> Self {
        Self { updated_at: Reverse(info.updated_at), id: Arc::clone(&info.id) }
    }

    /// The text of the position: microseconds since 1970, a colon, and the id.
    pub fn to_text(&self) -> String {
        format!("{}:{}", self.updated_at.0.microseconds(), self.id)
    }

    fn parse(text: &str) -> Result<Self, StoreError> {
        let parts = text.split_once(':').and_then(|(time, id)| Some((time.parse().ok()?, id)));
        let Some((microseconds, id)) = parts else {
            let start: String = text.chars().take(64).collect();
            return Err(StoreError::Invalid(format!(
                "after: \"{start}\" is not the position of a page; pass `next` of the page before"
            )));
        };
        Ok(Self { updated_at: Reverse(Timestamp::from_microseconds(microseconds)), id: id.into() })
    }
}

/// Makes the page that a query asks for.
#[derive(Debug)]
pub struct Pager<'a> {
    query: &'a SessionQuery,
    after: Option<Position>,
}

impl<'a> Pager<'a> {
    /// Reads a query.
    ///
    /// # Errors
    /// [`StoreError::Invalid`] if the limit is zero or `after` is not the position of a page.
    pub fn new(query: &'a SessionQuery) -> Result<Self, StoreError> {
        if query.limit == 0 {
            return Err(StoreError::Invalid("limit: expected a number greater than zero".to_owned()));
        }
        let after = query.after.as_deref().map(Position::parse).transpose()?;
        Ok(Self { query, after })
    }

    /// The position after which the page starts.
    pub fn after(&self) -> Option<&Position> {
        self.after.as_ref()
    }

    /// Returns whether the filters of the query select a session that comes after the position.
    pub fn selects(&self, info: &SessionInfo) -> bool {
        let query = self.query;
        query.agent.as_deref().is_none_or(|agent| *info.agent == *agent)
            && query.status.is_none_or(|status| info.status == status)
            && query.updated_after.is_none_or(|time| info.updated_at > time)
            && query.updated_before.is_none_or(|time| info.updated_at <= time)
            && self.after.as_ref().is_none_or(|after| Position::of(info) > *after)
    }

    /// Makes the page from all sessions, in any order.
    pub fn page<'s>(&self, sessions: impl Iterator<Item = &'s SessionInfo>) -> SessionPage {
        let mut selected: Vec<&SessionInfo> = sessions.filter(|info| self.selects(info)).collect();
        let limit = self.query.limit;
        let order = |a: &&SessionInfo, b: &&SessionInfo| -> Ordering {
            b.updated_at.cmp(&a.updated_at).then_with(|| a.id.cmp(&b.id))
        };
        let has_more = selected.len() > limit;
        if has_more {
            // Only the sessions of the page are sorted.
            selected.select_nth_unstable_by(limit, order);
            selected.truncate(limit);
        }
        selected.sort_unstable_by(order);
        self.finish(selected.into_iter().cloned().collect(), has_more)
    }

    /// Makes the page from its sessions in order. `has_more`: other sessions follow.
    pub fn finish(&self, sessions: Vec<SessionInfo>, has_more: bool) -> SessionPage {
        let next = sessions.last().filter(|_| has_more).map(|last| Position::of(last).to_text());
        SessionPage { sessions, next }
    }
}
