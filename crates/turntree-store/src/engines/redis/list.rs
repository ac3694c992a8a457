//! The list of sessions, and the check of the keys.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use turntree_core::time::Timestamp;

use super::Server;
use super::connection::Lease;
use super::keys::{self, BUCKETS, SessionKeys, TIME_DIGITS};
use super::log::{Fields, INFO};
use crate::engine::{SessionPage, SessionQuery, StoreIssue};
use crate::engines::network::Failure;
use crate::page::Pager;

/// The number of places that are read from each bucket at once, at least.
const MIN_PLACES: usize = 32;

/// The number of places or keys that are read at once, at most.
const MAX_PLACES: usize = 1000;

/// The number of sessions that are checked at once.
const CHECKS: usize = 100;

/// Reads what the check compares.
const CHECK: &str = include_str!("scripts/check.lua");

impl Server {
    pub(super) async fn sessions(&self, query: &SessionQuery) -> Result<SessionPage, Failure> {
        let pager = Pager::new(query)?;
        let mut lease = self.link.get().await?;
        let mut first = first_place(query, &pager);
        let last = query
            .updated_after
            .map_or_else(|| "+".to_owned(), |time| format!("({}", keys::time_digits(time)));
        let mut found = Vec::new();
        loop {
            let (places, is_end) = self.places(&mut lease, &first, &last, query.limit).await?;
            let Some(end) = places.last().cloned() else { break };
            let infos = self.fields(&mut lease, &places).await?;
            for (place, fields) in places.iter().zip(infos) {
                let Some(id) = place.get(TIME_DIGITS..) else { continue };
                // Another writer has deleted the session since.
                if fields.iter().all(Option::is_none) {
                    continue;
                }
                let info = self.info_of(id, &fields)?;
                // Another writer has moved the session before this page since.
                if place.starts_with(&keys::time_digits(info.updated_at)) && pager.selects(&info) {
                    found.push(info);
                }
                if found.len() > query.limit {
                    found.truncate(query.limit);
                    return Ok(pager.finish(found, true));
                }
            }
            if is_end {
                break;
            }
            first = format!("({end}");
        }
        Ok(pager.finish(found, false))
    }

    /// Reads the next places of all buckets, in order. True if there are no others.
    async fn places(
        &self,
        lease: &mut Lease,
        first: &str,
        last: &str,
        limit: usize,
    ) -> Result<(Vec<String>, bool), Failure> {
        let count = limit.saturating_add(1).clamp(MIN_PLACES, MAX_PLACES);
        let mut pipe = redis::pipe();
        for bucket in 0..BUCKETS {
            let command = pipe.cmd("ZRANGEBYLEX").arg(keys::index(self.link.prefix(), bucket));
            command.arg(first).arg(last).arg("LIMIT").arg(0).arg(count);
        }
        let result = pipe.query_async(&mut lease.connection).await;
        let buckets: Vec<Vec<String>> = self.link.end(lease, result)?;
        // A bucket with as many places as were asked for may have others after its last one, which come before greater
        // places of other buckets.
        let complete =
            buckets.iter().filter(|places| places.len() >= count).filter_map(|places| places.last()).min();
        let complete = complete.cloned();
        let mut places: Vec<String> = buckets.into_iter().flatten().collect();
        places.sort_unstable();
        if let Some(complete) = &complete {
            places.truncate(places.partition_point(|place| place <= complete));
        }
        Ok((places, complete.is_none()))
    }

    /// Reads the states of sessions.
    async fn fields(&self, lease: &mut Lease, places: &[String]) -> Result<Vec<Fields>, Failure> {
        let mut found = Vec::with_capacity(places.len());
        for places in places.chunks(MAX_PLACES) {
            let mut pipe = redis::pipe();
            for place in places {
                let id = place.get(TIME_DIGITS..).unwrap_or_default();
                pipe.cmd("HMGET").arg(SessionKeys::new(self.link.prefix(), id).head).arg(&INFO);
            }
            let result = pipe.query_async(&mut lease.connection).await;
            let batch: Vec<Fields> = self.link.end(lease, result)?;
            found.extend(batch);
        }
        Ok(found)
    }

    pub(super) async fn check(&self) -> Result<Vec<StoreIssue>, Failure> {
        let mut lease = self.link.get().await?;
        let mut sessions = self.listed(&mut lease).await?;
        self.add_stored(&mut lease, &mut sessions).await?;
        let sessions: Vec<(String, BTreeSet<String>)> = sessions.into_iter().collect();
        let mut issues = Vec::new();
        for sessions in sessions.chunks(CHECKS) {
            let mut pipe = redis::pipe();
            for (id, places) in sessions {
                let keys = SessionKeys::new(self.link.prefix(), id);
                let command = pipe.cmd("EVAL").arg(CHECK).arg(4).arg(keys.head).arg(keys.log);
                command.arg(keys.blobs).arg(keys.index).arg(places);
            }
            let result = pipe.query_async(&mut lease.connection).await;
            let states: Vec<LogState> = self.link.end(&lease, result)?;
            for ((id, _), state) in sessions.iter().zip(&states) {
                let issue = |message| StoreIssue { session: Some(Arc::from(id.as_str())), message };
                issues.extend(defect(state).map(issue));
            }
        }
        Ok(issues)
    }

    /// The sessions of the index.
    async fn listed(&self, lease: &mut Lease) -> Result<Places, Failure> {
        let mut sessions = Places::new();
        for bucket in 0..BUCKETS {
            let mut cursor = 0_u64;
            loop {
                let mut command = redis::cmd("ZSCAN");
                command.arg(keys::index(self.link.prefix(), bucket)).arg(cursor).arg("COUNT").arg(MAX_PLACES);
                let result = command.query_async(&mut lease.connection).await;
                let (next, places): (u64, Vec<(String, f64)>) = self.link.end(lease, result)?;
                for (place, _) in places {
                    let id = place.get(TIME_DIGITS..).unwrap_or_default().to_owned();
                    sessions.entry(id).or_default().insert(place);
                }
                cursor = next;
                if cursor == 0 {
                    break;
                }
            }
        }
        Ok(sessions)
    }

    /// Adds the sessions that have a key but no place.
    async fn add_stored(&self, lease: &mut Lease, sessions: &mut Places) -> Result<(), Failure> {
        let prefix = self.link.prefix();
        let pattern = format!("{}:{{*}}:*", escaped(prefix));
        let mut cursor = 0_u64;
        loop {
            let mut command = redis::cmd("SCAN");
            command.arg(cursor).arg("MATCH").arg(&pattern).arg("COUNT").arg(MAX_PLACES);
            let result = command.query_async(&mut lease.connection).await;
            let (next, found): (u64, Vec<String>) = self.link.end(lease, result)?;
            for (kind, id) in found.iter().filter_map(|key| keys::parse(prefix, key)) {
                if kind != "index" {
                    sessions.entry(id.to_owned()).or_default();
                }
            }
            cursor = next;
            if cursor == 0 {
                return Ok(());
            }
        }
    }
}

/// Sessions by id, with their places in the index.
type Places = BTreeMap<String, BTreeSet<String>>;

/// What the script `check` returns.
type LogState = (bool, String, Vec<u8>, u64, Vec<u8>, bool, bool, bool);

fn defect(state: &LogState) -> Option<String> {
    let (has_head, revision, digest, entries, last, has_blobs, is_listed, is_stale) = state;
    let revision: u64 = revision.parse().unwrap_or_default();
    if *is_stale {
        return Some("the index has another place of the session as well".to_owned());
    }
    if !has_head {
        // Deleted since the keys were read, unless something is left.
        let is_left = *entries > 0 || *has_blobs;
        return is_left.then(|| format!("{entries} entries, and blobs, belong to no head"));
    }
    if *entries == 0 {
        return Some("the log has no entries".to_owned());
    }
    if *entries > revision {
        return Some(format!("the log ends at entry {revision}, but has {entries} entries"));
    }
    if digest != last {
        return Some(format!("the digest of entry {revision} is not that of the session's head"));
    }
    (!is_listed).then(|| "the session is not in the index".to_owned())
}

/// The first place of a page, as an argument of a range.
fn first_place(query: &SessionQuery, pager: &Pager<'_>) -> String {
    let after = pager.after().map(keys::place);
    let before = query.updated_before.map(|time: Timestamp| keys::time_digits(time));
    match (after, before) {
        (Some(after), Some(before)) if before > after => format!("[{before}"),
        (Some(after), _) => format!("({after}"),
        (None, Some(before)) => format!("[{before}"),
        (None, None) => "-".to_owned(),
    }
}

/// A text as a pattern that only this text matches.
fn escaped(text: &str) -> String {
    text.chars().fold(String::new(), |mut pattern, character| {
        if matches!(character, '*' | '?' | '[' | ']' | '\\' | '^') {
            pattern.push('\\');
        }
        pattern.push(character);
        pattern
    })
}
