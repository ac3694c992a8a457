//! The operations on the files of a session.

use std::collections::HashSet;
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;

use super::folder::{Access, Folder, create_folder, sync_folder, write_file};
use super::record::{self, END_SIZE, Header};
use super::scan::{self, Rest, Scan};
use crate::digest::Digest;
use crate::engine::{Append, Blob, Entry, Head, Log, Replace, SessionInfo};
use crate::error::StoreError;
use crate::preconditions::{check_fence, check_head};

/// The name of a session's log.
pub(super) const LOG: &str = "log";

const BLOBS: &str = "blobs";

/// The sessions of a folder.
#[derive(Debug)]
pub(super) struct Sessions {
    pub(super) folder: Folder,
    pub(super) cache: super::list::Cache,
}

/// The end of a log file that is going to be written.
struct Tail {
    /// The header of the last record.
    last: Header,
    /// The size of the records. What follows was torn by a crash.
    size: u64,
}

impl Sessions {
    pub(super) fn new(folder: Folder) -> Self {
        Self { folder, cache: super::list::Cache::default() }
    }

    pub(super) fn name(&self) -> Arc<str> {
        Arc::clone(&self.folder.name)
    }

    pub(super) fn append(&self, append: &Append) -> Result<(), StoreError> {
        self.folder.prepare(Access::Write)?;
        let id = &append.info.id;
        let _lock = self.folder.lock(id, Access::Write)?;
        let session = self.folder.session(id);
        let log = session.join(LOG);
        let (file, tail) = self.open_log(id, &log, Access::Write)?;
        let stored = tail.as_ref().map(|tail| &tail.last);
        let newest = stored.and_then(|last| last.fence);
        check_fence(id, append.fence, newest)?;
        check_head(id, append.expected, stored.map(Header::head))?;
        let revision = append.expected.map_or(0, |head| head.revision).saturating_add(1);
        let mut bytes = Vec::with_capacity(append.entry.data.len() + 512);
        let fence = append.fence.or(newest);
        record::write(&mut bytes, &append.entry, revision, fence, &append.info).map_err(invalid)?;
        let write = || -> io::Result<()> {
            create_folder(&session)?;
            write_blobs(&session, &append.blobs)?;
            match (file, tail) {
                (Some(file), Some(tail)) => append_bytes(file, &bytes, tail.size),
                // Also if there is a file: a crash has torn its first record.
                _ => self.create_log(&session, &bytes),
            }
        };
        write().map_err(|error| self.folder.write_error(&log, &error))
    }

    /// Writes the whole log, in one step.
    fn create_log(&self, session: &Path, bytes: &[u8]) -> io::Result<()> {
        let new = session.join("log.new");
        write_file(&new, bytes)?;
        fs::rename(&new, session.join(LOG))?;
        sync_folder(session)?;
        sync_folder(&self.folder.sessions())
    }

    pub(super) fn replace(&self, replace: &Replace) -> Result<(), StoreError> {
        self.folder.prepare(Access::Write)?;
        let id = &replace.info.id;
        let _lock = self.folder.lock(id, Access::Write)?;
        let session = self.folder.session(id);
        let log = session.join(LOG);
        let (_, tail) = self.open_log(id, &log, Access::Read)?;
        let stored = tail.as_ref().map(|tail| &tail.last);
        check_head(id, replace.expected, stored.map(Header::head))?;
        let fence = stored.and_then(|last| last.fence);
        let bytes = write_records(replace, fence)?;
        let write = || -> io::Result<()> {
            create_folder(&session)?;
            write_blobs(&session, &replace.blobs)?;
            self.create_log(&session, &bytes)?;
            remove_blobs(&session, &replace.blobs)
        };
        write().map_err(|error| self.folder.write_error(&log, &error))
    }

    pub(super) fn read(&self, id: &str) -> Result<Option<Log>, StoreError> {
        if !self.folder.prepare(Access::Read)? {
            return Ok(None);
        }
        let _lock = self.folder.lock(id, Access::Read)?;
        let path = self.folder.session(id).join(LOG);
        let Some(bytes) = self.read_file(&path)? else { return Ok(None) };
        let bytes = Bytes::from(bytes);
        let scan = scan::scan(&bytes);
        self.refuse_damage(id, &scan)?;
        let Some(last) = scan.records.last() else { return Ok(None) };
        let (revision, info) = (last.header.revision, last.header.info.clone());
        // The entries share the bytes of the file.
        let entry = |record: &record::Record<'_>| Entry {
            digest: record.header.digest,
            data: bytes.slice_ref(record.data),
        };
        Ok(Some(Log { revision, entries: scan.records.iter().map(entry).collect(), info }))
    }

    pub(super) fn head(&self, id: &str) -> Result<Option<Head>, StoreError> {
        if !self.folder.prepare(Access::Read)? {
            return Ok(None);
        }
        let _lock = self.folder.lock(id, Access::Read)?;
        self.head_now(id)
    }

    /// The head of a session that is locked.
    pub(super) fn head_now(&self, id: &str) -> Result<Option<Head>, StoreError> {
        let (_, tail) = self.open_log(id, &self.folder.session(id).join(LOG), Access::Read)?;
        Ok(tail.map(|tail| tail.last.head()))
    }

    pub(super) fn blobs(&self, id: &str, addresses: &[Digest]) -> Result<Vec<Option<Bytes>>, StoreError> {
        if !self.folder.prepare(Access::Read)? {
            return Ok(vec![None; addresses.len()]);
        }
        let _lock = self.folder.lock(id, Access::Read)?;
        let blobs = self.folder.session(id).join(BLOBS);
        let read = |address: &Digest| Ok(self.read_file(&blobs.join(address.to_string()))?.map(Bytes::from));
        addresses.iter().map(read).collect()
    }

    pub(super) fn delete(&self, id: &str) -> Result<bool, StoreError> {
        static COUNTER: AtomicU64 = AtomicU64::new(0);
        if !self.folder.prepare(Access::Read)? {
            return Ok(false);
        }
        let _lock = self.folder.lock(id, Access::Write)?;
        let session = self.folder.session(id);
        // A folder without a readable record is what a crash has left of a first append. A damaged log can be deleted.
        let existed = !matches!(self.open_log(id, &session.join(LOG), Access::Read), Ok((_, None)));
        let number = COUNTER.fetch_add(1, Ordering::Relaxed);
        let trash = self.folder.trash().join(format!("{}-{number}", std::process::id()));
        let delete = || -> io::Result<()> {
            // What an earlier process with the same id has left.
            remove_folder(&trash)?;
            match fs::rename(&session, &trash) {
                Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
                result => result?,
            }
            sync_folder(&self.folder.sessions())?;
            remove_folder(&trash)
        };
        delete().map_err(|error| self.folder.write_error(&session, &error))?;
        Ok(existed)
    }

    /// The state of the session whose folder is `session`, read without a lock; `None` if it must be read with one.
    pub(super) fn peek(session: &Path) -> io::Result<Option<Header>> {
        let mut file = File::open(session.join(LOG))?;
        let size = file.metadata()?.len();
        Ok(read_tail(&mut file, size)?.map(|tail| tail.last))
    }

    /// Opens the log of a session that is locked. No file or no tail: the session does not exist.
    fn open_log(
        &self,
        id: &str,
        path: &Path,
        access: Access,
    ) -> Result<(Option<File>, Option<Tail>), StoreError> {
        let mut file = match OpenOptions::new().read(true).write(access == Access::Write).open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok((None, None)),
            Err(error) if access == Access::Write => return Err(self.folder.write_error(path, &error)),
            Err(error) => return Err(self.folder.read_error(path, &error)),
        };
        let read_error = |error: io::Error| self.folder.read_error(path, &error);
        let size = file.metadata().map_err(read_error)?.len();
        if let Some(tail) = read_tail(&mut file, size).map_err(read_error)? {
            return Ok((Some(file), Some(tail)));
        }
        // The end is torn or damaged.
        let bytes = self.read_file(path)?.unwrap_or_default();
        let scan = scan::scan(&bytes);
        self.refuse_damage(id, &scan)?;
        let size = u64::try_from(scan.size).unwrap_or(u64::MAX);
        let tail = scan.records.into_iter().next_back().map(|last| Tail { last: last.header, size });
        Ok((Some(file), tail))
    }

    fn refuse_damage(&self, id: &str, scan: &Scan<'_>) -> Result<(), StoreError> {
        damage_of(scan).map_or(Ok(()), |reason| Err(self.folder.corrupt(id, reason)))
    }

    /// Reads a whole file; `None` if it does not exist.
    pub(super) fn read_file(&self, path: &Path) -> Result<Option<Vec<u8>>, StoreError> {
        match fs::read(path) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(self.folder.read_error(path, &error)),
        }
    }
}

/// What is wrong with a log; `None` if nothing is, or only its end is torn.
pub(super) fn damage_of(scan: &Scan<'_>) -> Option<String> {
    let number = scan.records.len() + 1;
    if let Rest::Damaged(reason) = scan.rest {
        return Some(format!("record {number} at byte {} is damaged: {reason}", scan.size));
    }
    let revisions = scan.records.windows(2).position(|pair| match pair {
        [a, b] => a.header.revision.checked_add(1) != Some(b.header.revision),
        _ => false,
    });
    let position = revisions?;
    Some(format!("record {} does not follow the record before it", position + 2))
}

/// Reads the last record of a file; `None` if it cannot be read.
fn read_tail(file: &mut File, size: u64) -> io::Result<Option<Tail>> {
    let end = u64::try_from(END_SIZE).unwrap_or(u64::MAX);
    if size < end {
        return Ok(None);
    }
    let mut bytes = read_at(file, size - end, END_SIZE)?;
    let Some(length) = scan::last_size(&bytes) else { return Ok(None) };
    let Some(start) = u64::try_from(length).ok().and_then(|length| size.checked_sub(length)) else {
        return Ok(None);
    };
    bytes = read_at(file, start, length)?;
    Ok(scan::last(&bytes).map(|record| Tail { last: record.header, size }))
}

fn read_at(file: &mut File, start: u64, length: usize) -> io::Result<Vec<u8>> {
    file.seek(SeekFrom::Start(start))?;
    let mut bytes = vec![0; length];
    match file.read_exact(&mut bytes) {
        // The file was cut in the meantime.
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(Vec::new()),
        result => result.map(|()| bytes),
    }
}

/// Appends bytes after the first `size` bytes of a file. If the disk is full, the file stays as it was.
fn append_bytes(mut file: File, bytes: &[u8], size: u64) -> io::Result<()> {
    if file.metadata()?.len() != size {
        file.set_len(size)?;
    }
    file.seek(SeekFrom::Start(size))?;
    if let Err(error) = file.write_all(bytes) {
        // What was written is a torn record, which the next append would remove as well.
        let _ = file.set_len(size);
        return Err(error);
    }
    file.sync_data()
}

/// The records of a log.
pub(super) fn write_records(log: &Replace, fence: Option<u64>) -> Result<Vec<u8>, StoreError> {
    let count = u64::try_from(log.entries.len()).unwrap_or(u64::MAX);
    let first = log.revision.saturating_sub(count).saturating_add(1);
    let mut bytes = Vec::new();
    for (revision, entry) in (first..).zip(&log.entries) {
        record::write(&mut bytes, entry, revision, fence, &log.info).map_err(invalid)?;
    }
    Ok(bytes)
}

/// Writes the blobs that the session does not have.
pub(super) fn write_blobs(session: &Path, blobs: &[Blob]) -> io::Result<()> {
    if blobs.is_empty() {
        return Ok(());
    }
    let folder = session.join(BLOBS);
    create_folder(&folder)?;
    for blob in blobs {
        let path = folder.join(blob.address.to_string());
        if path.exists() {
            continue;
        }
        let new = path.with_extension("new");
        write_file(&new, &blob.data)?;
        fs::rename(&new, &path)?;
    }
    sync_folder(&folder)?;
    sync_folder(session)
}

/// Removes all blobs but some.
fn remove_blobs(session: &Path, keep: &[Blob]) -> io::Result<()> {
    let folder = session.join(BLOBS);
    let keep: HashSet<OsString> = keep.iter().map(|blob| blob.address.to_string().into()).collect();
    let entries = match fs::read_dir(&folder) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        if !keep.contains(&entry.file_name()) {
            fs::remove_file(entry.path())?;
        }
    }
    sync_folder(&folder)
}

/// Removes a folder that may not exist.
pub(super) fn remove_folder(path: &Path) -> io::Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        result => result,
    }
}

fn invalid(error: impl std::fmt::Display) -> StoreError {
    StoreError::Invalid(error.to_string())
}

/// Returns whether a header belongs to the folder that it was found in.
pub(super) fn belongs(info: &SessionInfo, session: &Path) -> bool {
    session.file_name().is_some_and(|name| name == super::folder::name(&info.id).as_str())
}
