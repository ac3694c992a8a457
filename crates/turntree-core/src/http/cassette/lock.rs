//! Merges the writes of several recorders of one file: threads, processes, workers of a test runner.
//!
//! Each recorder appends its exchanges to those of the others, under a lock of the system, so that no
//! recorder removes the exchanges of another.

use std::collections::HashMap;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use super::file::{self, CassetteError, Recorded, Recording};

/// Maximum time to wait for the lock.
const PATIENCE: Duration = Duration::from_secs(10);

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
        let path = &file::target(path)?;
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

/// The system's lock of a file beside the recording. It ends with its process, however that process ends.
struct Lock {
    file: File,
    #[cfg_attr(not(unix), expect(dead_code, reason = "the file is not removed"))]
    path: PathBuf,
}

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
            let taken = Self::take(&lock).map_err(|error| failed(error.to_string()))?;
            if let Some(taken) = taken {
                return Ok(taken);
            }
            if Instant::now() >= deadline {
                let reason = format!("another recorder has locked {} for 10 seconds; end it", lock.display());
                return Err(failed(reason));
            }
            thread::sleep(PAUSE);
        }
    }

    /// `None` if another recorder has the lock.
    fn take(path: &Path) -> std::io::Result<Option<Self>> {
        let opened = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path);
        let file = match opened {
            Ok(file) => file,
            // Windows denies access to a file that is being deleted.
            Err(error) if cfg!(windows) && error.kind() == ErrorKind::PermissionDenied => return Ok(None),
            Err(error) => return Err(error),
        };
        match file.try_lock() {
            Ok(()) => (),
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(error)) => return Err(error),
        }
        let lock = Self { file, path: path.to_owned() };
        Ok(lock.is_current().then_some(lock))
    }

    /// False if the previous owner removed the file after this process opened it: the next one locks another file.
    #[cfg(unix)]
    fn is_current(&self) -> bool {
        use std::os::unix::fs::MetadataExt as _;

        let identity = |metadata: std::fs::Metadata| (metadata.dev(), metadata.ino());
        let here = std::fs::metadata(&self.path).map(identity).ok();
        here.is_some() && here == self.file.metadata().map(identity).ok()
    }

    /// The file is not removed where its identity cannot be compared.
    #[cfg(not(unix))]
    fn is_current(&self) -> bool {
        true
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        #[cfg(unix)]
        if self.is_current() {
            // Another process may have removed it.
            let _ = std::fs::remove_file(&self.path);
        }
        // Closing the file does not unlock it if a forked child has inherited it.
        let _ = self.file.unlock();
    }
}
