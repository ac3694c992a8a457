//! What the thread of a database does: runs jobs in transactions, and shrinks the file when there is nothing else to do.

use std::slice;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::Duration;

use rusqlite::Connection;
use rusqlite::config::DbConfig;

use super::super::busy::{self, Breaks};
use super::super::failure::{Failure, SqliteFailure};
#[cfg(unix)]
use super::super::fork;
use super::super::open::{Config, Identity, Opened};
#[cfg(target_os = "linux")]
use super::super::shared_locks::SharedLocks;
use super::{Job, Message};

/// The largest number of jobs of one transaction.
const MAX_GROUP: usize = 256;

/// The file shrinks when it has more than this number of free pages: 128 KiB.
const FREE_PAGES: u32 = 256;

/// The number of pages that are moved before the next job is looked for: 5 to 20 ms.
const VACUUM_PAGES: u32 = 1_000;

/// How long the removal of deleted data from the log waits for readers in other processes.
const ERASE_TIMEOUT: Duration = Duration::from_secs(1);

/// What a transaction does.
#[derive(Debug, Clone, Copy)]
enum Access {
    Read,
    Write,
}

/// The thread's state.
pub(super) struct ConnectionThread {
    config: Arc<Config>,
    open: Option<OpenFile>,
    breaks: Breaks,
    /// Whether the file may have many free pages.
    shrinks: bool,
}

struct OpenFile {
    connection: Connection,
    /// Whether the connection does not notice what others write.
    is_immutable: bool,
    identity: Identity,
    /// Released before the connection is dropped; dropped after it.
    #[cfg(target_os = "linux")]
    locks: SharedLocks,
    /// Dropped after the connection.
    #[cfg(unix)]
    _permit: fork::Permit,
}

#[cfg(target_os = "linux")]
impl Drop for OpenFile {
    fn drop(&mut self) {
        self.locks.release();
    }
}

impl ConnectionThread {
    pub(super) fn new(config: Arc<Config>) -> Self {
        Self { config, open: None, breaks: Breaks::new(), shrinks: false }
    }

    /// Runs jobs until the database is closed or dropped.
    pub(super) fn run(mut self, messages: &Receiver<Message>) {
        let mut next = None;
        loop {
            #[cfg(unix)]
            if fork::is_near() {
                self.open = None;
            }
            let Some(message) = next.take().or_else(|| self.wait(messages)) else { return };
            match message {
                Message::Read(job) => self.read(job),
                Message::Write(job) => next = self.write(job, messages),
                #[cfg(unix)]
                Message::Wake => {}
                Message::Close(reply) => {
                    drop(self.open.take());
                    // An error: the caller has dropped its future.
                    let _ = reply.send(());
                    return;
                }
            }
        }
    }

    /// Waits for a message, and shrinks the file in the meantime; `None` if the database was dropped.
    fn wait(&mut self, messages: &Receiver<Message>) -> Option<Message> {
        while self.shrinks {
            match messages.try_recv() {
                Ok(message) => return Some(message),
                Err(TryRecvError::Disconnected) => return None,
                Err(TryRecvError::Empty) => {
                    self.breaks.rest();
                    self.shrinks = self.shrink().unwrap_or_else(|failure| {
                        log::debug!("the file of a store shrinks later: {failure:?}");
                        false
                    });
                    self.breaks.note_write();
                }
            }
        }
        messages.recv().ok()
    }

    fn read(&mut self, mut job: Box<dyn Job>) {
        if !job.is_wanted() {
            return;
        }
        let result = self.transaction(Access::Read, slice::from_mut(&mut job));
        job.reply(&self.config.name, result);
    }

    /// Runs a job together with those that wait behind it. Returns a message that is not a part of the group.
    fn write(&mut self, first: Box<dyn Job>, messages: &Receiver<Message>) -> Option<Message> {
        self.breaks.rest();
        let mut jobs = vec![first];
        let mut next = None;
        while jobs.len() < MAX_GROUP && next.is_none() {
            match messages.try_recv() {
                Ok(Message::Write(job)) => jobs.push(job),
                Ok(other) => next = Some(other),
                Err(_) => break,
            }
        }
        jobs.retain(|job| job.is_wanted());
        if jobs.is_empty() {
            return next;
        }
        let result = self.transaction(Access::Write, &mut jobs);
        if result.is_err() && jobs.len() > 1 {
            for mut job in jobs {
                let result = self.transaction(Access::Write, slice::from_mut(&mut job));
                self.finish(vec![job], &result);
            }
        } else {
            self.finish(jobs, &result);
        }
        self.breaks.note_write();
        next
    }

    fn finish(&mut self, jobs: Vec<Box<dyn Job>>, result: &Result<(), Failure>) {
        if result.is_ok() && jobs.iter().any(|job| job.erases()) {
            self.shrinks = true;
            if let Some(file) = &self.open {
                erase_log(&file.connection);
            }
        }
        for job in jobs {
            job.reply(&self.config.name, result.clone());
        }
    }

    fn transaction(&mut self, access: Access, jobs: &mut [Box<dyn Job>]) -> Result<(), Failure> {
        let connection = self.connection()?;
        let result = run_all(connection, access, jobs);
        let is_open = !connection.is_autocommit();
        let is_ended =
            !is_open || connection.prepare_cached("ROLLBACK").and_then(|mut end| end.execute([])).is_ok();
        if !is_ended || result.as_ref().is_err_and(SqliteFailure::is_of_connection) {
            self.open = None;
        }
        // Another user may write the file before the next operation.
        self.open.take_if(|open| open.is_immutable);
        result.map_err(Failure::Sqlite)
    }

    /// The connection. Opened again if the files at the paths are others, for example after the application has deleted
    /// them: a write to the old files would be lost.
    fn connection(&mut self) -> Result<&Connection, Failure> {
        let identity = self.config.identity();
        if let Some(open) = self.open.take_if(|open| open.identity != identity) {
            // Its log is not that of the files at the paths: closing must neither copy it nor remove theirs.
            open.connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
        }
        let open = if let Some(open) = self.open.take() {
            open
        } else {
            #[cfg(unix)]
            let permit = fork::Permit::new();
            let Opened { connection, is_immutable } = self.config.open()?;
            OpenFile {
                connection,
                is_immutable,
                identity: self.config.identity(),
                #[cfg(target_os = "linux")]
                locks: SharedLocks::new(self.config.path()),
                #[cfg(unix)]
                _permit: permit,
            }
        };
        Ok(&self.open.insert(open).connection)
    }

    /// Gives some free pages back to the file system. Returns whether there may be more. Opens a file that a fork has
    /// closed in the meantime; a file that the application has deleted stays deleted.
    fn shrink(&mut self) -> Result<bool, Failure> {
        if self.open.is_none() && !self.config.path().exists() {
            return Ok(false);
        }
        let connection = self.connection()?;
        let free = |connection: &Connection| -> rusqlite::Result<u32> {
            connection.pragma_query_value(None, "freelist_count", |row| row.get(0))
        };
        if free(connection)? <= FREE_PAGES {
            return Ok(false);
        }
        // Moves one page in each step.
        let mut statement = connection.prepare(&format!("PRAGMA incremental_vacuum({VACUUM_PAGES})"))?;
        let mut rows = statement.query([])?;
        while rows.next()?.is_some() {}
        drop(rows);
        if free(connection)? > 0 {
            return Ok(true);
        }
        // A checkpoint cuts the file.
        erase_log(connection);
        Ok(false)
    }
}

fn run_all(connection: &Connection, access: Access, jobs: &mut [Box<dyn Job>]) -> Result<(), SqliteFailure> {
    let begin = match access {
        Access::Read => "BEGIN",
        Access::Write => "BEGIN IMMEDIATE",
    };
    connection.prepare_cached(begin)?.execute([])?;
    for job in jobs {
        if let Some(failure) = job.run(connection) {
            return Err(failure);
        }
    }
    match access {
        // Nothing depends on the end of a read transaction. It fails if a job has found damage and gone on.
        Access::Read => {}
        Access::Write => {
            connection.prepare_cached("COMMIT")?.execute([])?;
        }
    }
    Ok(())
}

/// Removes everything from the write-ahead log, which still contains what was deleted. Does nothing if another process
/// reads from the log for longer than [`ERASE_TIMEOUT`]; the next checkpoint overwrites it then.
fn erase_log(connection: &Connection) {
    let timeout = busy::set_timeout(ERASE_TIMEOUT);
    let done = connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
    busy::set_timeout(timeout);
    if let Err(error) = done {
        log::warn!("the write-ahead log keeps its content until the next checkpoint: {error}");
    }
}
