//! The tables of a store, and the migrations between their versions.
//!
//! The layout is chosen for few bytes, on disk and per commit. Measured: 400 entries of 2 200 random bytes (file size
//! after the last commit, without the write-ahead log), and 300 entries of 1 500 bytes (all bytes written, with the
//! write-ahead log and checkpoints, until the file is closed):
//!
//! | page size | `entries` | 400 × 2 200 B: file | 300 × 1 500 B: written |
//! |---|---|---|---|
//! | 512 | one integer key | 0.87 MB | 1.8 MB |
//! | 512 | WITHOUT ROWID (session, revision) | 0.97 MB | 2.0 MB |
//! | 512 | rowid and an index | 0.89 MB | 2.0 MB |
//! | 1024 | one integer key | 0.92 MB | 2.9 MB |
//! | 2048 | one integer key | 0.93 MB | 4.5 MB |
//! | 4096 | one integer key | 1.65 MB | 6.7 MB |
//! | 4096 | WITHOUT ROWID | 1.88 MB | 11.6 MB |
//!
//! A commit writes whole pages: the last page of `entries`, the pages that the entry overflows to, and one page each of
//! `sessions`, its index, the file header and the vacuum map. Small pages also leave no large unused rest. They cost
//! little: a log of 10 000 × 2 000 bytes is read in 27 ms of CPU time, instead of 20 ms with pages of 1 024 bytes.

use rusqlite::Connection;

use super::failure::Failure;

/// The page size of new files, in bytes.
const PAGE_SIZE: u32 = 512;

/// The number of pages in the write-ahead log that starts a checkpoint: 128 KiB, about 25 entries of 1.5 KB. A larger log
/// saves few bytes, because nearly every page of a log is written once.
const CHECKPOINT_PAGES: u32 = 256;

/// The tables of a SQLite file, the migrations between their versions, and how its pages are laid out.
#[derive(Debug)]
pub struct Schema {
    /// What the file is, for messages: `SQLite store`.
    pub name: &'static str,
    /// Marks the file: a file with another number is not opened.
    pub application_id: i32,
    /// Each migration makes the next version; a new file has the version 0. Released migrations do not change.
    pub migrations: &'static [&'static str],
    /// The page size of new files, in bytes.
    pub page_size: u32,
    /// The number of pages in the write-ahead log that starts a checkpoint.
    pub checkpoint_pages: u32,
    /// Whether the write-ahead log stays when the last connection is closed. A process that opens the file for a moment
    /// then waits for no flush of the disk; what it wrote is in the log until a checkpoint.
    pub keeps_log: bool,
}

/// The schema of session stores. The application id is the bytes `ttre`.
pub(super) static SESSIONS: Schema = Schema {
    name: "SQLite store",
    application_id: 0x7474_7265,
    migrations: MIGRATIONS,
    page_size: PAGE_SIZE,
    checkpoint_pages: CHECKPOINT_PAGES,
    keeps_log: false,
};

/// Each migration makes the next version; a new file has the version 0. Released migrations do not change.
const MIGRATIONS: &[&str] = &[
    "
    -- `number` names the session in the other tables. `updated_at`: microseconds since 1970-01-01T00:00:00Z.
    -- `fence`: the newest fencing token that has appended to the session.
    CREATE TABLE sessions (
        number INTEGER PRIMARY KEY,
        id TEXT NOT NULL UNIQUE,
        agent TEXT NOT NULL,
        status TEXT NOT NULL,
        turns INTEGER NOT NULL,
        nodes INTEGER NOT NULL,
        updated_at INTEGER NOT NULL,
        bytes INTEGER NOT NULL,
        fence INTEGER
    ) STRICT;
    CREATE INDEX sessions_by_time ON sessions (updated_at);
    -- `key`: sessions.number * 4294967296 + revision. The last entry of a session is its head.
    CREATE TABLE entries (
        key INTEGER PRIMARY KEY,
        digest BLOB NOT NULL,
        data BLOB NOT NULL
    ) STRICT;
    CREATE TABLE blobs (
        session INTEGER NOT NULL REFERENCES sessions (number),
        address BLOB NOT NULL,
        data BLOB NOT NULL,
        UNIQUE (session, address)
    ) STRICT;
    ",
    "
    -- Times: microseconds since 1970-01-01T00:00:00Z. `is_active`: the status is queued, running or waiting.
    -- `seen`: `sessions.updated_at` when the run began to wait.
    CREATE TABLE runs (
        number INTEGER PRIMARY KEY,
        id TEXT NOT NULL UNIQUE,
        session TEXT NOT NULL,
        input TEXT,
        agent TEXT,
        status TEXT NOT NULL DEFAULT 'queued',
        is_active INTEGER NOT NULL DEFAULT 1,
        is_started INTEGER NOT NULL DEFAULT 0,
        priority INTEGER NOT NULL,
        not_before INTEGER NOT NULL,
        retry_at INTEGER NOT NULL DEFAULT 0,
        attempts INTEGER NOT NULL DEFAULT 0,
        failures INTEGER NOT NULL DEFAULT 0,
        seen INTEGER NOT NULL DEFAULT 0,
        error TEXT,
        turn TEXT,
        created_at INTEGER NOT NULL,
        updated_at INTEGER NOT NULL
    ) STRICT;
    CREATE INDEX runs_by_session ON runs (session, number) WHERE is_active;
    CREATE INDEX runs_by_priority ON runs (priority DESC, number) WHERE is_active;
    -- A released lease has no worker; its token stays, so that the next one is greater.
    CREATE TABLE leases (
        session TEXT PRIMARY KEY,
        token INTEGER NOT NULL,
        worker TEXT,
        expires INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID;
    ",
    "
    -- Times: microseconds since 1970-01-01T00:00:00Z.
    CREATE TABLE records (
        number INTEGER PRIMARY KEY,
        collection TEXT NOT NULL,
        key TEXT NOT NULL,
        version INTEGER NOT NULL,
        data BLOB NOT NULL,
        expires_at INTEGER,
        UNIQUE (collection, key)
    ) STRICT;
    CREATE INDEX records_by_expiry ON records (collection, expires_at) WHERE expires_at IS NOT NULL;
    CREATE TABLE record_entries (
        record INTEGER NOT NULL REFERENCES records (number),
        version INTEGER NOT NULL,
        data BLOB NOT NULL,
        PRIMARY KEY (record, version)
    ) STRICT, WITHOUT ROWID;
    ",
    "
    -- `expires` counts from the start of the machine; `boot` names that start. A lease without it has expired.
    ALTER TABLE leases ADD COLUMN boot TEXT;
    ",
];

impl Schema {
    /// The newest version of the schema.
    pub(super) fn newest_version(&self) -> u64 {
        u64::try_from(self.migrations.len()).unwrap_or(u64::MAX)
    }

    /// Runs the migrations that follow `version`, in the transaction that is open.
    pub(super) fn migrate(&self, connection: &Connection, version: u64) -> Result<(), Failure> {
        for migration in self.migrations.iter().skip(usize::try_from(version).unwrap_or(usize::MAX)) {
            connection.execute_batch(migration)?;
        }
        connection.pragma_update(None, "application_id", self.application_id)?;
        connection.pragma_update(None, "user_version", self.newest_version())?;
        Ok(())
    }
}
