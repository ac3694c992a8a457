//! The jobs of the connection's thread.

use std::sync::Arc;

use rusqlite::Connection;
use tokio::sync::oneshot;

use super::super::failure::{Failure, SqliteFailure};
use crate::error::StoreError;

/// Work on a connection whose result somebody may await.
pub(in super::super) trait Job: Send {
    /// Whether the future of the job still exists.
    fn is_wanted(&self) -> bool;

    /// Whether what the job deletes must leave the file.
    fn erases(&self) -> bool;

    /// Runs the job and stores its result. Returns an error of SQLite, after which the transaction must be undone.
    fn run(&mut self, connection: &Connection) -> Option<SqliteFailure>;

    /// Sends the stored result, or else the error of the transaction.
    fn reply(self: Box<Self>, store: &Arc<str>, transaction: Result<(), Failure>);
}

/// A job made of a closure.
pub(super) struct Task<T, F> {
    session: Option<Arc<str>>,
    work: F,
    erases: bool,
    result: Option<Result<T, Failure>>,
    reply: oneshot::Sender<Result<T, StoreError>>,
}

impl<T, F> Task<T, F> {
    pub(super) fn new(
        session: Option<Arc<str>>,
        work: F,
        erases: bool,
        reply: oneshot::Sender<Result<T, StoreError>>,
    ) -> Self {
        Self { session, work, erases, result: None, reply }
    }
}

impl<T: Send, F: FnMut(&Connection) -> Result<T, Failure> + Send> Job for Task<T, F> {
    fn is_wanted(&self) -> bool {
        !self.reply.is_closed()
    }

    fn erases(&self) -> bool {
        self.erases
    }

    fn run(&mut self, connection: &Connection) -> Option<SqliteFailure> {
        let result = (self.work)(connection);
        let failure = match &result {
            Err(Failure::Sqlite(failure)) => Some(failure.clone()),
            _ => None,
        };
        self.result = Some(result);
        failure
    }

    fn reply(self: Box<Self>, store: &Arc<str>, transaction: Result<(), Failure>) {
        let result = match (transaction, self.result) {
            (Ok(()), Some(result)) => result,
            (Err(failure), _) => Err(failure),
            (Ok(()), None) => Err(Failure::Refused(StoreError::Closed { store: Arc::clone(store) })),
        };
        // An error: the caller has dropped its future.
        let _ = self.reply.send(result.map_err(|failure| failure.into_error(store, self.session.as_ref())));
    }
}
