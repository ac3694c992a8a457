//! Python functions that the bridge calls. Each is imported at first use: importing turntree must not import asyncio
//! (40 ms).

use crate::prelude::*;
use pyo3::sync::PyOnceLock;

macro_rules! imported {
    ($($(#[$documentation:meta])* $name:ident = $module:literal, $attribute:literal;)*) => {
        $($(#[$documentation])*
        pub(crate) fn $name(py: Python<'_>) -> PyResult<&Bound<'_, PyAny>> {
            static CELL: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
            CELL.import(py, $module, $attribute)
        })*
    };
}

imported! {
    /// The running loop of this thread or `None`; one C call, no exception when there is none.
    get_running_loop = "asyncio", "_get_running_loop";
    /// Turns any awaitable into a task or future of a loop.
    ensure_future = "asyncio", "ensure_future";
    /// Creates a loop of the current policy.
    new_event_loop = "asyncio", "new_event_loop";
    /// The unfinished tasks of a loop.
    all_tasks = "asyncio", "all_tasks";
    /// Waits for several awaitables.
    gather = "asyncio", "gather";
    /// The exception of a cancelled task.
    cancelled_error = "asyncio", "CancelledError";
    /// A snapshot of this thread's context variables; constant time.
    copy_context = "contextvars", "copy_context";
    /// The type of contexts. A new one has no variables.
    context_type = "contextvars", "Context";
    /// The type of the coroutines of an `async def`.
    coroutine_type = "types", "CoroutineType";
    /// Threads for synchronous tools.
    thread_pool_executor = "concurrent.futures", "ThreadPoolExecutor";
    /// A dictionary whose entries are removed with their event loop.
    weak_key_dictionary = "weakref", "WeakKeyDictionary";
    /// Whether a callable was declared with `async def`.
    is_coroutine_function = "inspect", "iscoroutinefunction";
    /// A thread that Python starts.
    thread = "threading", "Thread";
    /// The thread that receives signals.
    main_thread = "threading", "main_thread";
    /// Wakes a loop for signals.
    signal_waker = "turntree._interrupts", "signal_waker";
    /// The calling thread's identifier.
    get_ident = "threading", "get_ident";
}

/// The event loop that runs on this thread.
pub(crate) fn running_loop(py: Python<'_>) -> PyResult<Option<Bound<'_, PyAny>>> {
    let found = get_running_loop(py)?.call0()?;
    Ok((!found.is_none()).then_some(found))
}
