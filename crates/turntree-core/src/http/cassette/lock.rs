//! Merges the writes of several recorders of one file: threads, processes, workers of a test runner.
//!
//! Each recorder appends its exchanges to those of the others, under a lock file, so that no recorder removes the
//! exchanges of another.

use std::collections::HashMap;
use std::fs::OpenOptions;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use super::file::{self, CassetteError, Recorded, Recording};

/// Maximum time to wait for the lock.
const PATIENCE: Duration = Duration::from_secs(10);

/// A lock file older than this was left by a process that died.
const STALE: Duration = Duration::from_secs(30);

/// Interval between two attempts to take the lock.
const PAUSE: Duration = Duration::from_millis(5);

/// The exchanges in a file that belong to one recorder.
#[derive(Default)]
pub(super) struct FileShare {
    /// The content of the file, in case another program deletes it.
    before: Recording,
    /// How often each exchange of this recorder is in the file: those that it replaces and those that it has written.
    ours: HashMap<String, usize>,
}

impl FileShare {
    /// For a recorder that adds to the file.
    pub(super) fn adding(before: Recording) -> Self {
        Self { before, ours: HashMap::new() }
    }

    /// For a recorder that replaces the current content of the file.
    pub(super) fn replacing(path: &Path) -> Self {
        // An unreadable file contains no exchanges to preserve.
        let replaced = file::read(path).map(|recording| recording.exchanges).unwrap_or_default();
        Self { before: Recording::default(), ours: counted(&replaced) }
    }

    /// Appends the exchanges of this recorder to those of the others. Blocks.
    ///
    /// # Errors
    /// [`CassetteError::File`] if the file cannot be written or the lock is not released in time.
    pub(super) fn write(&mut self, path: &Path, exchanges: Vec<Recorded>) -> Result<(), CassetteError> {
        let _lock = Lock::wait(path)?;
        let mut recording = file::read(path).unwrap_or_else(|_| self.before.clone());
        let mut ours = std::mem::take(&mut self.ours);
        recording.exchanges.retain(|exchange| {
            let is_ours = ours.get_mut(&written(exchange)).filter(|count| **count > 0);
            is_ours.map(|count| *count -= 1).is_none()
        });
        self.ours = counted(&exchanges);
        recording.exchanges.extend(exchanges);
        file::write(path, &recording)
    }
}

/// How often each exchange occurs.
fn counted(exchanges: &[Recorded]) -> HashMap<String, usize> {
    let mut counts = HashMap::new();
    for exchange in exchanges {
        *counts.entry(written(exchange)).or_default() += 1;
    }
    counts
}

/// The text by which exchanges are compared.
fn written(exchange: &Recorded) -> String {
    serde_json::to_string(exchange).unwrap_or_default()
}

/// A lock file; removed when dropped.
struct Lock(PathBuf);

impl Lock {
    fn wait(path: &Path) -> Result<Self, CassetteError> {
        let mut name = path.file_name().unwrap_or_default().to_owned();
        name.push(".lock");
        let lock = path.with_file_name(name);
        let failed = |reason: String| CassetteError::File { action: "lock", path: path.to_owned(), reason };
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).map_err(|error| failed(error.to_string()))?;
        }
        let deadline = Instant::now() + PATIENCE;
        loop {
            match OpenOptions::new().write(true).create_new(true).open(&lock) {
                Ok(_) => return Ok(Self(lock)),
                // Windows denies access to a file that is being deleted.
                Err(error)
                    if !matches!(error.kind(), ErrorKind::AlreadyExists | ErrorKind::PermissionDenied) =>
                {
                    return Err(failed(error.to_string()));
                }
                Err(error) if Instant::now() >= deadline => {
                    let reason = format!(
                        "another recorder holds {} ({error}); remove it if no recorder is running",
                        lock.display()
                    );
                    return Err(failed(reason));
                }
                Err(_) if is_stale(&lock) => {
                    // Another process may have removed it already.
                    let _ = std::fs::remove_file(&lock);
                }
                Err(_) => thread::sleep(PAUSE),
            }
        }
    }
}

fn is_stale(lock: &Path) -> bool {
    let changed = std::fs::metadata(lock).and_then(|metadata| metadata.modified());
    changed.ok().and_then(|changed| changed.elapsed().ok()).is_some_and(|age| age > STALE)
}

impl Drop for Lock {
    fn drop(&mut self) {
        // It is missing if another process considered it stale.
        let _ = std::fs::remove_file(&self.0);
    }
}
