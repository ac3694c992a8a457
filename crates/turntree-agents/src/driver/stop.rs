//! Why a run stops before its end: it was aborted, its time is over, or a limit is reached.

use std::pin::pin;

use futures_util::future::{BoxFuture, Either, select};
use tokio_util::sync::CancellationToken;

use crate::types::limits::LimitError;
use turntree_upp::{ErrorCode, UppError};

/// Why a run stops before its end.
pub(crate) enum Stop {
    Aborted,
    TimedOut,
}

/// Waits for a reason to stop.
///
/// Boxed in a function of its own, so that nested agents use little of the stack.
pub(crate) fn stop<'a>(
    cancellation: Option<&'a CancellationToken>,
    timer: Option<BoxFuture<'static, ()>>,
) -> BoxFuture<'a, Stop> {
    Box::pin(wait_for_stop(cancellation, timer))
}

async fn wait_for_stop(
    cancellation: Option<&CancellationToken>,
    timer: Option<BoxFuture<'static, ()>>,
) -> Stop {
    match (cancellation, timer) {
        (Some(cancellation), Some(timer)) => match select(pin!(cancellation.cancelled()), timer).await {
            Either::Left(_) => Stop::Aborted,
            Either::Right(_) => Stop::TimedOut,
        },
        (Some(cancellation), None) => {
            cancellation.cancelled().await;
            Stop::Aborted
        }
        (None, Some(timer)) => {
            timer.await;
            Stop::TimedOut
        }
        (None, None) => std::future::pending().await,
    }
}

/// The error of a run that has reached a limit.
pub(super) fn limit_error(error: LimitError, provider: &str) -> UppError {
    match error {
        LimitError::Reached { .. } => {
            UppError::new(ErrorCode::QuotaExceeded, provider, error.to_string()).with_cause(error)
        }
        LimitError::Unpriced { .. } => UppError::invalid_request(provider, error.to_string()),
    }
}
