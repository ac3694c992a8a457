//! One connection, which all operations share, and which is made again when it was lost.

use std::fmt;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, RedisError};
use tokio::sync::OnceCell;
use turntree_core::runtime::PerProcess;

use super::error::{connect_error, failure, is_transient};
use super::url::Target;
use crate::engines::network::{self, Failure, Unreachable};
use crate::error::StoreError;

/// The version of the format that this code reads and writes.
pub(super) const FORMAT: u64 = 1;

/// How long a command may take: less than the store's own limit of 60 s.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(55);

/// The connection to a server.
pub(super) struct Link {
    target: Target,
    connect_timeout: Duration,
    // A child process must not use the socket of its parent.
    state: PerProcess<State>,
}

struct State {
    current: Mutex<Cell>,
    was_reached: AtomicBool,
}

type Cell = Arc<OnceCell<MultiplexedConnection>>;

/// A connection in use.
pub(super) struct Lease {
    pub(super) connection: MultiplexedConnection,
    cell: Cell,
}

impl Link {
    pub(super) fn new(target: Target, connect_timeout: Duration) -> Self {
        Self { target, connect_timeout, state: PerProcess::new() }
    }

    /// Returns the name of the store.
    pub(super) fn name(&self) -> &Arc<str> {
        &self.target.name
    }

    /// Returns what all keys start with.
    pub(super) fn prefix(&self) -> &str {
        &self.target.prefix
    }

    /// Returns the connection; makes one if there is none.
    pub(super) async fn get(&self) -> Result<Lease, Failure> {
        let state = self.state()?;
        let cell = Arc::clone(&state.current.lock().unwrap_or_else(PoisonError::into_inner));
        let connection = cell.get_or_try_init(|| self.connect(state)).await?.clone();
        Ok(Lease { connection, cell })
    }

    /// Converts the result of a command. After the loss of the connection, the next operation makes another one.
    pub(super) fn end<T>(&self, lease: &Lease, result: Result<T, RedisError>) -> Result<T, Failure> {
        result.map_err(|error| {
            let failure = failure(&self.target.name, &error);
            if failure.is_lost
                && let Ok(state) = self.state()
            {
                let mut current = state.current.lock().unwrap_or_else(PoisonError::into_inner);
                if Arc::ptr_eq(&current, &lease.cell) {
                    *current = Cell::default();
                }
            }
            failure
        })
    }

    /// Closes the connection when no operation uses it any more.
    pub(super) fn close(&self) {
        if let Ok(state) = self.state() {
            *state.current.lock().unwrap_or_else(PoisonError::into_inner) = Cell::default();
        }
    }

    fn state(&self) -> Result<&State, Failure> {
        let new = || State { current: Mutex::new(Cell::default()), was_reached: AtomicBool::new(false) };
        self.state.get_or_try_create(|| Ok(new()))
    }

    async fn connect(&self, state: &State) -> Result<MultiplexedConnection, Failure> {
        let limit = self.connect_timeout;
        let connected = network::connect(
            limit,
            &state.was_reached,
            || self.connect_once(),
            |attempt: &Attempt| match attempt {
                Attempt::Refused(error) => is_transient(error),
                Attempt::Newer(_) => false,
            },
        );
        let store = || Arc::clone(&self.target.name);
        connected.await.map_err(|error| match error {
            Unreachable::Failed(Attempt::Refused(error)) => connect_error(&self.target.name, &error).into(),
            Unreachable::Failed(Attempt::Newer(found)) => {
                StoreError::NewerSchema { store: store(), found, supported: FORMAT }.into()
            }
            Unreachable::TimedOut => {
                let reason = format!("no connection within {} s", limit.as_secs());
                StoreError::Unavailable { store: store(), reason }.into()
            }
        })
    }

    async fn connect_once(&self) -> Result<MultiplexedConnection, Attempt> {
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(self.connect_timeout))
            .set_response_timeout(Some(RESPONSE_TIMEOUT));
        let mut connection = self.target.client.get_multiplexed_async_connection_with_config(&config).await?;
        let key = format!("{}:format", self.target.prefix);
        let found: Option<u64> = redis::cmd("GET").arg(&key).query_async(&mut connection).await?;
        match found {
            None => {
                // Two processes may do this at once; both write the same.
                let write =
                    redis::cmd("SET").arg(&key).arg(FORMAT).arg("NX").exec_async(&mut connection).await;
                match write.map_err(|error| (failure(&self.target.name, &error).error, error)) {
                    // A replica without data can be read all the same.
                    Ok(()) | Err((StoreError::ReadOnly { .. } | StoreError::Full { .. }, _)) => {}
                    Err((_, error)) => return Err(error.into()),
                }
            }
            Some(found) if found > FORMAT => return Err(Attempt::Newer(found)),
            Some(_) => {}
        }
        Ok(connection)
    }
}

/// Why an attempt to connect failed.
enum Attempt {
    Refused(RedisError),
    Newer(u64),
}

impl From<RedisError> for Attempt {
    fn from(error: RedisError) -> Self {
        Self::Refused(error)
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Link").field("store", &self.target.name).finish_non_exhaustive()
    }
}
