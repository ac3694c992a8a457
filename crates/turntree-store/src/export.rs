//! Writes all sessions of a store to a file: JSON Lines, independent of the engine.
//!
//! | line | content |
//! |---|---|
//! | first | `{"format":"turntree-export","version":1}` |
//! | of a session | `{"session":{"id":…,"agent":…,"status":…,"turns":…,"nodes":…,"updated_at":…,"bytes":…},"entries":3}` |
//! | of each of its entries | `{"digest":"…","entry":{…}}` |
//! | last | `{"end":{"sessions":2,"entries":7}}` |
//!
//! The digest is 64 hexadecimal digits: the SHA-256 of the digest of the entry before it (32 bytes, zeros for the first
//! one), the id of the session, a zero byte, and the bytes of the line after `"entry":` and before the last `}`. Entries
//! contain everything: nothing is compressed, encrypted or in other files.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::engine::{SessionInfo, SessionQuery, StoreIssue};
use crate::error::StoreError;
use crate::journal_store::JournalStore;
use crate::walk::all_sessions;
use turntree_core::ids::{IdSource as _, RandomIds};
use turntree_core::runtime::spawn_blocking;

/// The format that the first line names.
pub(crate) const FORMAT: &str = "turntree-export";

/// The version of the format.
pub(crate) const VERSION: u64 = 1;

/// The first line.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct FirstLine {
    pub(crate) format: String,
    pub(crate) version: u64,
}

/// The line of a session.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct SessionLine {
    pub(crate) session: SessionInfo,
    /// The number of lines with entries that follow.
    pub(crate) entries: u64,
}

/// The last line.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct LastLine {
    pub(crate) end: Counts,
}

/// The numbers of lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct Counts {
    pub(crate) sessions: u64,
    pub(crate) entries: u64,
}

impl JournalStore {
    /// Writes all sessions to a file, one after the other, and returns their number. The file is complete and on disk, or
    /// unchanged: it is written under another name and renamed. Other writers may use the store meanwhile; each session is
    /// written in the state of one moment.
    ///
    /// # Errors
    /// [`StoreError::Incomplete`] if sessions are damaged: the file has the others. If none can be read, the file stays
    /// unchanged. [`StoreError::ExportFile`] if the file cannot be written; those of the engine.
    pub async fn export(&self, path: &Path) -> Result<u64, StoreError> {
        // A log without any readable part is in no list.
        let mut damaged = self.engine().check().await?;
        let sessions = all_sessions(&**self.engine(), SessionQuery::default()).await?;
        let target = path.to_owned();
        let mut output = blocking(path, move || Output::create(target)).await?;
        let mut counts = Counts::default();
        // Reading a session counts its entries; here sessions are counted.
        let reader = self.without_progress();
        if let Some(progress) = self.progress() {
            progress.begin(sessions.len() as u64);
        }
        for info in sessions {
            let read = reader.info_and_entries(&info.id).await;
            if let Some(progress) = self.progress() {
                progress.add(1);
            }
            if !matches!(read, Ok(None)) {
                // What the engine's check has found is named below, or is no hindrance.
                damaged.retain(|issue| issue.session.as_ref() != Some(&info.id));
            }
            let (info, texts) = match read {
                Ok(Some(read)) => read,
                // It was deleted after it was listed.
                Ok(None) => continue,
                Err(StoreError::Corrupt { reason, .. } | StoreError::Failed { reason, .. }) => {
                    damaged.push(StoreIssue { session: Some(info.id), message: reason });
                    continue;
                }
                Err(error) => return Err(error),
            };
            counts.sessions += 1;
            counts.entries += u64::try_from(texts.len()).unwrap_or_default();
            output = blocking(path, move || {
                output.write_session(info, &texts)?;
                Ok(output)
            })
            .await?;
        }
        let exported = counts.sessions;
        if damaged.is_empty() || exported > 0 {
            blocking(path, move || output.finish(counts)).await?;
        }
        if damaged.is_empty() {
            return Ok(exported);
        }
        Err(StoreError::Incomplete { path: path.display().to_string(), exported, damaged })
    }
}

/// Runs work with a file on a thread for blocking work.
pub(crate) async fn blocking<T: Send + 'static>(
    path: &Path,
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Result<T, StoreError> {
    let failed = |reason: String| StoreError::ExportFile { path: path.display().to_string(), reason };
    let done = spawn_blocking(work).await.map_err(|error| failed(error.to_string()))?;
    done.map_err(|error| failed(error.to_string()))
}

/// The file while it is written.
#[derive(Debug)]
struct Output {
    file: BufWriter<File>,
    /// The final name.
    path: PathBuf,
    unfinished: Unfinished,
}

/// A file that is removed when it is dropped.
#[derive(Debug)]
struct Unfinished(PathBuf);

impl Drop for Unfinished {
    fn drop(&mut self) {
        // After the rename there is no such file.
        let _ = fs::remove_file(&self.0);
    }
}

impl Output {
    fn create(path: PathBuf) -> io::Result<Self> {
        let name = path.file_name().ok_or_else(|| io::Error::other("expected the name of a file"))?;
        if path.is_dir() {
            return Err(io::Error::other("it is a folder"));
        }
        let unique = RandomIds.uuid();
        let unfinished = path.with_file_name(format!(".{}.{unique}.tmp", name.to_string_lossy()));
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        // Conversations are for their owner.
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let file = BufWriter::new(options.open(&unfinished)?);
        let mut output = Self { file, path, unfinished: Unfinished(unfinished) };
        output.write_line(&FirstLine { format: FORMAT.to_owned(), version: VERSION })?;
        Ok(output)
    }

    fn write_line(&mut self, line: &impl Serialize) -> io::Result<()> {
        serde_json::to_writer(&mut self.file, line)?;
        self.file.write_all(b"\n")
    }

    fn write_session(&mut self, info: SessionInfo, texts: &[String]) -> io::Result<()> {
        let id = Arc::clone(&info.id);
        let entries = u64::try_from(texts.len()).unwrap_or(u64::MAX);
        self.write_line(&SessionLine { session: info, entries })?;
        let mut digest = Digest::default();
        for text in texts {
            // A line break in JSON is white space: strings contain it as an escape.
            let text = text.replace(['\n', '\r'], " ");
            let text = text.trim();
            digest = Digest::of_entry(digest, &id, text.as_bytes());
            writeln!(self.file, "{{\"digest\":\"{digest}\",\"entry\":{text}}}")?;
        }
        Ok(())
    }

    fn finish(mut self, counts: Counts) -> io::Result<()> {
        self.write_line(&LastLine { end: counts })?;
        self.file.flush()?;
        self.file.get_ref().sync_all()?;
        fs::rename(&self.unfinished.0, &self.path)?;
        // The name is durable when its folder is synced. Windows cannot open folders.
        #[cfg(unix)]
        {
            let folder = self.path.parent().filter(|folder| !folder.as_os_str().is_empty());
            File::open(folder.unwrap_or_else(|| Path::new(".")))?.sync_all()?;
        }
        Ok(())
    }
}
