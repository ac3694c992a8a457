//! The tokio runtime. Only this module spawns tasks and reads environment variables.
//!
//! Sockets and timers run on one process-wide tokio runtime. All other futures are polled on the caller's thread, for
//! example that of an asyncio event loop. Code that already runs inside a tokio runtime uses that one: a server in Rust
//! has one runtime, and a test with a paused clock pauses these timers as well.
//!
//! After a fork the child has none of the parent's threads. Per-process state is therefore stored by process id
//! (`PerProcess`). The child creates its own; the parent's is leaked, because dropping it would wait for threads that do
//! not exist.

use std::any::Any;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::OnceLock;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures_util::FutureExt as _;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::task::JoinHandle;

/// The environment variable with the number of worker threads; see [`spawn`].
pub const WORKERS_VARIABLE: &str = "TURNTREE_WORKERS";

/// One worker by default. With several, each chunk of a stream moves between threads (three streamed responses: 0.9 ms
/// with one worker, 12 ms with many).
const DEFAULT_WORKERS: usize = 1;

/// Maximum number of workers; a larger value is a typing error.
const MAX_WORKERS: usize = 1024;

/// The error of a background task.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TaskError {
    /// The task panicked. This is a bug in turntree.
    #[error("a background task panicked: {message}; please report this")]
    Panicked {
        /// The panic's message.
        message: String,
    },
    /// The runtime shut down before the task was done.
    #[error("the runtime shut down before a background task was done; keep it until the work is finished")]
    ShutDown,
    /// The runtime's threads could not be started.
    #[error("cannot start the I/O runtime: {reason}; check the limits on threads and open files")]
    Unavailable {
        /// The system's error message.
        reason: String,
    },
}

/// Runs a future in the background, on the current tokio runtime or else on the process-wide one.
///
/// The process-wide runtime starts at first use, with `TURNTREE_WORKERS` threads (1 if unset) that are
/// named `turntree-io`.
///
/// # Cancel safety
/// Dropping the [`Task`] aborts the future at its next await; see [`Task::detach`].
pub fn spawn<F>(future: F) -> Task<F::Output>
where
    F: Future<Output: Send + 'static> + Send + 'static,
{
    // `map` stores the future once, where an `async` block would store it twice.
    let erased = future.map(|value| Box::new(value) as Erased);
    Task::new(handle().map(|handle| spawn_erased(&handle, Box::pin(erased))))
}

/// Runs a blocking closure (files, a database, compression) on a thread for blocking work.
///
/// # Cancel safety
/// Dropping the [`Task`] before the closure starts cancels it. A closure that has started runs to its end.
pub fn spawn_blocking<F, T>(work: F) -> Task<T>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    Task::new(handle().map(|handle| spawn_erased_blocking(&handle, Box::new(|| Box::new(work()) as Erased))))
}

/// The result of a task. tokio compiles 4 kB of code for each type of future, so it gets only one.
type Erased = Box<dyn Any + Send>;

fn spawn_erased(handle: &Handle, future: Pin<Box<dyn Future<Output = Erased> + Send>>) -> JoinHandle<Erased> {
    handle.spawn(future)
}

fn spawn_erased_blocking(handle: &Handle, work: Box<dyn FnOnce() -> Erased + Send>) -> JoinHandle<Erased> {
    handle.spawn_blocking(work)
}

/// Waits on a timer of the runtime; may be polled on any thread.
///
/// If the runtime cannot start (the system is out of threads), the wait blocks the polling thread.
///
/// # Cancel safety
/// Dropping the future cancels the timer.
pub async fn sleep(duration: Duration) {
    if duration.is_zero() {
        return;
    }
    let Ok(handle) = handle() else {
        std::thread::sleep(duration);
        return;
    };
    // The timer belongs to the runtime that is entered when it is created; polling it needs no context.
    let timer = {
        let _entered = handle.enter();
        tokio::time::sleep(duration)
    };
    timer.await;
}

/// Reads an environment variable; None if it is unset, blank or not Unicode.
pub fn environment(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.trim().is_empty())
}

/// The current tokio runtime, or else the process-wide one.
///
/// # Errors
/// [`TaskError::Unavailable`] if the process-wide runtime is needed and cannot be started.
pub fn handle() -> Result<Handle, TaskError> {
    static RUNTIME: PerProcess<ProcessRuntime> = PerProcess::new();

    if let Ok(current) = Handle::try_current() {
        return Ok(current);
    }
    let process = RUNTIME.get_or_try_create(ProcessRuntime::start)?;
    process.0.as_ref().map(|runtime| runtime.handle().clone()).ok_or(TaskError::ShutDown)
}

/// A background task. Resolves to its result; dropping it aborts the task.
#[must_use = "dropping a task aborts it"]
#[derive(Debug)]
pub struct Task<T> {
    state: State,
    result: PhantomData<fn() -> T>,
}

#[derive(Debug)]
enum State {
    Running(JoinHandle<Erased>),
    Failed(Option<TaskError>),
    Detached,
}

impl<T> Task<T> {
    fn new(started: Result<JoinHandle<Erased>, TaskError>) -> Self {
        let state = started.map_or_else(|error| State::Failed(Some(error)), State::Running);
        Self { state, result: PhantomData }
    }

    /// Lets the task run to its end and discards its result.
    pub fn detach(mut self) {
        self.state = State::Detached;
    }
}

impl<T: 'static> Future for Task<T> {
    type Output = Result<T, TaskError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let result = ready!(self.state.poll(context));
        // The type is that of `spawn`.
        Poll::Ready(
            result.and_then(|value| value.downcast().map_or(Err(TaskError::ShutDown), |value| Ok(*value))),
        )
    }
}

impl State {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<Erased, TaskError>> {
        Poll::Ready(Err(match self {
            Self::Running(handle) => match ready!(Pin::new(handle).poll(context)) {
                Ok(value) => return Poll::Ready(Ok(value)),
                Err(error) => match error.try_into_panic() {
                    Ok(payload) => TaskError::Panicked { message: panic_message(payload.as_ref()) },
                    Err(_) => TaskError::ShutDown,
                },
            },
            Self::Failed(error) => error.take().unwrap_or(TaskError::ShutDown),
            Self::Detached => TaskError::ShutDown,
        }))
    }
}

impl<T> Drop for Task<T> {
    fn drop(&mut self) {
        if let State::Running(handle) = &self.state {
            handle.abort();
        }
    }
}

fn panic_message(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().copied();
    text.or_else(|| payload.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message").to_owned()
}

/// One value per process: a fork does not see its parent's value.
///
/// A list with one entry per process id, which only grows. It has no lock, because a thread that the child does not have
/// could hold it. Reading is lock-free. A wait is possible only if a fork happens during the few instructions in which
/// another thread links its entry.
#[derive(Debug)]
pub struct PerProcess<T> {
    first: OnceLock<Box<Entry<T>>>,
}

#[derive(Debug)]
struct Entry<T> {
    process: u32,
    value: T,
    next: OnceLock<Box<Self>>,
}

impl<T> Default for PerProcess<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> PerProcess<T> {
    /// An empty list.
    pub const fn new() -> Self {
        Self { first: OnceLock::new() }
    }

    /// This process's value, created at first use. If two threads race, one value is dropped.
    ///
    /// # Errors
    /// The error of `create`.
    pub fn get_or_try_create<E>(&self, create: impl FnOnce() -> Result<T, E>) -> Result<&T, E> {
        self.get_or_try_create_for(std::process::id(), create)
    }

    fn get_or_try_create_for<E>(&self, process: u32, create: impl FnOnce() -> Result<T, E>) -> Result<&T, E> {
        let mut slot = &self.first;
        let mut create = Some(create);
        let mut made = None;
        loop {
            if let Some(entry) = slot.get() {
                if entry.process == process {
                    return Ok(&entry.value);
                }
                slot = &entry.next;
                continue;
            }
            if let Some(create) = create.take() {
                made = Some(Box::new(Entry { process, value: create()?, next: OnceLock::new() }));
            }
            // A rejected entry is returned; the next iteration checks the entry that won.
            made = made.and_then(|entry| slot.set(entry).err());
        }
    }
}

/// The process-wide runtime. The `Option` allows dropping the loser of a race without waiting for its threads, which
/// tokio forbids inside another runtime.
#[derive(Debug)]
struct ProcessRuntime(Option<Runtime>);

impl ProcessRuntime {
    fn start() -> Result<Self, TaskError> {
        let workers = environment(WORKERS_VARIABLE)
            .and_then(|text| text.trim().parse().ok())
            .filter(|workers| (1..=MAX_WORKERS).contains(workers))
            .unwrap_or(DEFAULT_WORKERS);
        Builder::new_multi_thread()
            .worker_threads(workers)
            .thread_name("turntree-io")
            .enable_all()
            .build()
            .map(|runtime| Self(Some(runtime)))
            .map_err(|error| TaskError::Unavailable { reason: error.to_string() })
    }
}

impl Drop for ProcessRuntime {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_process_has_its_own_value() {
        let slot = PerProcess::new();
        let get = |process, value| *slot.get_or_try_create_for(process, || Ok::<_, ()>(value)).unwrap();

        assert_eq!(
            [get(1, "parent"), get(2, "child"), get(1, "late"), get(2, "late")],
            ["parent", "child", "parent", "child"]
        );
    }

    #[test]
    fn a_failed_initialization_is_retried() {
        let slot = PerProcess::new();

        assert_eq!(slot.get_or_try_create(|| Err::<u8, _>("no threads")), Err("no threads"));
        assert_eq!(slot.get_or_try_create(|| Ok::<_, &str>(7)), Ok(&7));
    }

    #[tokio::test]
    async fn dropping_a_task_aborts_it_and_detaching_does_not() {
        let (sender, mut receiver) = tokio::sync::mpsc::unbounded_channel();
        let work = |name: &'static str| {
            let sender = sender.clone();
            async move {
                tokio::task::yield_now().await;
                sender.send(name).unwrap();
            }
        };

        drop(spawn(work("dropped")));
        spawn(work("detached")).detach();
        drop(sender);

        assert_eq!(receiver.recv().await, Some("detached"));
        assert_eq!(receiver.recv().await, None);
    }

    #[tokio::test]
    async fn a_panic_in_a_task_is_an_error() {
        let text = spawn(async { panic!("no {}", "luck") }).await;
        let literal = spawn(async { panic!("bad luck") }).await;

        assert_eq!(text, Err::<(), _>(TaskError::Panicked { message: "no luck".to_owned() }));
        assert_eq!(literal, Err::<(), _>(TaskError::Panicked { message: "bad luck".to_owned() }));
    }

    #[tokio::test(start_paused = true)]
    async fn tasks_in_a_runtime_use_its_clock() {
        let start = tokio::time::Instant::now();

        spawn(sleep(Duration::from_secs(3600))).await.unwrap();

        assert_eq!(start.elapsed(), Duration::from_secs(3600));
    }

    #[test]
    fn tasks_and_timers_work_outside_of_tokio_on_named_threads() {
        let name = async {
            sleep(Duration::from_millis(1)).await;
            std::thread::current().name().map(str::to_owned)
        };

        let outcome = block_on(async {
            let task = spawn(name);
            sleep(Duration::from_millis(1)).await;
            task.await
        });

        assert_eq!(outcome, Ok(Some("turntree-io".to_owned())));
    }

    /// A minimal executor: polls on this thread and sleeps until woken.
    fn block_on<T>(future: impl Future<Output = T>) -> T {
        struct Unpark(std::thread::Thread);
        impl std::task::Wake for Unpark {
            fn wake(self: std::sync::Arc<Self>) {
                self.0.unpark();
            }
        }
        let waker = std::sync::Arc::new(Unpark(std::thread::current())).into();
        let mut context = Context::from_waker(&waker);
        let mut future = std::pin::pin!(future);
        loop {
            match future.as_mut().poll(&mut context) {
                Poll::Ready(value) => return value,
                Poll::Pending => std::thread::park(),
            }
        }
    }
}
