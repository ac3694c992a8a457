//! Who runs the last hooks of a call that was dropped.

use std::task::{Context, Waker};

use futures_util::future::BoxFuture;
use pyo3::intern;
use pyo3::prelude::*;

use crate::py::bridge::coroutine::Coroutine;
use crate::py::bridge::kept::Kept;
use crate::py::bridge::{guard, names, sync};
use crate::upp::middleware::Finisher;

/// Hooks that need no waiting run at once, where the call was dropped. What waits goes on as a task of the event loop
/// that runs there; without one it is waited for.
pub(super) struct PyFinisher;

impl Finisher for PyFinisher {
    fn finish(&self, mut rest: BoxFuture<'static, ()>) {
        guard::held(|py| {
            if rest.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending()
                && let Err(error) = go_on(py, rest)
            {
                error.write_unraisable(py, None);
            }
        });
    }
}

fn go_on(py: Python<'_>, rest: BoxFuture<'static, ()>) -> PyResult<()> {
    let rest = async move {
        rest.await;
        guard::expect_held(|py| Ok(py.None()))
    };
    if names::running_loop(py)?.is_none() || sync::is_blocking_loop(py)? {
        return sync::run_sync(py, rest).map(drop);
    }
    let coroutine = Coroutine::boxed("on_abort", Kept::default(), Box::pin(rest));
    let task = names::ensure_future(py)?.call1((coroutine,))?;
    // Nobody awaits it: hooks of the end swallow and log what they raise.
    task.getattr(intern!(py, "done"))?;
    Ok(())
}
