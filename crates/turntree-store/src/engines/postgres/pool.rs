//! A small pool of connections. It connects when a connection is needed and waits while a server restarts.
//!
//! An operation that was dropped or has lost its connection may still run on the server. The next operation waits for its
//! end, so that what it reads does not change afterwards.

use std::fmt;
use std::future::poll_fn;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{Notify, OnceCell, OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout};
use tokio_postgres::{AsyncMessage, Client, NoTls};
use tokio_postgres_rustls::MakeRustlsConnect;
use turntree_core::http::{ServerTrust, client_config};
use turntree_core::runtime::{self, PerProcess, Task};

use super::connection::{Backend, Connection, is_pooled};
use super::error::{connect_error, failure, is_transient};
use super::queue_statements::CHANNEL;
use super::url::Target;
use super::{PostgresOptions, schema};
use crate::engines::network::{self, Failure, Unreachable};
use crate::error::StoreError;

/// A connection that was idle for this long is tested before it is used: a firewall may have dropped it.
const TEST_AFTER: Duration = Duration::from_secs(30);

/// How long the test of a connection may take.
const TEST_TIMEOUT: Duration = Duration::from_secs(5);

/// A connection that was idle for this long is closed.
const CLOSE_AFTER: Duration = Duration::from_secs(300);

/// The processes of $1 and $2 that still run.
const INTERRUPTED: &str = "FROM pg_stat_activity AS running \
    JOIN unnest($1::text[], $2::text[]) AS interrupted (pid, started) \
    ON running.pid::text = interrupted.pid AND extract(epoch FROM running.backend_start)::text = interrupted.started";

/// The pause before a process that serves nobody is ended, and between two looks at it.
const INTERRUPTED_PAUSE: Duration = Duration::from_millis(10);

/// How long an operation waits for the end of an interrupted one.
const INTERRUPTED_LIMIT: Duration = Duration::from_secs(10);

/// The connections to a database.
pub(super) struct Pool {
    target: Target,
    options: PostgresOptions,
    // A child process must not use the sockets of its parent.
    state: PerProcess<Arc<State>>,
}

struct State {
    permits: Arc<Semaphore>,
    idle: Mutex<Vec<Idle>>,
    interrupted: Mutex<Vec<Backend>>,
    /// Filled when the tables exist.
    schema: OnceCell<()>,
    tls: OnceCell<MakeRustlsConnect>,
    /// Whether a connection was ever made. Only then a failure may be a restart, and not a wrong URL.
    was_reached: AtomicBool,
}

struct Idle {
    connection: Connection,
    since: Instant,
}

/// A connection in use. Unless [`Lease::end`] is called, it is closed: an operation that was dropped may have left it in
/// a transaction, or may still run on the server.
pub(super) struct Lease {
    connection: Connection,
    running: Running,
    permit: OwnedSemaphorePermit,
}

/// Notes the process of an operation that was interrupted.
struct Running {
    state: Arc<State>,
    backend: Option<Backend>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.state.interrupted().extend(self.backend.take());
    }
}

impl Lease {
    pub(super) fn connection(&mut self) -> &mut Connection {
        &mut self.connection
    }

    /// Returns the connection to the pool unless the operation has lost it.
    pub(super) fn end<T>(mut self, result: Result<T, Failure>) -> Result<T, Failure> {
        let is_lost = result.as_ref().is_err_and(|failure| failure.is_lost);
        if !is_lost && !self.connection.client.is_closed() {
            self.running.backend = None;
            let now = Instant::now();
            let mut idle = self.running.state.idle();
            idle.retain(|idle| now.duration_since(idle.since) < CLOSE_AFTER);
            idle.push(Idle { connection: self.connection, since: now });
        }
        // The next operation finds the connection, or the interrupted process.
        drop(self.running);
        drop(self.permit);
        result
    }
}

impl State {
    fn idle(&self) -> MutexGuard<'_, Vec<Idle>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn interrupted(&self) -> MutexGuard<'_, Vec<Backend>> {
        self.interrupted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Pool {
    pub(super) fn new(target: Target, options: PostgresOptions) -> Self {
        Self { target, options, state: PerProcess::new() }
    }

    /// Returns the name of the store.
    pub(super) fn name(&self) -> &Arc<str> {
        &self.target.name
    }

    /// Takes a connection to a database that has the tables.
    pub(super) async fn get(&self) -> Result<Lease, Failure> {
        let state = self.state.get_or_try_create(|| Ok::<_, Failure>(self.new_state()))?;
        let permit = Arc::clone(&state.permits).acquire_owned().await;
        let permit = permit.map_err(|_| StoreError::Closed { store: Arc::clone(&self.target.name) })?;
        let connection = match self.take_idle(state).await {
            Some(connection) => connection,
            None => self.connect(state).await?,
        };
        let running = Running { state: Arc::clone(state), backend: connection.backend().cloned() };
        let mut lease = Lease { connection, running, permit };
        let connection = &mut lease.connection;
        let made = state.schema.get_or_try_init(|| schema::ensure(connection, &self.target)).await;
        let ready = match made {
            Ok(()) => self.end_interrupted(state, &mut lease.connection).await,
            Err(failure) => Err(failure),
        };
        match ready {
            Ok(()) => Ok(lease),
            Err(failure) => lease.end(Err(failure)),
        }
    }

    /// Waits until the interrupted operations have ended on the server, and ends those that wait for something there.
    async fn end_interrupted(&self, state: &State, connection: &mut Connection) -> Result<(), Failure> {
        let interrupted = state.interrupted().clone();
        if interrupted.is_empty() {
            return Ok(());
        }
        let pids: Vec<&str> = interrupted.iter().map(|backend| &*backend.pid).collect();
        let started: Vec<&str> = interrupted.iter().map(|backend| &*backend.started).collect();
        let limit = Instant::now() + INTERRUPTED_LIMIT;
        // Most of them end by themselves, because their connections are closed.
        let mut look = "count(*)";
        loop {
            let sql = format!("SELECT {look} {INTERRUPTED}");
            let row = connection.query_one(&sql, &[&pids, &started]).await;
            let running: i64 = row.and_then(|row| row.try_get(0)).map_err(|error| self.failure(&error))?;
            if running == 0 {
                state.interrupted().retain(|backend| !interrupted.contains(backend));
                return Ok(());
            }
            if Instant::now() >= limit {
                let reason = "an operation that was interrupted has not ended on the server".to_owned();
                return Err(StoreError::Unavailable { store: Arc::clone(&self.target.name), reason }.into());
            }
            runtime::sleep(INTERRUPTED_PAUSE).await;
            look = "count(pg_terminate_backend(running.pid))";
        }
    }

    /// Closes the idle connections; the store has no operations any more.
    pub(super) fn close(&self) {
        if let Ok(state) = self.state.get_or_try_create(|| Ok::<_, Failure>(self.new_state())) {
            state.permits.close();
            state.idle().clear();
        }
    }

    fn new_state(&self) -> Arc<State> {
        Arc::new(State {
            permits: Arc::new(Semaphore::new(self.options.max_connections.max(1))),
            idle: Mutex::new(Vec::new()),
            interrupted: Mutex::new(Vec::new()),
            schema: OnceCell::new(),
            tls: OnceCell::new(),
            was_reached: AtomicBool::new(false),
        })
    }

    /// Returns the connection that was used last, if it is open.
    async fn take_idle(&self, state: &State) -> Option<Connection> {
        loop {
            let Idle { connection, since } = state.idle().pop()?;
            if connection.client.is_closed() {
                continue;
            }
            if since.elapsed() < TEST_AFTER {
                return Some(connection);
            }
            if let Ok(Ok(())) = timeout(TEST_TIMEOUT, connection.client.check_connection()).await {
                return Some(connection);
            }
        }
    }

    /// Connects. If the server was reached before, waits up to the timeout for its return: nothing was sent yet.
    async fn connect(&self, state: &State) -> Result<Connection, Failure> {
        let limit = self.target.config.get_connect_timeout().copied().unwrap_or(self.options.connect_timeout);
        let is_transient =
            |attempt: &Attempt| matches!(attempt, Attempt::Refused(error) if is_transient(error));
        let connected =
            network::connect(limit, &state.was_reached, || self.connect_once(state), is_transient);
        connected.await.map_err(|error| match error {
            Unreachable::Failed(Attempt::Failed(failure)) => failure,
            Unreachable::Failed(Attempt::Refused(error)) => connect_error(&self.target.name, &error).into(),
            Unreachable::TimedOut => {
                let reason = format!("no connection within {} s", limit.as_secs());
                StoreError::Unavailable { store: Arc::clone(&self.target.name), reason }.into()
            }
        })
    }

    async fn connect_once(&self, state: &State) -> Result<Connection, Attempt> {
        let (client, task) = match &self.target.trust {
            None => {
                let (client, connection) = self.target.config.connect(NoTls).await?;
                (client, runtime::spawn(async move { drop(connection.await) }))
            }
            Some(trust) => {
                let tls = state.tls.get_or_try_init(|| self.make_tls(trust.clone())).await;
                let tls = tls.map_err(|error| Attempt::Failed(error.into()))?.clone();
                let (client, connection) = self.target.config.connect(tls).await?;
                (client, runtime::spawn(async move { drop(connection.await) }))
            }
        };
        let made = Connection::new(client, task, self.target.pooler, self.options.synchronous).await;
        made.map_err(|unusable| match unusable.into_store_error(&self.target.name) {
            Ok(error) => Attempt::Failed(error.into()),
            Err(error) => Attempt::Refused(error),
        })
    }

    /// Makes a connection that listens for new runs. None behind a pooler, which may not pass notifications on.
    pub(super) async fn listen(&self, notify: &Arc<Notify>) -> Result<Option<ListenerConnection>, Failure> {
        let state = self.state.get_or_try_create(|| Ok::<_, Failure>(self.new_state()))?;
        let notify = Arc::clone(notify);
        let (client, task) = match &self.target.trust {
            None => {
                let connected = self.target.config.connect(NoTls).await;
                let (client, connection) = connected.map_err(|error| self.failure(&error))?;
                (client, runtime::spawn(pass_on(connection, notify)))
            }
            Some(trust) => {
                let tls = state.tls.get_or_try_init(|| self.make_tls(trust.clone())).await?.clone();
                let connected = self.target.config.connect(tls).await;
                let (client, connection) = connected.map_err(|error| self.failure(&error))?;
                (client, runtime::spawn(pass_on(connection, notify)))
            }
        };
        let failure = |error: tokio_postgres::Error| self.failure(&error);
        let row = client.query_typed_one("SELECT pg_backend_pid()::text", &[]).await.map_err(failure)?;
        if is_pooled(&client, row.try_get(0).map_err(failure)?, self.target.pooler).await {
            return Ok(None);
        }
        client.batch_execute(&format!("LISTEN {CHANNEL}")).await.map_err(failure)?;
        Ok(Some(ListenerConnection { client, _task: task }))
    }

    /// Reads the certificates, on a thread that may block.
    async fn make_tls(&self, trust: ServerTrust) -> Result<MakeRustlsConnect, StoreError> {
        let made = runtime::spawn_blocking(|| client_config(trust, b"postgresql")).await;
        let store = || Arc::clone(&self.target.name);
        let config =
            made.map_err(|error| StoreError::Failed { store: store(), reason: error.to_string() })?;
        let config =
            config.map_err(|error| StoreError::Failed { store: store(), reason: error.to_string() })?;
        Ok(MakeRustlsConnect::new(config))
    }

    /// Converts an error of a statement.
    pub(super) fn failure(&self, error: &tokio_postgres::Error) -> Failure {
        failure(&self.target.name, error)
    }
}

/// A connection that listens.
pub(super) struct ListenerConnection {
    pub(super) client: Client,
    // Reads the socket; dropping it closes the socket.
    _task: Task<()>,
}

/// Reads a socket until its end.
async fn pass_on<S, T>(mut connection: tokio_postgres::Connection<S, T>, notify: Arc<Notify>)
where
    S: AsyncRead + AsyncWrite + Unpin,
    T: AsyncRead + AsyncWrite + Unpin,
{
    while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await {
        if matches!(message, AsyncMessage::Notification(_)) {
            notify.notify_one();
        }
    }
}

/// Why an attempt to connect failed.
enum Attempt {
    Refused(tokio_postgres::Error),
    Failed(Failure),
}

impl From<tokio_postgres::Error> for Attempt {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Refused(error)
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Pool").field("store", &self.target.name).finish_non_exhaustive()
    }
}
