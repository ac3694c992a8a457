//! [`ServerLoop`]: the event loop on which an application calls Python.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use crate::prelude::*;
use futures_util::future::{AbortHandle, Abortable};
use tokio::sync::oneshot;

use crate::bridge::context::CallerContext;
use crate::bridge::gil::lock;
use crate::bridge::loop_waker::LoopWaker;
use crate::bridge::{background_loop, gil, sync};

/// Where an application calls Python.
#[derive(Clone)]
pub(crate) enum ServerLoop {
    /// On the loop that polls the request, with the context variables of the request's task: under ASGI.
    Running,
    /// On the loop that has served the last connection, also when that connection is over: under ASGI.
    Serving(Arc<ServingLoop>),
    /// On the loop, and with the context variables, with which a native server was started.
    Started {
        /// The context variables.
        caller: CallerContext,
        /// The loop.
        home: Arc<LoopWaker>,
    },
}

/// The loop on which an ASGI server calls the application.
#[derive(Default)]
pub(crate) struct ServingLoop(Mutex<Option<(CallerContext, Arc<LoopWaker>)>>);

impl ServingLoop {
    /// Remembers the running loop. A lifespan gives its context variables; those of a request belong to the request.
    ///
    /// # Errors
    /// The exceptions of capturing the context.
    pub(super) fn enter(&self, py: Python<'_>, is_lifespan: bool) -> PyResult<()> {
        let Some((_, running)) = LoopWaker::current(py)? else { return Ok(()) };
        let is_known = lock(&self.0).as_ref().is_some_and(|(_, known)| Arc::ptr_eq(known, &running));
        if is_known && !is_lifespan {
            return Ok(());
        }
        let caller =
            if is_lifespan { CallerContext::capture(py)? } else { CallerContext::without_variables(py)? };
        let before = lock(&self.0).replace((caller, running));
        drop(before);
        Ok(())
    }

    fn get(&self) -> Option<(CallerContext, Arc<LoopWaker>)> {
        lock(&self.0).clone()
    }
}

impl ServerLoop {
    /// The running loop; for a server without one, the background loop of synchronous callers.
    ///
    /// # Errors
    /// The exceptions of starting the background loop.
    pub(crate) fn capture(py: Python<'_>, blocking: bool) -> PyResult<Self> {
        if !blocking {
            let caller = CallerContext::capture(py)?;
            if let Some(home) = caller.loop_waker().cloned() {
                return Ok(Self::Started { caller, home });
            }
        }
        let home = background_loop::loop_waker(py)?;
        let caller = CallerContext::without_loop(py)?;
        Ok(Self::Started { caller, home })
    }

    /// The context of calls; that of the running task under ASGI. Needs the GIL of the loop's thread.
    ///
    /// # Errors
    /// The exceptions of capturing the context.
    pub(crate) fn caller(&self, py: Python<'_>) -> PyResult<CallerContext> {
        match self {
            Self::Running => CallerContext::capture(py),
            Self::Serving(serving) => match serving.get() {
                Some((caller, _)) => caller.on_running_loop(py),
                None => CallerContext::without_variables(py),
            },
            Self::Started { caller, .. } => caller.on_running_loop(py),
        }
    }

    /// The waker of the loop; None under ASGI.
    pub(crate) fn home(&self) -> Option<&Arc<LoopWaker>> {
        match self {
            Self::Running | Self::Serving(_) => None,
            Self::Started { home, .. } => Some(home),
        }
    }

    /// Runs a future on the loop's thread, where it can call Python. None if the loop is closed.
    ///
    /// # Cancel safety
    /// Dropping the returned future drops `future` on the loop's thread, which cancels its Python calls.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        name: &'static str,
        future: impl Future<Output = T> + Send + 'static,
    ) -> Option<T> {
        let home = match self {
            Self::Running => return Some(future.await),
            Self::Serving(serving) => serving.get()?.1,
            Self::Started { home, .. } => Arc::clone(home),
        };
        if gil::if_held(|py| home.is_running_here(py)).unwrap_or(false) {
            return Some(future.await);
        }
        submit(&home, name, future).await
    }
}

/// Starts a future as a task of a loop.
fn submit<T: Send + 'static>(
    home: &Arc<LoopWaker>,
    name: &'static str,
    future: impl Future<Output = T> + Send + 'static,
) -> Submitted<T> {
    let (sender, receiver) = oneshot::channel();
    let (abort, registration) = AbortHandle::new_pair();
    let work = Abortable::new(
        async move {
            // The receiver is dropped together with the abort handle's owner.
            drop(sender.send(future.await));
        },
        registration,
    );
    let rest = Box::pin(async move {
        let _ = work.await;
    });
    home.call_soon(move |py| {
        if let Err(error) = sync::run_in_background(py, name, None, rest) {
            error.write_unraisable(py, None);
        }
    });
    Submitted { receiver, abort }
}

/// The result of a future on another thread's loop; dropping it aborts the future.
struct Submitted<T> {
    receiver: oneshot::Receiver<T>,
    abort: AbortHandle,
}

impl<T> Future for Submitted<T> {
    type Output = Option<T>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<T>> {
        Pin::new(&mut self.receiver).poll(context).map(Result::ok)
    }
}

impl<T> Drop for Submitted<T> {
    fn drop(&mut self) {
        self.abort.abort();
    }
}
