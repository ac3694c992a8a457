//! Blocks a thread that CPython ends while the interpreter shuts down.
//!
//! CPython before 3.14 calls `pthread_exit` in a thread that requests the GIL during the shutdown. In glibc, `pthread_exit`
//! unwinds the stack. If the stack has frames of ours (a daemon thread in `run_sync`, inside a tool), their destructors
//! release Python objects without the GIL (SIGSEGV), or the unwinding reaches a frame that must not unwind (SIGABRT).
//!
//! [`protect`] registers a cleanup handler for the calling thread. `pthread_exit` calls the handler before it unwinds a
//! frame, and the handler blocks until the process ends. CPython 3.14 blocks such threads itself.
//!
//! Other C libraries end the thread without unwinding: its destructors do not run, and its stack is released. So another
//! thread must not refer to the stack of a thread that can request the GIL.

use std::sync::atomic::{AtomicBool, Ordering};

/// Whether the exit handlers have run.
static EXITING: AtomicBool = AtomicBool::new(false);

/// Notes that the process is exiting: the interpreter may end threads from now on.
pub(super) fn begin_exit() {
    EXITING.store(true, Ordering::Release);
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
pub(crate) use glibc::protect;

/// Does nothing: `pthread_exit` does not unwind here.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub(crate) fn protect() {}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
mod glibc {
    #![expect(unsafe_code, reason = "the cleanup handlers of threads are a C interface")]

    use std::cell::OnceCell;
    use std::ffi::{CStr, c_int, c_void};
    use std::ptr;
    use std::sync::OnceLock;
    use std::time::{Duration, Instant};

    /// `struct _pthread_cleanup_buffer` of `pthread.h`.
    #[repr(C)]
    struct CleanupBuffer {
        routine: Option<extern "C" fn(*mut c_void)>,
        argument: *mut c_void,
        cancel_type: c_int,
        previous: *mut Self,
    }

    /// How long the interpreter may take between the first thread that it ends and `Py_IsInitialized() == 0`: a few
    /// instructions, on a busy machine.
    const SHUTDOWN_DELAY: Duration = Duration::from_secs(1);

    type Push = unsafe extern "C" fn(*mut CleanupBuffer, extern "C" fn(*mut c_void), *mut c_void);
    type Pop = unsafe extern "C" fn(*mut CleanupBuffer, c_int);

    #[derive(Clone, Copy)]
    struct Functions {
        push: Push,
        pop: Pop,
    }

    thread_local! {
        static HANDLER: OnceCell<Option<Handler>> = const { OnceCell::new() };
    }

    /// Registers the handler for this thread, once.
    ///
    /// It stays registered until the thread ends, so that it also covers frames that do not call this function.
    pub(crate) fn protect() {
        // Not accessible while the thread ends; then no frame of ours can call Python.
        let _ = HANDLER.try_with(|handler| handler.get_or_init(Handler::register).is_some());
    }

    /// The registration of a handler; removed when the thread ends.
    struct Handler {
        buffer: *mut CleanupBuffer,
        pop: Pop,
    }

    impl Handler {
        /// `None` if this C library has no such handlers.
        fn register() -> Option<Self> {
            let Functions { push, pop } = functions()?;
            // On the heap: glibc calls a handler when the unwinding leaves the frame that contains its buffer. An address
            // outside of the stack counts as left before the first frame is unwound.
            let buffer = Box::into_raw(Box::new(CleanupBuffer {
                routine: None,
                argument: ptr::null_mut(),
                cancel_type: 0,
                previous: ptr::null_mut(),
            }));
            // SAFETY: the buffer has the layout that glibc declares, and lives until `drop` removes it from this
            // thread's list.
            unsafe { push(buffer, block_at_exit, ptr::null_mut()) };
            Some(Self { buffer, pop })
        }
    }

    impl Drop for Handler {
        fn drop(&mut self) {
            // SAFETY: the thread that pushed the buffer removes it, and nothing else frees it.
            unsafe {
                (self.pop)(self.buffer, 0);
                drop(Box::from_raw(self.buffer));
            }
        }
    }

    /// Called by `pthread_exit`. Blocks if the interpreter called it, and returns otherwise.
    extern "C" fn block_at_exit(_argument: *mut c_void) {
        let deadline = Instant::now() + SHUTDOWN_DELAY;
        while !is_shut_down() {
            if !super::EXITING.load(super::Ordering::Acquire) || Instant::now() >= deadline {
                return;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        loop {
            std::thread::sleep(Duration::from_secs(3600));
        }
    }

    fn is_shut_down() -> bool {
        // SAFETY: Python allows the call at any time, without the GIL.
        unsafe { pyo3::ffi::Py_IsInitialized() == 0 }
    }

    /// glibc exports these functions for compiled code of `pthread_cleanup_push`; its headers declare another variant for
    /// new code, whose handlers run after the inner frames are unwound.
    fn functions() -> Option<Functions> {
        static FUNCTIONS: OnceLock<Option<Functions>> = OnceLock::new();
        *FUNCTIONS.get_or_init(|| {
            let push = symbol(c"_pthread_cleanup_push")?;
            let pop = symbol(c"_pthread_cleanup_pop")?;
            // SAFETY: glibc declares the functions with these types.
            Some(unsafe {
                Functions {
                    push: std::mem::transmute::<*mut c_void, Push>(push),
                    pop: std::mem::transmute::<*mut c_void, Pop>(pop),
                }
            })
        })
    }

    fn symbol(name: &CStr) -> Option<*mut c_void> {
        // SAFETY: the name is a C string, and the handle is the one for all libraries.
        let address = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
        (!address.is_null()).then_some(address)
    }
}
