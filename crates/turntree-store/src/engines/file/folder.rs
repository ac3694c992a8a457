//! The folder of a store: creation, names of files, locks, errors.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::import::DONE;
use crate::digest::Digest;
use crate::engine::TIMEOUT;
use crate::error::StoreError;

/// The file that marks a folder as a store.
const MARKER: &str = "turntree-store.json";

/// The value of [`Marker::format`].
const FORMAT: &str = "turntree-file-store";

/// The version of the format of files and names.
pub(super) const VERSION: u64 = 1;

/// The folder of locks.
const LOCKS: &str = "locks";

/// The longest name of a session's folder that contains the whole id. File systems allow 255 bytes.
const MAX_NAME: usize = 150;

/// The number of characters of a longer id that its name starts with.
const PREFIX: usize = 60;

/// The longest pause between two attempts to take a lock.
const MAX_PAUSE: Duration = Duration::from_millis(10);

#[derive(Serialize, Deserialize)]
struct Marker {
    format: String,
    version: u64,
}

/// Whether other processes may read while a lock is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    Read,
    Write,
}

/// The folder of a store.
#[derive(Debug)]
pub(super) struct Folder {
    /// For messages, with the path as the application wrote it.
    pub(super) name: Arc<str>,
    pub(super) path: PathBuf,
    is_ready: AtomicBool,
}

impl Folder {
    /// Checks what can be checked without creating the folder.
    pub(super) fn new(path: &Path) -> Result<Self, StoreError> {
        let name: Arc<str> = format!("file store \"{}\"", path.display()).into();
        let failed = |reason: String| StoreError::Failed { store: Arc::clone(&name), reason };
        if path.as_os_str().is_empty() {
            return Err(StoreError::Invalid("path: expected the path of a folder, got \"\"".to_owned()));
        }
        let absolute = std::path::absolute(path).map_err(|error| failed(error.to_string()))?;
        match fs::metadata(&absolute) {
            Ok(metadata) if !metadata.is_dir() => {
                return Err(failed("the path is a file, not a folder".to_owned()));
            }
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let above = absolute.parent().unwrap_or(&absolute);
                if !above.is_dir() {
                    return Err(failed(format!("the folder \"{}\" does not exist", above.display())));
                }
            }
            Err(error) => return Err(failed(error.to_string())),
        }
        Ok(Self { name, path: absolute, is_ready: AtomicBool::new(false) })
    }

    /// The folder that contains the folders of sessions.
    pub(super) fn sessions(&self) -> PathBuf {
        self.path.join("sessions")
    }

    /// The folder of a session.
    pub(super) fn session(&self, id: &str) -> PathBuf {
        self.sessions().join(name(id))
    }

    /// The folder of deleted sessions.
    pub(super) fn trash(&self) -> PathBuf {
        self.path.join("trash")
    }

    /// Checks that the folder is a store, and creates it before the first write. Returns false if there is no store.
    pub(super) fn prepare(&self, access: Access) -> Result<bool, StoreError> {
        if self.is_ready.load(Ordering::Acquire) {
            self.finish_done_import()?;
            return Ok(true);
        }
        let marker = self.path.join(MARKER);
        match fs::read(&marker) {
            Ok(bytes) => self.check_marker(&bytes)?,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                self.refuse_other_files()?;
                if access == Access::Read {
                    return Ok(false);
                }
                self.create(&marker)?;
            }
            Err(error) => return Err(self.read_error(&marker, &error)),
        }
        self.finish_done_import()?;
        self.empty_trash();
        self.remove_unfinished_imports();
        self.is_ready.store(true, Ordering::Release);
        Ok(true)
    }

    /// Finishes an import whose process has ended, or waits for the one that does it.
    fn finish_done_import(&self) -> Result<(), StoreError> {
        if self.path.join(DONE).exists() { self.finish_import() } else { Ok(()) }
    }

    /// Removes the files of deleted sessions that a crash has left.
    fn empty_trash(&self) {
        for folder in fs::read_dir(self.trash()).into_iter().flatten().flatten() {
            // An error: another process removes it, or the store cannot be written.
            let _ = fs::remove_dir_all(folder.path());
        }
    }

    fn check_marker(&self, bytes: &[u8]) -> Result<(), StoreError> {
        let store = Arc::clone(&self.name);
        match serde_json::from_slice::<Marker>(bytes) {
            Ok(marker) if marker.format == FORMAT && marker.version <= VERSION => Ok(()),
            Ok(marker) if marker.format == FORMAT => {
                Err(StoreError::NewerSchema { store, found: marker.version, supported: VERSION })
            }
            _ => {
                let reason = format!("the file \"{MARKER}\" in it does not describe a store");
                Err(StoreError::Failed { store, reason })
            }
        }
    }

    fn refuse_other_files(&self) -> Result<(), StoreError> {
        let is_own = |name: &str| ["sessions", LOCKS, "trash"].contains(&name) || name.starts_with(MARKER);
        let names = fs::read_dir(&self.path).into_iter().flatten().flatten();
        let mut names = names.map(|entry| entry.file_name().to_string_lossy().into_owned());
        match names.find(|name| !is_own(name)) {
            Some(name) => {
                let reason = format!(
                    "the folder contains \"{name}\" and no \"{MARKER}\": it is not a store, nor empty"
                );
                Err(StoreError::Failed { store: Arc::clone(&self.name), reason })
            }
            None => Ok(()),
        }
    }

    fn create(&self, marker: &Path) -> Result<(), StoreError> {
        static COUNTER: AtomicU64 = AtomicU64::new(0);
        let write = || -> io::Result<()> {
            for folder in [self.path.clone(), self.sessions(), self.path.join(LOCKS), self.trash()] {
                create_folder(&folder)?;
            }
            let content = format!("{{\"format\":\"{FORMAT}\",\"version\":{VERSION}}}\n");
            // Several threads and processes may create the store at the same time.
            let number = COUNTER.fetch_add(1, Ordering::Relaxed);
            let new = self.path.join(format!("{MARKER}.{}.{number}", std::process::id()));
            write_file(&new, content.as_bytes())?;
            fs::rename(&new, marker)?;
            sync_folder(&self.path)?;
            self.path.parent().map_or(Ok(()), sync_folder)
        };
        write().map_err(|error| self.write_error(&self.path, &error))
    }

    /// Locks a session, in this process and in others.
    pub(super) fn lock(&self, id: &str, access: Access) -> Result<Lock, StoreError> {
        self.lock_shard(shard(id), access)
    }

    /// Locks the sessions that share a lock.
    pub(super) fn lock_shard(&self, shard: u8, access: Access) -> Result<Lock, StoreError> {
        let Some((path, file)) = self.open_lock(shard, access)? else { return Ok(Lock(None)) };
        let lock = self.wait_for(&path, file, access)?;
        // While this has waited, an import of the session may have been done.
        self.finish_done_import()?;
        Ok(lock)
    }

    /// Takes a lock that belongs to no session.
    pub(super) fn lock_named(&self, name: &str, access: Access) -> Result<Lock, StoreError> {
        let path = self.path.join(LOCKS).join(name);
        let file = open_or_create(&path).map_err(|error| self.write_error(&path, &error))?;
        self.wait_for(&path, file, access)
    }

    /// Takes a lock that belongs to no session; `None` if another process holds it, or nothing can be written.
    pub(super) fn try_lock_named(&self, name: &str) -> Option<Lock> {
        let file = open_or_create(&self.path.join(LOCKS).join(name)).ok()?;
        file.try_lock().is_ok().then_some(Lock(Some(file)))
    }

    fn wait_for(&self, path: &Path, file: File, access: Access) -> Result<Lock, StoreError> {
        let start = Instant::now();
        let mut pause = Duration::from_micros(100);
        loop {
            let locked = match access {
                Access::Read => file.try_lock_shared(),
                Access::Write => file.try_lock(),
            };
            match locked {
                Ok(()) => return Ok(Lock(Some(file))),
                Err(TryLockError::WouldBlock) if start.elapsed() < TIMEOUT => {
                    thread::sleep(pause);
                    pause = (pause * 2).min(MAX_PAUSE);
                }
                Err(TryLockError::WouldBlock) => {
                    let reason = format!("another process holds the lock \"{}\"", path.display());
                    return Err(StoreError::Unavailable { store: Arc::clone(&self.name), reason });
                }
                Err(TryLockError::Error(error)) => return Err(self.write_error(path, &error)),
            }
        }
    }

    /// Opens the lock file of a session; `None` if there is no store any more, or if nothing can be written here, so that
    /// nothing changes while it is read.
    fn open_lock(&self, shard: u8, access: Access) -> Result<Option<(PathBuf, File)>, StoreError> {
        let path = self.path.join(LOCKS).join(format!("{shard:02x}"));
        let is_missing = |error: &io::Error| error.kind() == ErrorKind::NotFound;
        let mut file = open_or_create(&path);
        if file.as_ref().is_err_and(is_missing) {
            // The application has deleted the folder while the store was open.
            self.is_ready.store(false, Ordering::Release);
            if !self.prepare(access)? {
                return Ok(None);
            }
            file = open_or_create(&path);
        }
        match file {
            Ok(file) => Ok(Some((path, file))),
            Err(error) if access == Access::Read && is_read_only(&error) => Ok(None),
            Err(error) => Err(self.write_error(&path, &error)),
        }
    }

    /// The error of an operation that writes.
    pub(super) fn write_error(&self, path: &Path, error: &io::Error) -> StoreError {
        let (store, reason) = (Arc::clone(&self.name), format!("\"{}\": {error}", path.display()));
        match error.kind() {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge => {
                StoreError::Full { store, reason }
            }
            _ if is_read_only(error) => StoreError::ReadOnly { store, reason },
            _ => StoreError::Unavailable { store, reason },
        }
    }

    /// The error of an operation that reads.
    pub(super) fn read_error(&self, path: &Path, error: &io::Error) -> StoreError {
        let (store, reason) = (Arc::clone(&self.name), format!("\"{}\": {error}", path.display()));
        StoreError::Failed { store, reason }
    }

    /// The error of a session whose log is damaged.
    pub(super) fn corrupt(&self, session: &str, reason: String) -> StoreError {
        StoreError::Corrupt { store: Arc::clone(&self.name), session: session.into(), reason }
    }
}

fn is_read_only(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::ReadOnlyFilesystem | ErrorKind::PermissionDenied)
}

/// Opens the file of a lock.
fn open_or_create(path: &Path) -> io::Result<File> {
    match File::open(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)
        }
        file => file,
    }
}

/// A lock, until it is dropped.
#[derive(Debug)]
pub(super) struct Lock(Option<File>);

impl Drop for Lock {
    fn drop(&mut self) {
        // Explicitly: a process that was forked in the meantime has the file open too, and would hold the lock.
        if let Some(file) = &self.0 {
            let _ = file.unlock();
        }
    }
}

/// Chooses the lock of a session.
pub(super) fn shard(id: &str) -> u8 {
    Digest::of(id.as_bytes()).0[0]
}

/// The name of a session's folder: `s-` and the id. All bytes but lowercase letters, digits, `_` and `-` are written as
/// `%` and two digits, because file systems disagree about case, Unicode forms, dots and reserved names. A long id is
/// cut, and followed by `~` and its SHA-256.
pub(super) fn name(id: &str) -> String {
    let mut name = "s-".to_owned();
    for byte in id.bytes() {
        match byte {
            b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-' => name.push(char::from(byte)),
            _ => name.extend(['%', hex_digit(byte >> 4), hex_digit(byte & 15)]),
        }
    }
    if name.len() > MAX_NAME {
        name.truncate(PREFIX);
        name.push('~');
        name.push_str(&Digest::of(id.as_bytes()).to_string());
    }
    name
}

fn hex_digit(value: u8) -> char {
    char::from_digit(value.into(), 16).unwrap_or('0')
}

/// Creates a folder that may exist.
pub(super) fn create_folder(path: &Path) -> io::Result<()> {
    match fs::create_dir(path) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        result => result,
    }
}

/// Writes a file and waits until its content is on disk. The name is on disk after [`sync_folder`].
pub(super) fn write_file(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut file = File::create(path)?;
    file.write_all(content)?;
    file.sync_all()
}

/// Waits until the names in a folder are on disk. Windows does this by itself.
pub(super) fn sync_folder(path: &Path) -> io::Result<()> {
    if cfg!(unix) { File::open(path)?.sync_all() } else { Ok(()) }
}
