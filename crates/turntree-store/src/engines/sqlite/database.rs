//! The thread that owns the connection to a SQLite file.
//!
//! Callers send jobs to the thread and await the results, so nothing blocks an event loop. Jobs run in the order in which
//! they were sent. Jobs that write and wait together share one transaction, and so one wait for the disk.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Sender};
use std::thread;

use rusqlite::Connection;
use tokio::sync::oneshot;
use turntree_core::runtime::PerProcess;

use super::failure::Failure;
use super::open::Config;
use super::options::SqliteOptions;
use super::schema::Schema;
use crate::error::StoreError;

mod connection;
mod jobs;

use self::connection::ConnectionThread;
use self::jobs::{Job, Task};

/// What the thread of a database receives.
pub(super) enum Message {
    /// A job that reads.
    Read(Box<dyn Job>),
    /// A job that writes, in a transaction.
    Write(Box<dyn Job>),
    /// Nothing: a fork is near, and the thread must look.
    #[cfg(unix)]
    Wake,
    /// Close the connection and end.
    Close(oneshot::Sender<()>),
}

impl fmt::Debug for Message {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Read(_) => "Read",
            Self::Write(_) => "Write",
            #[cfg(unix)]
            Self::Wake => "Wake",
            Self::Close(_) => "Close",
        })
    }
}

/// A SQLite file, opened at the first job on a thread of its own.
///
/// # Cancel safety
/// Any future may be dropped. The job is then done as a whole or not at all.
#[derive(Debug)]
pub struct Database {
    config: Arc<Config>,
    is_closed: AtomicBool,
    /// A fork has no threads, so it starts its own.
    thread: PerProcess<Handle>,
}

/// The sender of a thread. The thread ends when it is dropped.
#[derive(Debug)]
struct Handle {
    process: u32,
    sender: Option<Arc<Sender<Message>>>,
}

impl Drop for Handle {
    fn drop(&mut self) {
        // After a fork the locks inside of the parent's channel may be held by threads that do not exist.
        if self.process != std::process::id() {
            std::mem::forget(self.sender.take());
        }
    }
}

impl Database {
    /// A database at `path` with tables of its own. The file is opened, created or migrated at the first job.
    ///
    /// # Errors
    /// [`StoreError::Failed`] if the folder does not exist, if the path is a folder, or if the file does not exist and
    /// `create` is false.
    pub fn open(path: &Path, options: SqliteOptions, schema: &'static Schema) -> Result<Self, StoreError> {
        let config = Arc::new(Config::new(path, options, schema)?);
        Ok(Self { config, is_closed: AtomicBool::new(false), thread: PerProcess::new() })
    }

    pub(super) fn name(&self) -> Arc<str> {
        Arc::clone(&self.config.name)
    }

    /// Runs a job that only reads, in one read transaction. `session` is named if data is damaged.
    ///
    /// # Errors
    /// [`StoreError::Closed`], the refusal of the job, and the errors of SQLite.
    pub async fn read<T: Send + 'static>(
        &self,
        session: Option<Arc<str>>,
        work: impl FnMut(&Connection) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (reply, receiver) = oneshot::channel();
        self.send(Message::Read(Box::new(Task::new(session, work, false, reply))))?;
        receiver.await.unwrap_or_else(|_| Err(self.ended()))
    }

    /// Runs a job that writes. The job may run twice: if it shares a transaction with others and one of them fails, all
    /// changes are undone and each job runs in a transaction of its own. A job that returns [`Failure::Refused`] must not
    /// have changed anything. When the future has returned, the changes are on disk as [`SqliteOptions`] says.
    ///
    /// # Errors
    /// [`StoreError::Closed`], the refusal of the job, and the errors of SQLite.
    pub async fn write<T: Send + 'static>(
        &self,
        session: Option<Arc<str>>,
        work: impl FnMut(&Connection) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (reply, receiver) = oneshot::channel();
        self.send(Message::Write(Box::new(Task::new(session, work, false, reply))))?;
        receiver.await.unwrap_or_else(|_| Err(self.ended()))
    }

    /// Runs a job that deletes data, as [`Self::write`] does. When the future has returned, the deleted data is no longer
    /// in the file and its log, unless another process reads older data at that moment. The file shrinks later.
    ///
    /// # Errors
    /// As for [`Self::write`].
    pub async fn erase<T: Send + 'static>(
        &self,
        session: Option<Arc<str>>,
        work: impl FnMut(&Connection) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (reply, receiver) = oneshot::channel();
        self.send(Message::Write(Box::new(Task::new(session, work, true, reply))))?;
        receiver.await.unwrap_or_else(|_| Err(self.ended()))
    }

    /// Closes the file after the jobs that were sent. Later jobs fail with [`StoreError::Closed`].
    ///
    /// # Errors
    /// None at present.
    pub async fn close(&self) -> Result<(), StoreError> {
        if self.is_closed.swap(true, Ordering::SeqCst) {
            return Ok(());
        }
        let (reply, receiver) = oneshot::channel();
        // Without a thread there is nothing to close.
        let thread = self.thread.get_or_try_create(|| Err(()));
        let sender = thread.ok().and_then(|thread| thread.sender.as_ref());
        if sender.is_some_and(|sender| sender.send(Message::Close(reply)).is_ok()) {
            // An error: the thread has ended, so the file is closed.
            let _ = receiver.await;
        }
        Ok(())
    }

    fn send(&self, message: Message) -> Result<(), StoreError> {
        if self.is_closed.load(Ordering::SeqCst) {
            return Err(self.ended());
        }
        let thread = self.thread.get_or_try_create(|| self.start())?;
        let sent = thread.sender.as_ref().map(|sender| sender.send(message));
        if sent.is_some_and(|sent| sent.is_ok()) { Ok(()) } else { Err(self.ended()) }
    }

    /// The error when there is no thread to answer. A message that follows that of `close` gets no answer either.
    fn ended(&self) -> StoreError {
        let store = self.name();
        if self.is_closed.load(Ordering::SeqCst) {
            return StoreError::Closed { store };
        }
        let reason = "its thread has ended; this is a bug in turntree, please report it".to_owned();
        StoreError::Failed { store, reason }
    }

    fn start(&self) -> Result<Handle, StoreError> {
        let (sender, receiver) = mpsc::channel();
        let sender = Arc::new(sender);
        let config = Arc::clone(&self.config);
        let run = move || ConnectionThread::new(config).run(&receiver);
        thread::Builder::new().name("turntree-sqlite".to_owned()).spawn(run).map_err(|error| {
            let reason = format!("cannot start a thread: {error}");
            StoreError::Failed { store: self.name(), reason }
        })?;
        #[cfg(unix)]
        super::fork::wake_before(&sender);
        Ok(Handle { process: std::process::id(), sender: Some(sender) })
    }
}
