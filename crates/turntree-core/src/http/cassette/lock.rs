//! One file that several recorders write: threads, processes, workers of a test runner.
//!
//! Each writes what it has recorded behind what the file holds from others, under a lock beside the file, so that none
//! takes away what another has added.

use std::collections::HashMap;
use std::fs::OpenOptions;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use super::file::{self, CassetteError, Recorded, Recording};

/// How long a lock is waited for.
const PATIENCE: Duration = Duration::from_secs(10);

/// A lock that is older was left by a process that died: writing takes a moment.
const STALE: Duration = Duration::from_secs(30);

/// Between two looks at a lock.
const PAUSE: Duration = Duration::from_millis(5);

/// What of a file belongs to one recorder.
#[derive(Default)]
pub(super) struct FileShare {
    /// What the file held, for the case that somebody takes it away.
    before: Recording,
    /// What the file held that this recorder replaces, or has written: how often each exchange.
    ours: HashMap<String, usize>,
}

impl FileShare {
    /// Of a recorder that adds to what the file holds.
    pub(super) fn adding(before: Recording) -> Self {
        Self { before, ours: HashMap::new() }
    }

    /// Of a recorder that replaces what the file holds now.
    pub(super) fn replacing(path: &Path) -> Self {
        // What cannot be read is no recording of anybody's.
        let replaced = file::read(path).map(|recording| recording.exchanges).unwrap_or_default();
        Self { before: Recording::default(), ours: counted(&replaced) }
    }

    /// Writes all that this recorder has recorded behind what others have. Blocks.
    ///
    /// # Errors
    /// [`CassetteError::File`] when it cannot be written or the lock is not given up.
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

/// How often each exchange is there.
fn counted(exchanges: &[Recorded]) -> HashMap<String, usize> {
    let mut counts = HashMap::new();
    for exchange in exchanges {
        *counts.entry(written(exchange)).or_default() += 1;
    }
    counts
}

/// An exchange as it is compared.
fn written(exchange: &Recorded) -> String {
    serde_json::to_string(exchange).unwrap_or_default()
}

/// A lock file, removed when it is dropped.
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
                // Windows denies access to a file that is being removed.
                Err(error)
                    if !matches!(error.kind(), ErrorKind::AlreadyExists | ErrorKind::PermissionDenied) =>
                {
                    return Err(failed(error.to_string()));
                }
                Err(error) if Instant::now() >= deadline => {
                    let words = format!(
                        "another recorder holds {} ({error}); remove it when none runs",
                        lock.display()
                    );
                    return Err(failed(words));
                }
                Err(_) if is_stale(&lock) => {
                    // Somebody else may have been faster.
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
        // When it is gone already, somebody took it for stale.
        let _ = std::fs::remove_file(&self.0);
    }
}
