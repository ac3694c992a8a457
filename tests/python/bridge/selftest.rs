//! Functions that the tests in `tests/python/bridge` call to test the bridge. Not part of any wheel.

#[path = "emitter.rs"]
mod emitter;
#[path = "server_application.rs"]
mod server_application;

use std::future::{Future, poll_fn};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use self::emitter::driven;
use super::call::{Arguments, CallMode, call};
use super::context::CallerContext;
use super::coroutine::Coroutine;
use super::gc::GcRoots;
use super::gil::{self, lock};
use super::stream::{BlockingEvents, PyEventStream};
use super::sync;

/// The number of live probes, which shows whether futures were dropped.
static ALIVE: AtomicUsize = AtomicUsize::new(0);

struct Probe;

impl Probe {
    fn new() -> Self {
        ALIVE.fetch_add(1, Ordering::SeqCst);
        Self
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        ALIVE.fetch_sub(1, Ordering::SeqCst);
    }
}

#[derive(Default)]
struct Alarm {
    fired: bool,
    waker: Option<Waker>,
}

type SetAlarm = (Instant, Arc<Mutex<Alarm>>);

/// Replaces the network thread: one thread without Python that wakes futures when their time has come. Keyed by process.
static CLOCK: Mutex<(u32, Option<Sender<SetAlarm>>)> = Mutex::new((0, None));

fn set_alarm(after: Duration) -> Arc<Mutex<Alarm>> {
    let alarm = Arc::new(Mutex::new(Alarm::default()));
    let mut clock = lock(&CLOCK);
    if clock.0 != std::process::id() {
        let (sender, receiver) = channel();
        std::thread::spawn(move || run_timers(&receiver));
        let inherited = std::mem::replace(&mut *clock, (std::process::id(), Some(sender)));
        // After a fork, the thread of the timers may have held the lock of this channel: dropping it would wait for ever.
        std::mem::forget(inherited);
    }
    if let Some(sender) = &clock.1 {
        let _ = sender.send((Instant::now() + after, Arc::clone(&alarm)));
    }
    alarm
}

fn run_timers(receiver: &Receiver<SetAlarm>) {
    let mut waiting: Vec<SetAlarm> = Vec::new();
    loop {
        let next = waiting.iter().map(|(at, _)| *at).min();
        let limit = next.map_or(Duration::from_secs(60), |at| at.saturating_duration_since(Instant::now()));
        match receiver.recv_timeout(limit) {
            Ok(entry) => waiting.push(entry),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        let now = Instant::now();
        let (due, later) = waiting.into_iter().partition(|(at, _)| *at <= now);
        waiting = later;
        for (_, alarm) in due {
            let waker = {
                let mut alarm = lock(&alarm);
                alarm.fired = true;
                alarm.waker.take()
            };
            if let Some(waker) = waker {
                waker.wake();
            }
        }
    }
}

/// Ready after `microseconds`; the timer thread wakes it.
fn after(microseconds: u64) -> impl Future<Output = ()> + Send {
    let mut alarm = None;
    poll_fn(move |context| {
        let alarm = alarm.get_or_insert_with(|| set_alarm(Duration::from_micros(microseconds)));
        let mut alarm = lock(alarm);
        if alarm.fired {
            return Poll::Ready(());
        }
        alarm.waker = Some(context.waker().clone());
        Poll::Pending
    })
}

/// Pending once; wakes itself.
fn yield_now() -> impl Future<Output = ()> + Send {
    let mut yielded = false;
    poll_fn(move |context| {
        if yielded {
            return Poll::Ready(());
        }
        yielded = true;
        context.waker().wake_by_ref();
        Poll::Pending
    })
}

fn mode_named(name: &str) -> PyResult<CallMode> {
    match name {
        "task" => Ok(CallMode::Task),
        "thread" => Ok(CallMode::Thread),
        "inline" => Ok(CallMode::Inline),
        other => Err(pyo3::exceptions::PyValueError::new_err(format!("no mode {other:?}"))),
    }
}

fn live_source(
    count: u64,
    microseconds: u64,
    burst: u64,
    error: Option<Py<PyAny>>,
) -> impl futures_util::Stream<Item = PyResult<u64>> + Send {
    driven(move |emitter| async move {
        let probe = Probe::new();
        for number in 0..count {
            if number % burst.max(1) == 0 && microseconds > 0 {
                after(microseconds).await;
            }
            if microseconds > 0 {
                emitter.emit(number);
            } else {
                emitter.send(number).await;
            }
        }
        drop(probe);
        match error {
            Some(error) => gil::require_held(|py| Err(PyErr::from_value(error.into_bound(py)))),
            None => Ok(()),
        }
    })
}

fn number(py: Python<'_>, value: u64) -> PyResult<Py<PyAny>> {
    super::coroutine::into_any(py, value)
}

/// Test functions; see the Python tests.
#[pymodule]
pub(crate) mod _bridge_selftest {
    #[pymodule_export]
    use super::super::coroutine::Coroutine as CoroutineType;
    #[allow(
        clippy::wildcard_imports,
        clippy::allow_attributes,
        reason = "clippy allows it in test builds only"
    )]
    use super::*;

    #[pymodule_export]
    use super::server_application::{asgi_core, server_core};

    #[pyfunction]
    fn alive() -> usize {
        ALIVE.load(Ordering::SeqCst)
    }

    #[pyfunction]
    fn ready(value: Py<PyAny>) -> Coroutine {
        Coroutine::new("ready", GcRoots::default(), async move { Ok(value) })
    }

    #[pyfunction]
    fn ready_number(value: u64) -> Coroutine {
        Coroutine::new("ready_number", GcRoots::default(), async move { Ok(value) })
    }

    #[pyfunction]
    fn fails(error: Bound<'_, PyAny>) -> Coroutine {
        let error = PyErr::from_value(error);
        Coroutine::new("fails", GcRoots::default(), async move { Err::<u64, _>(error) })
    }

    #[pyfunction]
    fn panics() -> Coroutine {
        Coroutine::new("panics", GcRoots::default(), async move {
            let probe = Probe::new();
            yield_now().await;
            drop(probe);
            if std::hint::black_box(true) {
                std::panic::resume_unwind(Box::new("on purpose"));
            }
            Ok(0_u64)
        })
    }

    /// Waits `times` times for `microseconds`, then returns `times`.
    #[pyfunction]
    #[pyo3(signature = (microseconds, times=1))]
    fn sleeps(microseconds: u64, times: u64) -> Coroutine {
        Coroutine::new("sleeps", GcRoots::default(), async move {
            let _probe = Probe::new();
            for _ in 0..times {
                after(microseconds).await;
            }
            Ok(times)
        })
    }

    #[pyfunction]
    fn yields(times: u64) -> Coroutine {
        Coroutine::new("yields", GcRoots::default(), async move {
            for _ in 0..times {
                yield_now().await;
            }
            Ok(times)
        })
    }

    /// Never ready; holds `object` in its GC roots.
    #[pyfunction]
    fn forever(object: Py<PyAny>) -> Coroutine {
        let roots = GcRoots::new([object]);
        let own = roots.clone();
        Coroutine::new("forever", roots, async move {
            let _probe = Probe::new();
            std::future::pending::<()>().await;
            gil::require_held(|py| own.get(py, 0).map(Bound::unbind))
        })
    }

    fn calls(
        py: Python<'_>,
        caller: CallerContext,
        callable: Py<PyAny>,
        mode: &str,
        positional: Vec<Py<PyAny>>,
        keywords: Option<Py<PyDict>>,
    ) -> PyResult<impl Future<Output = PyResult<Py<PyAny>>> + Send + use<>> {
        let mode = match mode {
            "auto" => CallMode::of(callable.bind(py), false)?,
            named => mode_named(named)?,
        };
        let positional = PyTuple::new(py, positional)?.unbind();
        Ok(async move {
            let _probe = Probe::new();
            call(callable, Arguments { positional, keywords }, mode, &caller).await
        })
    }

    /// Calls one tool.
    #[pyfunction]
    #[pyo3(signature = (callable, mode, *positional, **keywords))]
    fn tool(
        py: Python<'_>,
        callable: Py<PyAny>,
        mode: &str,
        positional: Vec<Py<PyAny>>,
        keywords: Option<Py<PyDict>>,
    ) -> PyResult<Coroutine> {
        let run = calls(py, CallerContext::capture(py)?, callable, mode, positional, keywords)?;
        Ok(Coroutine::from_boxed("tool", GcRoots::default(), Box::pin(run)))
    }

    /// Calls several tools concurrently.
    #[pyfunction]
    fn tools(py: Python<'_>, callables: Vec<Py<PyAny>>, mode: &str) -> PyResult<Coroutine> {
        let caller = CallerContext::capture(py)?;
        let runs = callables
            .into_iter()
            .map(|callable| calls(py, caller.clone(), callable, mode, Vec::new(), None))
            .collect::<PyResult<Vec<_>>>()?;
        Ok(Coroutine::new("tools", GcRoots::default(), async move {
            futures_util::future::join_all(runs).await.into_iter().collect::<PyResult<Vec<_>>>()
        }))
    }

    /// Calls one tool without an event loop.
    #[pyfunction]
    #[pyo3(signature = (callable, mode, *positional, **keywords))]
    fn tool_sync(
        py: Python<'_>,
        callable: Py<PyAny>,
        mode: &str,
        positional: Vec<Py<PyAny>>,
        keywords: Option<Py<PyDict>>,
    ) -> PyResult<Py<PyAny>> {
        let run = calls(py, CallerContext::without_loop(py)?, callable, mode, positional, keywords)?;
        sync::run_sync(py, run)
    }

    /// Calls a tool from a thread without Python and returns the result to the awaiting task.
    #[pyfunction]
    fn tool_from_elsewhere(py: Python<'_>, callable: Py<PyAny>, mode: &str) -> PyResult<Coroutine> {
        let run = calls(py, CallerContext::capture(py)?, callable, mode, Vec::new(), None)?;
        Ok(Coroutine::new("tool_from_elsewhere", GcRoots::default(), async move {
            let slot = Arc::new(Mutex::new((None, None::<Waker>)));
            let other = Arc::clone(&slot);
            std::thread::spawn(move || {
                let outcome = block_without_python(run);
                let mut slot = lock(&other);
                slot.0 = Some(outcome);
                let waker = slot.1.take();
                drop(slot);
                if let Some(waker) = waker {
                    waker.wake();
                }
            });
            poll_fn(move |context| {
                let mut slot = lock(&slot);
                slot.1 = Some(context.waker().clone());
                slot.0.take().map_or(Poll::Pending, Poll::Ready)
            })
            .await
        }))
    }

    fn block_without_python<T>(future: impl Future<Output = T>) -> T {
        struct Unpark(std::thread::Thread);
        impl std::task::Wake for Unpark {
            fn wake(self: Arc<Self>) {
                self.0.unpark();
            }
        }
        let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
        let mut future = std::pin::pin!(future);
        loop {
            if let Poll::Ready(value) = future.as_mut().poll(&mut std::task::Context::from_waker(&waker)) {
                return value;
            }
            std::thread::park();
        }
    }

    #[pyfunction]
    #[pyo3(signature = (microseconds, times=1))]
    fn sleeps_sync(py: Python<'_>, microseconds: u64, times: u64) -> PyResult<u64> {
        sync::run_sync(py, async move {
            let _probe = Probe::new();
            for _ in 0..times {
                after(microseconds).await;
            }
            Ok(times)
        })
    }

    /// Streams `count` numbers, in bursts of `burst` every `microseconds`, then raises `error`.
    #[pyfunction]
    #[pyo3(signature = (count, microseconds=0, burst=1, error=None, keep=None))]
    fn numbers(
        py: Python<'_>,
        count: u64,
        microseconds: u64,
        burst: u64,
        error: Option<Py<PyAny>>,
        keep: Option<Py<PyAny>>,
    ) -> PyResult<PyEventStream> {
        PyEventStream::new(py, live_source(count, microseconds, burst, error), number, GcRoots::new(keep))
    }

    /// As `numbers`, without a driver: the source with the lowest overhead.
    #[pyfunction]
    fn ready_numbers(py: Python<'_>, count: u64) -> PyResult<PyEventStream> {
        PyEventStream::new(py, futures_util::stream::iter(0..count).map(Ok), number, GcRoots::default())
    }

    #[pyfunction]
    #[pyo3(signature = (count, microseconds=0, burst=1, error=None))]
    fn numbers_sync(
        py: Python<'_>,
        count: u64,
        microseconds: u64,
        burst: u64,
        error: Option<Py<PyAny>>,
    ) -> PyResult<BlockingEvents> {
        let source = live_source(count, microseconds, burst, error);
        let stream = PyEventStream::new(py, source, number, GcRoots::default())?;
        Ok(PyEventStream::blocking(Py::new(py, stream)?))
    }

    /// Drives a stream and waits for its end.
    #[pyfunction]
    fn finished(stream: Py<PyEventStream>) -> Coroutine {
        let finished = stream.get().finished();
        Coroutine::new("finished", GcRoots::new([stream.into_any()]), async move {
            finished.await?;
            Ok("finished")
        })
    }
}
