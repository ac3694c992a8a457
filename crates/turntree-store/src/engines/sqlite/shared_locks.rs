//! Locks on the files of a database that other copies of the SQLite library in this process see.
//!
//! SQLite's own locks belong to the process: Python's `sqlite3`, which is another copy of the library, does not see them.
//! It takes itself for the only user of the file. So it clears the index of the write-ahead log when it opens the file,
//! and removes the log, with all that is written there later, when it closes it. Locks of an open file description also
//! conflict with locks of the same process: while they are held, the other copy does neither.
//!
//! Source: SQLite's documents "File Locking" and "WAL-mode File Format"; `fcntl(2)`, "Open file description locks".

use std::ffi::OsString;
use std::fs::File;
use std::ops::Range;
use std::os::fd::AsRawFd as _;
use std::path::Path;

/// The bytes of the database that each user locks. Who locks all of them alone is the last user.
const SHARED_BYTES: Range<i64> = 0x4000_0002..0x4000_0200;

/// The byte of the log's index that each user locks. Who locks it alone is the first user.
const FIRST_USER_BYTE: Range<i64> = 128..129;

/// The locks of one connection. They are best effort: some file systems have none.
#[derive(Debug)]
pub(super) struct SharedLocks([Option<SharedLock>; 2]);

impl SharedLocks {
    /// Locks the files of a database that a connection has open.
    pub(super) fn new(database: &Path) -> Self {
        let mut index = OsString::from(database);
        index.push("-shm");
        Self([SharedLock::new(database, SHARED_BYTES), SharedLock::new(index.as_ref(), FIRST_USER_BYTE)])
    }

    /// Unlocks the files, so that the last connection can remove the log. The files stay open until this is dropped:
    /// closing them ends SQLite's locks on them.
    pub(super) fn release(&self) {
        self.0.iter().flatten().for_each(SharedLock::release);
    }
}

#[derive(Debug)]
struct SharedLock {
    file: File,
    bytes: Range<i64>,
}

impl SharedLock {
    fn new(path: &Path, bytes: Range<i64>) -> Option<Self> {
        let lock = Self { file: File::open(path).ok()?, bytes };
        if !lock.set(libc::F_RDLCK) {
            log::debug!(
                "\"{}\" cannot be locked against other copies of SQLite in this process",
                path.display()
            );
        }
        Some(lock)
    }

    fn release(&self) {
        self.set(libc::F_UNLCK);
    }

    #[expect(unsafe_code, reason = "the standard library has no locks on a part of a file")]
    fn set(&self, kind: libc::c_int) -> bool {
        let Ok(l_type) = i16::try_from(kind) else { return false };
        let Range { start, end } = self.bytes;
        let lock = libc::flock { l_type, l_whence: 0, l_start: start, l_len: end - start, l_pid: 0 };
        // SAFETY: the descriptor is open as long as `file` lives, and the structure is complete.
        unsafe { libc::fcntl(self.file.as_raw_fd(), libc::F_OFD_SETLK, &raw const lock) == 0 }
    }
}
