//! Runs the final hooks of a call that was dropped.

use std::task::{Context, Waker};

use futures_util::future::BoxFuture;

use crate::bridge::cleanup::count_in_current_scope;
use crate::bridge::gil;
use crate::bridge::sync::run_in_background;
use turntree_upp::middleware::CleanupExecutor;

/// Runs hooks where the call was dropped. Hooks that have to wait continue as a task of the running event loop, or block
/// this thread if no loop is running.
pub(crate) struct PyCleanupExecutor;

impl CleanupExecutor for PyCleanupExecutor {
    fn execute(&self, mut rest: BoxFuture<'static, ()>) {
        gil::if_held(|py| {
            if rest.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready() {
                return;
            }
            // The run that was dropped waits for its hooks.
            let unended = count_in_current_scope(py, "a hook of the middleware");
            let rest = async move {
                rest.await;
                drop(unended);
            };
            if let Err(error) = run_in_background(py, "on_abort", None, Box::pin(rest)) {
                error.write_unraisable(py, None);
            }
        });
    }
}
