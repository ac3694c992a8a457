//! `.turntree/state.db`: the state that hooks, commands and servers of a project share.

use std::fmt::Write as _;
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

use rusqlite::Connection;
use serde_json::Value;
use turntree_store::engine::Synchronous;
use turntree_store::engines::sqlite::database::Database;
use turntree_store::engines::sqlite::{Failure, Schema, SqliteOptions};

use crate::error::HarnessError;

/// The longest wait for another process.
const TIMEOUT: Duration = Duration::from_secs(10);

/// All ids are texts, all times are milliseconds since 1970.
static SCHEMA: Schema = Schema {
    name: "state file",
    // The bytes `ttha`.
    application_id: 0x7474_6861,
    migrations: &[include_str!("state.sql"), include_str!("state-2.sql"), include_str!("state-3.sql")],
    page_size: 4096,
    // A hook that finds a long log reads it first, and one that finds it full flushes the disk: one of about sixty.
    checkpoint_pages: 512,
    keeps_log: true,
};

/// The state of a project. Opened at the first operation; safe to use from several threads and processes.
#[derive(Debug, Clone)]
pub struct State {
    database: Arc<Database>,
}

impl State {
    pub(crate) fn open(path: &Path) -> Result<Self, HarnessError> {
        let options =
            SqliteOptions { synchronous: Synchronous::Normal, timeout: TIMEOUT, ..SqliteOptions::default() };
        Ok(Self { database: Arc::new(Database::open(path, options, &SCHEMA)?) })
    }

    /// Reads in one transaction.
    pub(crate) fn read<T: Send + 'static>(
        &self,
        work: impl FnMut(&Connection) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, HarnessError> {
        Ok(block_on(self.database.read(None, work))?)
    }

    /// Writes in one `BEGIN IMMEDIATE` transaction. The work may run twice.
    pub(crate) fn write<T: Send + 'static>(
        &self,
        work: impl FnMut(&Connection) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, HarnessError> {
        Ok(block_on(self.database.write(None, work))?)
    }

    /// Closes the file.
    ///
    /// # Errors
    /// None at present.
    pub fn close(&self) -> Result<(), HarnessError> {
        Ok(block_on(self.database.close())?)
    }

    /// The events after a number, oldest first: number, time, kind, subject, actor, payload.
    ///
    /// # Errors
    /// The errors of the state file.
    pub fn events(&self, after: i64, limit: u32) -> Result<Vec<Event>, HarnessError> {
        self.read(move |connection| {
            let mut statement = connection.prepare_cached(
                "SELECT seq, at, kind, subject, actor, payload FROM event WHERE seq > ?1 ORDER BY seq LIMIT ?2",
            )?;
            let events = statement.query_map((after, limit), |row| {
                let payload: String = row.get(5)?;
                Ok(Event {
                    number: row.get(0)?,
                    at: row.get(1)?,
                    kind: row.get(2)?,
                    subject: row.get(3)?,
                    actor: row.get(4)?,
                    payload: serde_json::from_str(&payload).unwrap_or(Value::Null),
                })
            })?;
            Ok(events.collect::<Result<_, _>>()?)
        })
    }
}

/// An entry of the change feed.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    /// Its number: grows with each event.
    pub number: i64,
    /// When it happened, in milliseconds since 1970.
    pub at: i64,
    /// What happened: `claim.acquired`.
    pub kind: String,
    /// What it happened to.
    pub subject: String,
    /// Who did it.
    pub actor: String,
    /// More about it.
    pub payload: Value,
}

/// Adds an event in the transaction of what it reports.
pub(crate) fn record(
    connection: &Connection,
    at: i64,
    kind: &str,
    subject: &str,
    actor: &str,
    payload: &Value,
) -> Result<(), Failure> {
    let mut statement = connection.prepare_cached(
        "INSERT INTO event (at, kind, subject, actor, payload) VALUES (?1, ?2, ?3, ?4, ?5)",
    )?;
    statement.execute((at, kind, subject, actor, payload.to_string()))?;
    Ok(())
}

/// Bytes as hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// A new id: sorts by time.
pub(crate) fn new_id(now: i64) -> String {
    format!("{now:013x}-{}", uuid::Uuid::new_v4().simple())
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Waits for the thread of the database.
fn block_on<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(value) => return value,
            Poll::Pending => thread::park(),
        }
    }
}
