//! Sessions that are created together: what an import stores, all or none of it.
//!
//! [`Spool`] collects them in a temporary file, so that an engine stores them as fast as it can, and only one is in memory.

use std::env;
use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufReader, BufWriter, Read, Seek as _, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::engine::{Blob, Entry, Replace, SessionInfo};
use crate::error::StoreError;
use turntree_core::ids::{IdSource as _, RandomIds};
use turntree_core::runtime::spawn_blocking;
use turntree_core::time::Timestamp;

/// Logs of new sessions. Engines read them one at a time, on a thread that may block.
pub trait Batch: Send + fmt::Debug {
    /// Goes back to the first session. A batch starts there.
    ///
    /// # Errors
    /// [`StoreError::ExportFile`].
    fn rewind(&mut self) -> Result<(), StoreError>;

    /// Reads the next session; `None` after the last one.
    ///
    /// # Errors
    /// [`StoreError::ExportFile`].
    fn next_log(&mut self) -> Result<Option<Replace>, StoreError>;
}

/// Reads the next session on a thread that may block. `store` is named if there is no thread.
pub(crate) async fn next_log(
    mut batch: Box<dyn Batch>,
    store: &Arc<str>,
) -> Result<(Box<dyn Batch>, Option<Replace>), StoreError> {
    let read = spawn_blocking(move || batch.next_log().map(|log| (batch, log))).await;
    read.map_err(|error| StoreError::Failed { store: Arc::clone(store), reason: error.to_string() })?
}

/// What precedes the entries and blobs of a session in the file.
#[derive(Debug, Serialize, Deserialize)]
struct Header {
    info: SessionInfo,
    /// `info.updated_at` in microseconds, which JSON rounds.
    updated_at: i64,
    revision: u64,
    entries: usize,
    blobs: usize,
}

/// Sessions in a temporary file, which has no name while it is used, and whose content is gone afterwards.
#[derive(Debug)]
pub(crate) struct Spool {
    file: Stream,
    path: Arc<TemporaryPath>,
}

#[derive(Debug)]
enum Stream {
    Writing(BufWriter<File>),
    Reading(BufReader<File>),
}

/// Removes the file where that is not possible while it is open.
#[derive(Debug)]
struct TemporaryPath(PathBuf);

impl Drop for TemporaryPath {
    fn drop(&mut self) {
        // An error: it was removed when it was created.
        let _ = fs::remove_file(&self.0);
    }
}

impl Spool {
    /// Creates a file in the folder for temporary files.
    ///
    /// # Errors
    /// [`StoreError::ExportFile`] if that is not possible.
    pub(crate) fn new() -> Result<Self, StoreError> {
        let path = env::temp_dir().join(format!(".turntree-import-{}.tmp", RandomIds.uuid()));
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(true);
        // Conversations are for their owner.
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let file = options.open(&path).map_err(|error| failed(&path, &error))?;
        // Also if the process is killed, nothing is left. Windows does not remove files that are open.
        #[cfg(unix)]
        fs::remove_file(&path).map_err(|error| failed(&path, &error))?;
        Ok(Self { file: Stream::Writing(BufWriter::new(file)), path: Arc::new(TemporaryPath(path)) })
    }

    /// Adds a session after the others.
    ///
    /// # Errors
    /// [`StoreError::ExportFile`] if there is no space left.
    pub(crate) fn add(&mut self, log: &Replace) -> Result<(), StoreError> {
        let Stream::Writing(file) = &mut self.file else {
            return Err(StoreError::Invalid(
                "sessions were added to an import that is being stored".to_owned(),
            ));
        };
        write_log(file, log).map_err(|error| failed(&self.path.0, &error))
    }
}

impl Spool {
    /// Returns another reader. Only one of them is used at a time: they share a position.
    pub(crate) fn reopened(&mut self) -> Result<Self, StoreError> {
        self.rewind()?;
        let Stream::Reading(file) = &self.file else {
            return Err(StoreError::Invalid("the sessions of an import cannot be read".to_owned()));
        };
        let file = file.get_ref().try_clone().map_err(|error| failed(&self.path.0, &error))?;
        Ok(Self { file: Stream::Reading(BufReader::new(file)), path: Arc::clone(&self.path) })
    }
}

impl Batch for Spool {
    fn rewind(&mut self) -> Result<(), StoreError> {
        let stream = &mut self.file;
        let mut rewind = || -> io::Result<BufReader<File>> {
            let mut file = match stream {
                Stream::Writing(file) => {
                    file.flush()?;
                    file.get_ref().try_clone()?
                }
                Stream::Reading(file) => file.get_ref().try_clone()?,
            };
            file.rewind()?;
            Ok(BufReader::new(file))
        };
        let file = rewind().map_err(|error| failed(&self.path.0, &error))?;
        self.file = Stream::Reading(file);
        Ok(())
    }

    fn next_log(&mut self) -> Result<Option<Replace>, StoreError> {
        if matches!(self.file, Stream::Writing(_)) {
            self.rewind()?;
        }
        let Stream::Reading(file) = &mut self.file else { return Ok(None) };
        read_log(file).map_err(|error| failed(&self.path.0, &error))
    }
}

fn failed(path: &Path, error: &io::Error) -> StoreError {
    StoreError::ExportFile { path: path.display().to_string(), reason: error.to_string() }
}

fn write_log(file: &mut impl Write, log: &Replace) -> io::Result<()> {
    let Replace { entries, blobs, revision, info, .. } = log;
    let header = Header {
        info: info.clone(),
        updated_at: info.updated_at.microseconds(),
        revision: *revision,
        entries: entries.len(),
        blobs: blobs.len(),
    };
    write_bytes(file, &serde_json::to_vec(&header)?)?;
    for (digest, data) in entries
        .iter()
        .map(|entry| (entry.digest, &entry.data))
        .chain(blobs.iter().map(|blob| (blob.address, &blob.data)))
    {
        file.write_all(&digest.0)?;
        write_bytes(file, data)?;
    }
    Ok(())
}

fn write_bytes(file: &mut impl Write, bytes: &[u8]) -> io::Result<()> {
    let length = u64::try_from(bytes.len()).map_err(io::Error::other)?;
    file.write_all(&length.to_be_bytes())?;
    file.write_all(bytes)
}

fn read_log(file: &mut BufReader<File>) -> io::Result<Option<Replace>> {
    if io::BufRead::fill_buf(file)?.is_empty() {
        return Ok(None);
    }
    let Header { mut info, updated_at, revision, entries, blobs } =
        serde_json::from_slice(&read_bytes(file)?)?;
    info.updated_at = Timestamp::from_microseconds(updated_at);
    let mut read = || -> io::Result<(Digest, Bytes)> {
        let mut digest = Digest::default();
        file.read_exact(&mut digest.0)?;
        Ok((digest, read_bytes(file)?.into()))
    };
    let entries = (0..entries)
        .map(|_| read().map(|(digest, data)| Entry { digest, data }))
        .collect::<io::Result<Vec<_>>>()?;
    let blobs = (0..blobs)
        .map(|_| read().map(|(address, data)| Blob { address, data }))
        .collect::<io::Result<Vec<_>>>()?;
    Ok(Some(Replace { expected: None, entries, revision, blobs, info }))
}

fn read_bytes(file: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut length = [0; 8];
    file.read_exact(&mut length)?;
    let length = u64::from_be_bytes(length);
    let mut bytes = Vec::new();
    // What was written is read: a shorter file is an error of the system.
    if u64::try_from(file.take(length).read_to_end(&mut bytes)?).ok() == Some(length) {
        return Ok(bytes);
    }
    Err(io::ErrorKind::UnexpectedEof.into())
}
