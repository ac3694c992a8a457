//! Who runs the last hooks of a call that was dropped.

use std::task::{Context, Waker};

use futures_util::future::BoxFuture;

use crate::bridge::gil;
use crate::bridge::sync::run_in_background;
use turntree_upp::middleware::CleanupExecutor;

/// Hooks that need no waiting run at once, where the call was dropped. What waits goes on as a task of the event loop
/// that runs there; without one it is waited for.
pub(crate) struct PyCleanupExecutor;

impl CleanupExecutor for PyCleanupExecutor {
    fn execute(&self, mut rest: BoxFuture<'static, ()>) {
        gil::if_held(|py| {
            if rest.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending()
                && let Err(error) = run_in_background(py, "on_abort", rest)
            {
                error.write_unraisable(py, None);
            }
        });
    }
}
