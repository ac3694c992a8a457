//! The list of sessions, and the check of all logs.

use std::collections::HashMap;
use std::fs::{self, Metadata};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use super::folder::Access;
use super::scan;
use super::sessions::{LOG, Sessions, belongs, damage_of};
use crate::engine::{SessionInfo, SessionPage, SessionQuery, StoreIssue};
use crate::error::StoreError;
use crate::page::Pager;

/// The states of sessions that were read before, with the state of the file at that time: a page of a long list then
/// costs one `stat` for each session.
#[derive(Debug, Default)]
pub(super) struct Cache(Mutex<HashMap<PathBuf, (Stamp, SessionInfo)>>);

/// What changes with a file: its size, its time, and which file it is.
type Stamp = (u64, Option<SystemTime>, u64);

fn stamp(metadata: &Metadata) -> Stamp {
    #[cfg(unix)]
    let file = std::os::unix::fs::MetadataExt::ino(metadata);
    #[cfg(not(unix))]
    let file = 0;
    (metadata.len(), metadata.modified().ok(), file)
}

/// Lists sessions. A session whose log has no readable record is left out; `check` names it.
pub(super) fn sessions(sessions: &Sessions, query: &SessionQuery) -> Result<SessionPage, StoreError> {
    let pager = Pager::new(query)?;
    if !sessions.folder.prepare(Access::Read)? {
        return Ok(SessionPage::default());
    }
    // Taken out and put back: no lock is held while files are read.
    let lock = || sessions.cache.0.lock().unwrap_or_else(PoisonError::into_inner);
    let mut known = std::mem::take(&mut *lock());
    let mut found = HashMap::new();
    for session in folders(sessions)? {
        let Ok(metadata) = fs::metadata(session.join(LOG)) else { continue };
        let stamp = stamp(&metadata);
        let info = match known.remove(&session) {
            Some((known, info)) if known == stamp => Some(info),
            _ => info_of(sessions, &session)?,
        };
        if let Some(info) = info {
            found.insert(session, (stamp, info));
        }
    }
    let page = pager.page(found.values().map(|(_, info)| info));
    *lock() = found;
    Ok(page)
}

/// The folders of sessions.
fn folders(sessions: &Sessions) -> Result<Vec<PathBuf>, StoreError> {
    let path = sessions.folder.sessions();
    let list = || -> io::Result<Vec<PathBuf>> {
        fs::read_dir(&path)?.map(|entry| entry.map(|entry| entry.path())).collect()
    };
    list().map_err(|error| sessions.folder.read_error(&path, &error))
}

/// The state of the session in a folder; `None` if it was deleted in the meantime or has no readable record.
fn info_of(sessions: &Sessions, session: &Path) -> Result<Option<SessionInfo>, StoreError> {
    match Sessions::peek(session) {
        Ok(Some(header)) => return Ok(Some(header.info)),
        Ok(None) => {}
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(sessions.folder.read_error(session, &error)),
    }
    // Another process is writing, or the end is torn or damaged: the last record that can be read counts.
    let bytes = sessions.read_file(&session.join(LOG))?.unwrap_or_default();
    Ok(scan::scan(&bytes).records.pop().map(|record| record.header.info))
}

/// Reads all logs and returns those that are damaged.
pub(super) fn check(sessions: &Sessions) -> Result<Vec<StoreIssue>, StoreError> {
    let mut issues = Vec::new();
    if !sessions.folder.prepare(Access::Read)? {
        return Ok(issues);
    }
    for session in folders(sessions)? {
        let name = session.file_name().unwrap_or_default().to_string_lossy().into_owned();
        // The id is in the log, which may be damaged; the lock follows from the id.
        let info = info_of(sessions, &session)?;
        let id = info.as_ref().map(|info| info.id.clone());
        let _lock = match &id {
            Some(id) => Some(sessions.folder.lock(id, Access::Read)?),
            None => None,
        };
        // None: deleted in the meantime, or the first append was not finished.
        let Some(bytes) = sessions.read_file(&session.join(LOG))? else { continue };
        let scan = scan::scan(&bytes);
        if let Some(reason) = damage_of(&scan) {
            let message = format!("{reason} (in the folder \"{name}\")");
            issues.push(StoreIssue { session: id, message });
        } else if info.is_some_and(|info| !belongs(&info, &session)) {
            let message = format!("its log is in the folder \"{name}\", where it is not found");
            issues.push(StoreIssue { session: id, message });
        }
    }
    Ok(issues)
}
