//! [`LoopWaker`]: wakes an asyncio event loop from another thread, without the GIL.
//!
//! Each loop has one waker with a queue of messages. The waker writes to a file descriptor that the loop watches
//! (`add_reader`): an eventfd on Linux, a socket pair on other Unixes. The loop's thread then processes the queue. One
//! write covers all messages that arrive before that. Measured: a tokio thread that calls `call_soon_threadsafe` instead
//! is blocked for up to 5 s.
//!
//! A loop that cannot watch descriptors (Windows' proactor) is woken by a separate thread that may take the GIL
//! ([`super::waker_thread`]).
//!
//! A registry with weak keys maps loops to wakers; each thread caches the last one. A waker is closed with its loop and is
//! not used after a fork.

use std::cell::{Cell, RefCell};
#[cfg(unix)]
use std::io::{Read, Write};
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use crate::prelude::*;
#[cfg(unix)]
use pyo3::exceptions::{PyAttributeError, PyNotImplementedError};
use pyo3::intern;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyString, PyWeakrefMethods, PyWeakrefReference};

use super::gil::{self, lock};
use super::task_waker::TaskWaker;
use super::{imports, waker_thread};

/// A callback that runs on the loop's thread.
type LoopCallback = Box<dyn FnOnce(Python<'_>) + Send>;

enum QueuedMessage {
    Wake(Arc<TaskWaker>),
    LoopCallback(LoopCallback),
}

/// Wakes one event loop; see the module documentation.
pub(crate) struct LoopWaker {
    queue: Mutex<Vec<QueuedMessage>>,
    is_signaled: AtomicBool,
    closed: AtomicBool,
    method: WakeMethod,
    event_loop: Py<PyWeakrefReference>,
    /// Wakes the loop for signals, in IPython kernels: `turntree._interrupts`.
    signal_waker: Option<Py<PyAny>>,
    process: u32,
}

/// How the loop is woken.
enum WakeMethod {
    #[cfg(unix)]
    Descriptor(EventFd),
    Thread,
}

/// Whether a loop of this process has a signal waker.
static HAS_SIGNAL_WAKER: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// The waker that this thread used last. Most threads run only one loop.
    static LAST: RefCell<Option<Arc<LoopWaker>>> = const { RefCell::new(None) };
    /// The waker whose loop is executing on this thread, if known.
    static ON_LOOP: Cell<*const LoopWaker> = const { Cell::new(ptr::null()) };
}

impl LoopWaker {
    /// The running loop of this thread and its waker, which is created at first use.
    ///
    /// # Errors
    /// The exceptions of the loop's `add_reader` except "not supported"; `OSError` if no file descriptor is left.
    pub(crate) fn current(py: Python<'_>) -> PyResult<Option<(Bound<'_, PyAny>, Arc<Self>)>> {
        let Some(event_loop) = imports::running_loop(py)? else { return Ok(None) };
        let loop_waker = Self::of(&event_loop)?;
        Ok(Some((event_loop, loop_waker)))
    }

    /// The waker of a loop. Call it on the loop's thread, or before the loop runs.
    pub(crate) fn of(event_loop: &Bound<'_, PyAny>) -> PyResult<Arc<Self>> {
        let cached = LAST.with_borrow(|last| {
            last.as_ref().filter(|loop_waker| loop_waker.belongs_to(event_loop)).cloned()
        });
        if let Some(loop_waker) = cached {
            return Ok(loop_waker);
        }
        let loop_waker = Self::registered(event_loop)?;
        // The replaced waker is dropped outside the borrow.
        drop(LAST.with(|last| last.replace(Some(Arc::clone(&loop_waker)))));
        Ok(loop_waker)
    }

    /// The loop, unless it has been collected.
    pub(crate) fn event_loop<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyAny>> {
        self.event_loop.bind(py).upgrade()
    }

    /// Lets signals wake the loop while `future` is pending, where the loop does not do so itself.
    ///
    /// # Errors
    /// `ValueError` if this is not the main thread.
    pub(crate) fn watch_signals(&self, future: &Bound<'_, PyAny>) -> PyResult<()> {
        let Some(signal_waker) = &self.signal_waker else { return Ok(()) };
        signal_waker.call_method1(future.py(), intern!(future.py(), "watch"), (future,))?;
        Ok(())
    }

    /// Tells the signal waker that a coroutine starts or ends a step. False if it has failed or if there is none: what it
    /// raises is of no interest to the coroutine.
    fn tell_signal_waker(&self, method: &Bound<'_, PyString>) -> bool {
        let py = method.py();
        let told = self.signal_waker.as_ref().map(|waker| waker.call_method0(py, method));
        if let Some(Err(error)) = told {
            error.write_unraisable(py, None);
            return false;
        }
        told.is_some()
    }

    /// Whether the user has interrupted what the loop waits for, by SIGINT in an IPython kernel.
    pub(crate) fn is_interrupted(&self, py: Python<'_>) -> bool {
        let asked = self.signal_waker.as_ref().map(|waker| {
            waker.call_method0(py, intern!(py, "is_interrupted")).and_then(|answer| answer.is_truthy(py))
        });
        matches!(asked, Some(Ok(true)))
    }

    /// Whether this thread is executing the loop. Costs one C call.
    pub(crate) fn is_running_here(&self, py: Python<'_>) -> bool {
        matches!(imports::running_loop(py), Ok(Some(running)) if self.belongs_to(&running))
    }

    /// Resumes the task that `task_waker` has suspended. Needs no GIL.
    pub(crate) fn wake(self: &Arc<Self>, task_waker: Arc<TaskWaker>) {
        if ON_LOOP.get() == Arc::as_ptr(self) && gil::if_held(|py| task_waker.resolve(py)).is_some() {
            return;
        }
        self.enqueue(QueuedMessage::Wake(task_waker));
    }

    /// Runs `callback` on the loop's thread. Needs no GIL. If the loop is closed, the callback is dropped.
    pub(crate) fn call_soon(self: &Arc<Self>, callback: impl FnOnce(Python<'_>) + Send + 'static) {
        self.enqueue(QueuedMessage::LoopCallback(Box::new(callback)));
    }

    /// Runs `work` on the loop's thread: tasks of this loop are then resumed without the file descriptor.
    pub(crate) fn on_loop<R>(self: &Arc<Self>, work: impl FnOnce() -> R) -> R {
        struct Restore(*const LoopWaker);
        impl Drop for Restore {
            fn drop(&mut self) {
                ON_LOOP.set(self.0);
            }
        }
        let _restore = Restore(ON_LOOP.replace(Arc::as_ptr(self)));
        work()
    }

    /// Processes all queued messages. Only the loop's thread calls it.
    pub(crate) fn process_queue(self: &Arc<Self>, py: Python<'_>) {
        #[cfg(unix)]
        if let WakeMethod::Descriptor(event_fd) = &self.method {
            event_fd.drain();
        }
        // Before the queue is taken: a later message signals again.
        self.is_signaled.swap(false, Ordering::AcqRel);
        let messages = std::mem::take(&mut *lock(&self.queue));
        gil::mark_held(py, || {
            self.on_loop(|| {
                for message in messages {
                    match message {
                        QueuedMessage::Wake(task_waker) => task_waker.resolve(py),
                        QueuedMessage::LoopCallback(callback) => callback(py),
                    }
                }
            });
        });
    }

    /// Whether the loop is closed or collected.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Drops all messages and refuses new ones: the loop is closed or collected.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Release);
        let messages = std::mem::take(&mut *lock(&self.queue));
        drop(messages);
    }

    fn enqueue(self: &Arc<Self>, message: QueuedMessage) {
        let mut queue = lock(&self.queue);
        if self.closed.load(Ordering::Acquire) {
            drop(queue);
            drop(message);
            return;
        }
        queue.push(message);
        drop(queue);
        if self.is_signaled.swap(true, Ordering::AcqRel) {
            return;
        }
        match &self.method {
            #[cfg(unix)]
            WakeMethod::Descriptor(event_fd) => event_fd.signal(),
            WakeMethod::Thread => waker_thread::wake_loop(Arc::clone(self)),
        }
    }

    /// Whether this is the waker of `event_loop`. An address is not enough: it may have been freed and reused.
    fn belongs_to(&self, event_loop: &Bound<'_, PyAny>) -> bool {
        self.process == std::process::id()
            && self.event_loop(event_loop.py()).is_some_and(|own| own.is(event_loop))
            && !self.closed.load(Ordering::Acquire)
    }

    fn registered(event_loop: &Bound<'_, PyAny>) -> PyResult<Arc<Self>> {
        static REGISTRY: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        let py = event_loop.py();
        let registry = REGISTRY
            .get_or_try_init(py, || Ok::<_, PyErr>(imports::weak_key_dictionary(py)?.call0()?.unbind()))?
            .bind(py);
        let entry = registry.call_method1(intern!(py, "get"), (event_loop,))?;
        if let Ok(entry) = entry.cast::<RegisteredWaker>()
            && entry.get().0.belongs_to(event_loop)
        {
            return Ok(Arc::clone(&entry.get().0));
        }
        let loop_waker = Self::create(event_loop)?;
        registry.set_item(event_loop, Py::new(py, RegisteredWaker(Arc::clone(&loop_waker)))?)?;
        Ok(loop_waker)
    }

    fn create(event_loop: &Bound<'_, PyAny>) -> PyResult<Arc<Self>> {
        let build = |method, signal_waker| -> PyResult<Arc<Self>> {
            Ok(Arc::new(Self {
                queue: Mutex::default(),
                is_signaled: AtomicBool::new(false),
                closed: AtomicBool::new(false),
                method,
                event_loop: PyWeakrefReference::new(event_loop)?.unbind(),
                signal_waker,
                process: std::process::id(),
            }))
        };
        #[cfg(unix)]
        {
            let py = event_loop.py();
            let event_fd = EventFd::new()?;
            let descriptor = event_fd.descriptor();
            let loop_waker = build(WakeMethod::Descriptor(event_fd), signal_waker(event_loop)?)?;
            let handler = WakeHandler { loop_waker: Arc::clone(&loop_waker), closes_on_drop: true };
            let handler = Py::new(py, handler)?;
            // The loop keeps the context in which a reader is added. An empty one, or it would keep the first caller's.
            let watched = event_loop.getattr(intern!(py, "add_reader")).and_then(|add_reader| {
                let empty_context = imports::context_type(py)?.call0()?;
                empty_context.call_method1(intern!(py, "run"), (add_reader, descriptor, handler))
            });
            match watched {
                Ok(_) => return Ok(loop_waker),
                // The loop cannot watch descriptors.
                Err(error)
                    if error.is_instance_of::<PyNotImplementedError>(py)
                        || error.is_instance_of::<PyAttributeError>(py) => {}
                Err(error) => return Err(error),
            }
        }
        build(WakeMethod::Thread, None)
    }
}

/// Sees signals while a coroutine executes a step, which has no pending future that the signal waker could watch.
pub(super) struct SignalScope<'py> {
    py: Python<'py>,
    loop_waker: Option<Arc<LoopWaker>>,
    has_ended: bool,
}

impl<'py> SignalScope<'py> {
    /// Starts to see signals. Does nothing outside of IPython kernels.
    pub(super) fn enter(py: Python<'py>) -> Self {
        let current = || LoopWaker::current(py).ok().flatten().map(|(_, loop_waker)| loop_waker);
        let loop_waker = HAS_SIGNAL_WAKER.load(Ordering::Relaxed).then(current).flatten();
        let loop_waker = loop_waker.filter(|waker| waker.tell_signal_waker(intern!(py, "enter")));
        Self { py, loop_waker, has_ended: false }
    }

    /// Ends the step that is the last of its coroutine.
    pub(super) fn end(mut self) {
        self.has_ended = true;
    }
}

impl Drop for SignalScope<'_> {
    fn drop(&mut self) {
        if let Some(loop_waker) = &self.loop_waker {
            let py = self.py;
            loop_waker.tell_signal_waker(if self.has_ended {
                intern!(py, "end")
            } else {
                intern!(py, "suspend")
            });
        }
    }
}

/// The object that wakes the loop for signals, if an IPython kernel runs in this process.
#[cfg(unix)]
fn signal_waker(event_loop: &Bound<'_, PyAny>) -> PyResult<Option<Py<PyAny>>> {
    let py = event_loop.py();
    if !py.import(intern!(py, "sys"))?.getattr(intern!(py, "modules"))?.contains(intern!(py, "ipykernel"))? {
        return Ok(None);
    }
    match imports::signal_waker(py)?.call1((event_loop,)) {
        Ok(waker) if waker.is_none() => Ok(None),
        Ok(waker) => {
            HAS_SIGNAL_WAKER.store(true, Ordering::Relaxed);
            Ok(Some(waker.unbind()))
        }
        // The loop cannot watch descriptors.
        Err(error) if error.is_instance_of::<PyNotImplementedError>(py) => Ok(None),
        Err(error) => Err(error),
    }
}

/// A waker in the registry, without a reference to its loop.
#[pyclass(frozen, name = "_RegisteredWaker", module = "turntree._core")]
struct RegisteredWaker(Arc<LoopWaker>);

/// The callback that the loop runs when it is woken.
///
/// The loop owns it. When it is dropped, the loop is closed or collected.
#[pyclass(frozen, name = "_WakeHandler", module = "turntree._core")]
pub(crate) struct WakeHandler {
    loop_waker: Arc<LoopWaker>,
    closes_on_drop: bool,
}

impl WakeHandler {
    /// A handler for one `call_soon_threadsafe`.
    pub(crate) fn once(py: Python<'_>, loop_waker: Arc<LoopWaker>) -> PyResult<Py<Self>> {
        Py::new(py, Self { loop_waker, closes_on_drop: false })
    }
}

#[pymethods]
impl WakeHandler {
    fn __call__(&self, py: Python<'_>) {
        self.loop_waker.process_queue(py);
    }
}

impl Drop for WakeHandler {
    fn drop(&mut self) {
        if self.closes_on_drop {
            gil::in_destructor(|| self.loop_waker.close());
        }
    }
}

/// A file descriptor that other threads write and the loop reads.
#[cfg(unix)]
struct EventFd {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    event: std::fs::File,
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    pair: (std::os::unix::net::UnixStream, std::os::unix::net::UnixStream),
}

#[cfg(any(target_os = "linux", target_os = "android"))]
impl EventFd {
    #[expect(unsafe_code, reason = "the standard library has no eventfd")]
    fn new() -> std::io::Result<Self> {
        use std::os::fd::{FromRawFd, OwnedFd};

        // SAFETY: `eventfd` takes two integers and accesses none of our memory.
        let descriptor = unsafe { libc::eventfd(0, libc::EFD_NONBLOCK | libc::EFD_CLOEXEC) };
        if descriptor < 0 {
            return Err(std::io::Error::last_os_error());
        }
        // SAFETY: the call above opened this descriptor, and no other code has it.
        let owned = unsafe { OwnedFd::from_raw_fd(descriptor) };
        Ok(Self { event: owned.into() })
    }

    fn descriptor(&self) -> std::os::fd::RawFd {
        std::os::fd::AsRawFd::as_raw_fd(&self.event)
    }

    /// Never blocks: the counter cannot overflow, because the queue is processed between two signals.
    fn signal(&self) {
        let _ = (&self.event).write(&1_u64.to_ne_bytes());
    }

    fn drain(&self) {
        let _ = (&self.event).read(&mut [0; 8]);
    }
}

#[cfg(all(unix, not(any(target_os = "linux", target_os = "android"))))]
impl EventFd {
    fn new() -> std::io::Result<Self> {
        let pair = std::os::unix::net::UnixStream::pair()?;
        pair.0.set_nonblocking(true)?;
        pair.1.set_nonblocking(true)?;
        Ok(Self { pair })
    }

    fn descriptor(&self) -> std::os::fd::RawFd {
        std::os::fd::AsRawFd::as_raw_fd(&self.pair.0)
    }

    /// Never blocks: at most one byte is unread.
    fn signal(&self) {
        let _ = (&self.pair.1).write(&[1]);
    }

    fn drain(&self) {
        let _ = (&self.pair.0).read(&mut [0; 64]);
    }
}

/// Runs `work`, a callback that asyncio calls, with the GIL marked as held and on the loop of `loop_waker`.
pub(crate) fn in_callback<R>(
    py: Python<'_>,
    loop_waker: Option<&Arc<LoopWaker>>,
    work: impl FnOnce() -> R,
) -> R {
    gil::mark_held(py, || match loop_waker {
        Some(loop_waker) => loop_waker.on_loop(work),
        None => work(),
    })
}
