//! How a SQLite file is opened.

use std::time::Duration;

use crate::engine::{Synchronous, TIMEOUT};

/// How a SQLite file is opened.
#[derive(Debug, Clone)]
pub struct SqliteOptions {
    /// When a commit is on disk. Full by default.
    pub synchronous: Synchronous,
    /// Whether a missing file is created. True by default. Folders are not created.
    pub create: bool,
    /// Whether the file is opened for reading only. False by default.
    pub read_only: bool,
    /// How long an operation waits for another process. 60 s by default, and at most.
    pub timeout: Duration,
}

impl Default for SqliteOptions {
    fn default() -> Self {
        Self { synchronous: Synchronous::Full, create: true, read_only: false, timeout: TIMEOUT }
    }
}
