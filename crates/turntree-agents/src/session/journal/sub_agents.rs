//! The logs of sub-agents in the log of the session that calls them.
//!
//! While a sub-agent runs, its session is saved with each save of the calling session. Each saved version has a number and
//! is an entry of a log of its own, so that its cost depends on what is new in it.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use crate::session::error::SessionError;
use crate::session::journal::entry::SubAgentEntry;
use crate::session::journal::{Journal, PreparedEntry};
use crate::session::json::SessionSnapshot;
use turntree_core::json::RawJson;

/// The logs of a journal's sub-agents.
#[derive(Debug, Default)]
pub(super) struct SubAgentLogs {
    /// The number of logs.
    count: u32,
    /// The number of versions in all logs.
    versions: u32,
    /// The logs of sub-agents that have not finished, by the ids of their sessions.
    open: HashMap<Arc<str>, OpenLog>,
    /// The numbers of versions by address. The sessions are alive, so the addresses are unique.
    numbers: HashMap<usize, (Arc<SessionSnapshot>, u32)>,
}

/// A log that later versions continue.
#[derive(Debug)]
struct OpenLog {
    index: u32,
    journal: Journal,
    /// The number of the last version, and its address.
    last: (u32, usize),
}

/// A version that is not in the log yet.
#[derive(Debug)]
pub(super) struct NewVersion {
    log: u32,
    session: Arc<SessionSnapshot>,
    prepared: PreparedEntry,
}

impl NewVersion {
    pub(super) fn entry(&self) -> SubAgentEntry {
        let text = self.prepared.text().to_owned();
        SubAgentEntry { log: self.log, entry: RawJson::from_text(text).unwrap_or_default() }
    }
}

impl SubAgentLogs {
    /// Returns the number of a version. A session that has changed becomes a version of `new`.
    ///
    /// # Errors
    /// [`SessionError::Serialization`].
    pub(super) fn number(
        &self,
        session: &Arc<SessionSnapshot>,
        new: &mut Vec<NewVersion>,
    ) -> Result<u32, SessionError> {
        if let Some((_, number)) = self.numbers.get(&address(session)) {
            return Ok(*number);
        }
        let next = |index: usize| self.versions.saturating_add(u32::try_from(index).unwrap_or(u32::MAX));
        if let Some(index) = new.iter().position(|version| Arc::ptr_eq(&version.session, session)) {
            return Ok(next(index));
        }
        // A second version in one entry has no log that it could continue.
        let is_second = new.iter().any(|version| version.session.id == session.id);
        let open = self.open.get(&session.id).filter(|_| !is_second);
        let snapshot = SessionSnapshot::clone(session);
        let (log, prepared) = if let Some(open) = open {
            let prepared = open.journal.prepare(snapshot)?;
            if prepared.is_empty() {
                return Ok(open.last.0);
            }
            (open.index, prepared)
        } else {
            let started = new.iter().filter(|version| version.log >= self.count).count();
            let log = self.count.saturating_add(u32::try_from(started).unwrap_or(u32::MAX));
            (log, Journal::default().prepare(snapshot)?)
        };
        new.push(NewVersion { log, session: Arc::clone(session), prepared });
        Ok(next(new.len() - 1))
    }

    /// Takes over versions that were appended to the log.
    pub(super) fn commit(&mut self, new: Vec<NewVersion>) {
        for NewVersion { log, session, prepared } in new {
            let number = self.versions;
            self.versions = number.saturating_add(1);
            self.count = self.count.max(log.saturating_add(1));
            let earlier = self.open.remove(&session.id).filter(|open| open.index == log);
            if let Some(earlier) = &earlier {
                self.numbers.remove(&earlier.last.1);
            }
            let last = (number, address(&session));
            self.numbers.insert(last.1, (Arc::clone(&session), number));
            if session.unfinished.is_some() {
                let mut journal = earlier.map(|open| open.journal).unwrap_or_default();
                journal.commit(prepared);
                self.open.insert(Arc::clone(&session.id), OpenLog { index: log, journal, last });
            }
        }
    }
}

fn address(session: &Arc<SessionSnapshot>) -> usize {
    Arc::as_ptr(session).addr()
}

/// The logs of sub-agents while a log is read.
#[derive(Debug, Default)]
pub(super) struct ReplayedLogs {
    logs: Vec<Vec<RawJson>>,
    /// For each version the index of its log, and the number of its entries.
    versions: Vec<(usize, usize)>,
}

impl ReplayedLogs {
    pub(super) fn push(&mut self, SubAgentEntry { log, entry }: SubAgentEntry) -> Result<(), String> {
        let (index, count) = (log as usize, self.logs.len());
        if index == count {
            self.logs.push(Vec::new());
        }
        let log = self.logs.get_mut(index);
        let log = log.ok_or_else(|| format!("the log of sub-agent {index} follows {count} log(s)"))?;
        log.push(entry);
        self.versions.push((index, log.len()));
        Ok(())
    }

    /// Returns the versions with these numbers, and the logs to continue.
    ///
    /// # Errors
    /// A version does not exist, or its log is invalid.
    pub(super) fn finish(
        self,
        numbers: &BTreeSet<u32>,
    ) -> Result<(HashMap<u32, Arc<SessionSnapshot>>, SubAgentLogs), String> {
        let count = |length: usize| u32::try_from(length).unwrap_or(u32::MAX);
        let mut logs = SubAgentLogs {
            count: count(self.logs.len()),
            versions: count(self.versions.len()),
            ..SubAgentLogs::default()
        };
        let mut sessions = HashMap::new();
        for number in numbers {
            let missing = || format!("it refers to version {number} of the sub-agents");
            let (index, length) = *self.versions.get(*number as usize).ok_or_else(missing)?;
            let log = self.logs.get(index).ok_or_else(missing)?;
            let journal = Journal::read(log.iter().take(length).map(RawJson::get))
                .map_err(|error| format!("sub-agent {index}: {error}"))?;
            let session = Arc::new(journal.snapshot().cloned().ok_or_else(missing)?);
            let last = (*number, address(&session));
            if length == log.len() && session.unfinished.is_some() {
                let open = OpenLog { index: count(index), journal, last };
                logs.open.insert(Arc::clone(&session.id), open);
            }
            logs.numbers.insert(last.1, (Arc::clone(&session), *number));
            sessions.insert(*number, session);
        }
        Ok((sessions, logs))
    }
}
