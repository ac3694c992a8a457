//! What the engines of servers have in common. Their operations run on the I/O runtime, end after a limited time, and are
//! counted, so that a store is closed after them. Connections are made again after a restart of the server.

use std::fmt;
use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::Shared;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::time::{Instant, timeout};
use turntree_core::runtime::{self, PerProcess, TaskError};

use crate::engine::{EngineFuture, TIMEOUT};
use crate::error::StoreError;

/// Every operation holds one permit; closing takes all of them.
const PERMITS: u32 = 1 << 20;

/// The operations of one store.
pub(crate) struct Operations {
    store: Arc<str>,
    is_closed: AtomicBool,
    // After a fork, the child has none of the parent's operations.
    state: PerProcess<State>,
}

struct State {
    permits: Arc<Semaphore>,
    /// Operations whose futures were dropped; each resolves when the runtime has dropped the operation.
    dropped: Mutex<Vec<Ended>>,
}

/// Resolves, with an error, when the sender is dropped.
type Ended = Shared<oneshot::Receiver<()>>;

impl State {
    fn dropped(&self) -> MutexGuard<'_, Vec<Ended>> {
        self.dropped.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the end of dropped operations: what an operation reads must not change through an earlier one.
    async fn wait_for_dropped(&self) {
        let dropped = self.dropped().clone();
        for ended in &dropped {
            let _ = ended.clone().await;
        }
        if !dropped.is_empty() {
            self.dropped().retain(|ended| ended.peek().is_none());
        }
    }
}

/// Notes that the future of an operation was dropped.
struct Watch<'a> {
    state: &'a State,
    ended: Option<Ended>,
}

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        self.state.dropped().extend(self.ended.take());
    }
}

/// An operation, boxed so that the code around it is compiled for each result instead of for each operation.
type BoxedOperation<T> = EngineFuture<'static, T>;

impl Operations {
    /// The operations of a store with this name.
    pub(crate) fn new(store: Arc<str>) -> Self {
        Self { store, is_closed: AtomicBool::new(false), state: PerProcess::new() }
    }

    /// Runs an operation on the I/O runtime. Dropping the future drops the operation at its next await; the next operation
    /// starts after that.
    pub(crate) fn run<T: Send + 'static>(
        &self,
        operation: impl Future<Output = Result<T, StoreError>> + Send + 'static,
    ) -> EngineFuture<'_, T> {
        let store = Arc::clone(&self.store);
        let operation: BoxedOperation<T> = Box::pin(operation);
        self.run_boxed(Box::pin(async move {
            let reason = || format!("no answer within {} s", TIMEOUT.as_secs());
            let done = timeout(TIMEOUT, operation).await;
            done.unwrap_or_else(|_| Err(StoreError::Unavailable { store, reason: reason() }))
        }))
    }

    /// As [`Self::run`], for an operation that limits the time of its steps itself.
    pub(crate) fn run_long<T: Send + 'static>(
        &self,
        operation: impl Future<Output = Result<T, StoreError>> + Send + 'static,
    ) -> EngineFuture<'_, T> {
        self.run_boxed(Box::pin(operation))
    }

    fn run_boxed<T: Send + 'static>(&self, operation: BoxedOperation<T>) -> EngineFuture<'_, T> {
        Box::pin(async move {
            let state = self.state()?;
            state.wait_for_dropped().await;
            let permit = self.take(1).await?;
            let (end, ended) = oneshot::channel::<()>();
            let mut watch = Watch { state, ended: Some(ended.shared()) };
            let task = runtime::spawn(async move {
                // Dropped after the operation.
                let _end = end;
                let result = operation.await;
                drop(permit);
                result
            });
            let result = task.await;
            watch.ended = None;
            match result {
                Ok(result) => result,
                Err(error @ TaskError::Panicked { .. }) => {
                    Err(StoreError::Failed { store: Arc::clone(&self.store), reason: error.to_string() })
                }
                Err(error) => Err(self.unavailable(error.to_string())),
            }
        })
    }

    /// Waits for the operations that have started, and refuses others from then on.
    pub(crate) async fn close(&self) {
        if let Ok(permits) = self.take(PERMITS).await {
            self.is_closed.store(true, Ordering::Release);
            permits.semaphore().close();
        }
    }

    async fn take(&self, count: u32) -> Result<OwnedSemaphorePermit, StoreError> {
        let closed = || StoreError::Closed { store: Arc::clone(&self.store) };
        if self.is_closed.load(Ordering::Acquire) {
            return Err(closed());
        }
        Arc::clone(&self.state()?.permits).acquire_many_owned(count).await.map_err(|_| closed())
    }

    fn state(&self) -> Result<&State, StoreError> {
        self.state.get_or_try_create(|| {
            let permits = Arc::new(Semaphore::new(PERMITS as usize));
            Ok(State { permits, dropped: Mutex::new(Vec::new()) })
        })
    }

    fn unavailable(&self, reason: String) -> StoreError {
        StoreError::Unavailable { store: Arc::clone(&self.store), reason }
    }
}

impl fmt::Debug for Operations {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Operations").field("store", &self.store).finish_non_exhaustive()
    }
}

/// The first pause between two attempts to connect. It doubles up to [`LAST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LAST_PAUSE: Duration = Duration::from_secs(1);

/// Why no connection was made.
pub(crate) enum Unreachable<E> {
    /// The last attempt failed.
    Failed(E),
    /// There was no answer within the time.
    TimedOut,
}

/// Connects to a server that may be restarting.
///
/// Makes attempts for up to `limit` while their errors are transient. `was_reached` becomes true with the first
/// connection; until then there is one attempt, because the reason may be a wrong URL.
pub(crate) async fn connect<T, E, F>(
    limit: Duration,
    was_reached: &AtomicBool,
    attempt: impl Fn() -> F + Send,
    is_transient: impl Fn(&E) -> bool + Send,
) -> Result<T, Unreachable<E>>
where
    F: Future<Output = Result<T, E>> + Send,
    E: Send,
{
    let started = Instant::now();
    let mut pause = FIRST_PAUSE;
    loop {
        let remaining = limit.saturating_sub(started.elapsed());
        let error = match timeout(remaining, attempt()).await {
            Ok(Ok(connection)) => {
                was_reached.store(true, Ordering::Relaxed);
                return Ok(connection);
            }
            Ok(Err(error)) => error,
            Err(_) => return Err(Unreachable::TimedOut),
        };
        let may_return = was_reached.load(Ordering::Relaxed) && is_transient(&error);
        if !may_return || started.elapsed() + pause >= limit {
            return Err(Unreachable::Failed(error));
        }
        runtime::sleep(pause).await;
        pause = (pause * 2).min(LAST_PAUSE);
    }
}

/// An error of a server's engine, before it is one of the store.
#[derive(Debug)]
pub(crate) struct Failure {
    /// The error for the caller.
    pub(crate) error: StoreError,
    /// Whether the connection must not be used again. An operation that only reads is then repeated once.
    pub(crate) is_lost: bool,
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self { error, is_lost: false }
    }
}

impl From<Failure> for StoreError {
    fn from(failure: Failure) -> Self {
        failure.error
    }
}

/// Runs an operation that only reads; once more if the connection was lost.
pub(crate) async fn twice<T, F>(operation: impl Fn() -> F + Send) -> Result<T, Failure>
where
    F: Future<Output = Result<T, Failure>> + Send,
    T: Send,
{
    match operation().await {
        Err(failure) if failure.is_lost => operation().await,
        result => result,
    }
}
