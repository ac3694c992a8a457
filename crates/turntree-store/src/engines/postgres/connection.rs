//! A connection, and how statements are executed on it.
//!
//! A pooler in transaction mode gives each transaction any process of the server, and the process of one transaction to
//! other clients afterwards. What belongs to a process would be missing there, or meet what others have left: named
//! statements, settings, listening, and the number of the process. Behind a pooler, a connection therefore uses none of
//! them; single statements have no name, and the settings are those of the role.

use std::collections::HashMap;
use std::convert::Infallible;
use std::future::{Ready, ready};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::{fmt, io};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::tls::{ChannelBinding, TlsConnect, TlsStream};
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Error, Row, RowStream, SimpleQueryMessage, Statement};
use turntree_core::runtime::Task;

use super::url::Pooler;
use crate::engine::Synchronous;
use crate::error::StoreError;

/// The settings of every connection. The server ends a statement before the store's own limit of 60 s, and a
/// transaction whose client is gone. Row locks and one snapshot for each statement are all that the statements need, so
/// a stricter default of the database is not used.
const SETTINGS: &str = "SET statement_timeout = '55s'; SET idle_in_transaction_session_timeout = '60s'; \
    SET default_transaction_isolation = 'read committed'; SET client_min_messages = 'warning';";

/// Full: an acknowledged commit is on disk. A stricter setting of the server (a replica has it) stays.
const SYNCHRONOUS_FULL: &str = "SELECT set_config('synchronous_commit', 'on', false) \
    WHERE current_setting('synchronous_commit') = 'off'";

/// Normal: the server acknowledges first and writes within three times its `wal_writer_delay`.
const SYNCHRONOUS_NORMAL: &str = "SET synchronous_commit = 'off'";

/// What identifies the process of the server that serves a connection (numbers of processes are used again), and the
/// settings that a connection behind a pooler cannot change.
const BACKEND: &str = "SELECT pid, extract(epoch FROM backend_start), current_setting('default_transaction_isolation'), \
    current_setting('synchronous_commit') FROM pg_stat_activity WHERE pid = pg_backend_pid()";

/// A process of the server: its number and when it was started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Backend {
    pub(super) pid: String,
    pub(super) started: String,
}

/// A value of a statement, with its type: statements without a name bring the types along.
pub(super) trait Parameter: ToSql + Sync {
    /// The type in PostgreSQL.
    fn kind(&self) -> Type;
}

impl<T: Typed + ToSql + Sync> Parameter for T {
    fn kind(&self) -> Type {
        T::TYPE
    }
}

/// A type that values of statements have.
pub(super) trait Typed {
    const TYPE: Type;
}

impl Typed for &str {
    const TYPE: Type = Type::TEXT;
}

impl Typed for String {
    const TYPE: Type = Type::TEXT;
}

impl Typed for i64 {
    const TYPE: Type = Type::INT8;
}

impl Typed for i32 {
    const TYPE: Type = Type::INT4;
}

impl Typed for bool {
    const TYPE: Type = Type::BOOL;
}

impl Typed for &[u8] {
    const TYPE: Type = Type::BYTEA;
}

impl Typed for Vec<&str> {
    const TYPE: Type = Type::TEXT_ARRAY;
}

impl Typed for Vec<String> {
    const TYPE: Type = Type::TEXT_ARRAY;
}

impl Typed for Vec<&[u8]> {
    const TYPE: Type = Type::BYTEA_ARRAY;
}

impl<T: Typed> Typed for Option<T> {
    const TYPE: Type = T::TYPE;
}

type Value<'a> = &'a (dyn ToSql + Sync);

fn values<'a>(parameters: &[&'a dyn Parameter]) -> Vec<Value<'a>> {
    parameters.iter().map(|parameter| *parameter as Value<'a>).collect()
}

fn typed_values<'a>(parameters: &[&'a dyn Parameter]) -> Vec<(Value<'a>, Type)> {
    parameters.iter().map(|parameter| (*parameter as Value<'a>, parameter.kind())).collect()
}

/// A connection.
pub(super) struct Connection {
    pub(super) client: Client,
    kind: Kind,
    // Reads and writes the socket; dropping it closes the socket.
    _task: Task<()>,
}

enum Kind {
    /// A process of the server belongs to this connection, and has its prepared statements.
    Own { backend: Backend, statements: HashMap<String, Statement> },
    /// A pooler chooses a process for each transaction.
    Pooled,
}

/// Why a connection cannot be used.
pub(super) enum Unusable {
    Refused(Error),
    Invalid(String),
}

impl From<Error> for Unusable {
    fn from(error: Error) -> Self {
        Self::Refused(error)
    }
}

impl Unusable {
    /// As an error of the store, unless the server has refused the connection.
    pub(super) fn into_store_error(self, store: &Arc<str>) -> Result<StoreError, Error> {
        match self {
            Self::Refused(error) => Err(error),
            Self::Invalid(reason) => Ok(StoreError::Failed { store: Arc::clone(store), reason }),
        }
    }
}

impl Connection {
    /// Prepares a new connection for statements: finds out whether a pooler is between, and makes the settings.
    pub(super) async fn new(
        client: Client,
        task: Task<()>,
        pooler: Option<Pooler>,
        synchronous: Synchronous,
    ) -> Result<Self, Unusable> {
        let messages = client.simple_query(BACKEND).await?;
        let row = messages.iter().find_map(|message| match message {
            SimpleQueryMessage::Row(row) => Some((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)),
            _ => None,
        });
        let Some((pid, started, isolation, commit)) = row else {
            let reason = "the server does not show the connection in pg_stat_activity";
            return Err(Unusable::Invalid(reason.to_owned()));
        };
        let kind = if is_pooled(&client, pid, pooler).await {
            check_settings(isolation, commit, synchronous).map_err(Unusable::Invalid)?;
            Kind::Pooled
        } else {
            let synchronous = match synchronous {
                Synchronous::Full => SYNCHRONOUS_FULL,
                Synchronous::Normal => SYNCHRONOUS_NORMAL,
            };
            client.batch_execute(&format!("{SETTINGS}{synchronous}")).await?;
            let backend = Backend { pid: pid.to_owned(), started: started.to_owned() };
            Kind::Own { backend, statements: HashMap::new() }
        };
        Ok(Self { client, kind, _task: task })
    }

    /// The process of the server; None behind a pooler.
    pub(super) fn backend(&self) -> Option<&Backend> {
        match &self.kind {
            Kind::Own { backend, .. } => Some(backend),
            Kind::Pooled => None,
        }
    }

    /// Prepares a statement, once for each connection; None behind a pooler.
    async fn prepare(&mut self, sql: &str) -> Result<Option<Statement>, Error> {
        let Kind::Own { statements, .. } = &mut self.kind else { return Ok(None) };
        if let Some(statement) = statements.get(sql) {
            return Ok(Some(statement.clone()));
        }
        let statement = self.client.prepare(sql).await?;
        statements.insert(sql.to_owned(), statement.clone());
        Ok(Some(statement))
    }

    /// Returns the rows one by one.
    pub(super) async fn stream(
        &mut self,
        sql: &str,
        parameters: &[&dyn Parameter],
    ) -> Result<RowStream, Error> {
        match self.prepare(sql).await? {
            Some(statement) => self.client.query_raw(&statement, values(parameters)).await,
            None => self.client.query_typed_raw(sql, typed_values(parameters)).await,
        }
    }

    /// Returns the rows.
    pub(super) async fn query(
        &mut self,
        sql: &str,
        parameters: &[&dyn Parameter],
    ) -> Result<Vec<Row>, Error> {
        match self.prepare(sql).await? {
            Some(statement) => self.client.query(&statement, &values(parameters)).await,
            None => self.client.query_typed(sql, &typed_values(parameters)).await,
        }
    }

    /// Returns the row, if there is one.
    pub(super) async fn query_opt(
        &mut self,
        sql: &str,
        parameters: &[&dyn Parameter],
    ) -> Result<Option<Row>, Error> {
        match self.prepare(sql).await? {
            Some(statement) => self.client.query_opt(&statement, &values(parameters)).await,
            None => self.client.query_typed_opt(sql, &typed_values(parameters)).await,
        }
    }

    /// Returns the only row.
    pub(super) async fn query_one(&mut self, sql: &str, parameters: &[&dyn Parameter]) -> Result<Row, Error> {
        match self.prepare(sql).await? {
            Some(statement) => self.client.query_one(&statement, &values(parameters)).await,
            None => self.client.query_typed_one(sql, &typed_values(parameters)).await,
        }
    }

    /// Returns the number of rows that were changed.
    pub(super) async fn execute(&mut self, sql: &str, parameters: &[&dyn Parameter]) -> Result<u64, Error> {
        match self.prepare(sql).await? {
            Some(statement) => self.client.execute(&statement, &values(parameters)).await,
            None => self.client.execute_typed(sql, &typed_values(parameters)).await,
        }
    }

    /// Begins a transaction.
    pub(super) async fn transaction(&mut self) -> Result<Transaction<'_>, Error> {
        Ok(Transaction(self.client.transaction().await?))
    }
}

/// A transaction; it is rolled back if it is dropped. Its statements have no names: preparing one takes a round trip more.
pub(super) struct Transaction<'a>(tokio_postgres::Transaction<'a>);

impl Transaction<'_> {
    /// Returns the row, if there is one.
    pub(super) async fn query_opt(
        &self,
        sql: &str,
        parameters: &[&dyn Parameter],
    ) -> Result<Option<Row>, Error> {
        self.0.query_typed_opt(sql, &typed_values(parameters)).await
    }

    /// Returns the only row.
    pub(super) async fn query_one(&self, sql: &str, parameters: &[&dyn Parameter]) -> Result<Row, Error> {
        self.0.query_typed_one(sql, &typed_values(parameters)).await
    }

    /// Returns the number of rows that were changed.
    pub(super) async fn execute(&self, sql: &str, parameters: &[&dyn Parameter]) -> Result<u64, Error> {
        self.0.execute_typed(sql, &typed_values(parameters)).await
    }

    pub(super) async fn commit(self) -> Result<(), Error> {
        self.0.commit().await
    }

    pub(super) async fn rollback(self) -> Result<(), Error> {
        self.0.rollback().await
    }
}

/// Returns whether a pooler is between this process and the server, in a mode that must be taken for `transaction`.
///
/// A server announces the number of the process that serves the connection. A pooler announces a number of its own,
/// because a connection to it has no process.
pub(super) async fn is_pooled(client: &Client, pid: &str, pooler: Option<Pooler>) -> bool {
    match pooler {
        Some(Pooler::Session) => false,
        Some(Pooler::Transaction) => true,
        None => announced_process(client).await.is_none_or(|announced| announced != pid),
    }
}

/// Checks the settings that a store needs and cannot make: those of the role are valid for all connections of a pooler.
fn check_settings(isolation: &str, commit: &str, synchronous: Synchronous) -> Result<(), String> {
    let needed = if isolation != "read committed" {
        "default_transaction_isolation = 'read committed'"
    } else if commit == "off" && synchronous == Synchronous::Full {
        "synchronous_commit = on"
    } else {
        return Ok(());
    };
    Err(format!(
        "a pooler is between, so the settings are those of the role and the database: run ALTER ROLE … SET {needed} and \
         reconnect the pooler, or connect to the server directly; add pooler=session to the URL if its pool_mode is session"
    ))
}

/// The number of the process that was announced for a connection. tokio-postgres has it only in its request to cancel a
/// statement, which is written to memory here and not sent.
async fn announced_process(client: &Client) -> Option<String> {
    let mut request = CancelRequest::default();
    client.cancel_token().cancel_query_raw(&mut request, NoHandshake).await.ok()?;
    // Length, code, process, secret key: 4 bytes each.
    let process = request.0.last_chunk::<8>()?.first_chunk::<4>()?;
    Some(i32::from_be_bytes(*process).to_string())
}

/// Collects what is written. A client that wants TLS is told that the server has it.
#[derive(Default)]
struct CancelRequest(Vec<u8>);

impl AsyncRead for CancelRequest {
    fn poll_read(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        buffer.put_slice(b"S");
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for CancelRequest {
    fn poll_write(mut self: Pin<&mut Self>, _: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        self.0.extend_from_slice(data);
        Poll::Ready(Ok(data.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

impl TlsStream for &mut CancelRequest {
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

/// Nothing is encrypted, because nothing is sent.
struct NoHandshake;

impl<'a> TlsConnect<&'a mut CancelRequest> for NoHandshake {
    type Stream = &'a mut CancelRequest;
    type Error = Infallible;
    type Future = Ready<Result<&'a mut CancelRequest, Infallible>>;

    fn connect(self, stream: &'a mut CancelRequest) -> Self::Future {
        ready(Ok(stream))
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Connection").field("backend", &self.backend()).finish_non_exhaustive()
    }
}
