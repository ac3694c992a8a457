//! The errors of Redis as errors of stores.

use std::sync::Arc;

use redis::{ErrorKind, RedisError, ServerErrorKind};

use crate::engines::network::Failure;
use crate::error::StoreError;

/// Converts an error of a command.
pub(super) fn failure(store: &Arc<str>, error: &RedisError) -> Failure {
    let store = Arc::clone(store);
    let reason = error.to_string();
    if is_lost(error) {
        return Failure { error: StoreError::Unavailable { store, reason }, is_lost: true };
    }
    let error = match (error.kind(), error.code().unwrap_or_default()) {
        (ErrorKind::Server(ServerErrorKind::ReadOnly), _) => StoreError::ReadOnly { store, reason },
        // A write of the server to its disk has failed, so that it refuses to change data.
        (_, "MISCONF") if reason.contains("No space left") => StoreError::Full { store, reason },
        (_, "MISCONF") => StoreError::ReadOnly { store, reason },
        (_, "OOM") => StoreError::Full { store, reason },
        _ if is_temporary(error) => StoreError::Unavailable { store, reason },
        _ => StoreError::Failed { store, reason },
    };
    error.into()
}

/// Converts an error of connecting: nothing was sent.
pub(super) fn connect_error(store: &Arc<str>, error: &RedisError) -> StoreError {
    StoreError::Unavailable { store: Arc::clone(store), reason: error.to_string() }
}

/// Returns whether connecting may succeed soon.
pub(super) fn is_transient(error: &RedisError) -> bool {
    error.is_connection_refusal() || error.is_connection_dropped() || is_temporary(error)
}

/// The connection cannot be used any more; a response that did not come in time may still come.
fn is_lost(error: &RedisError) -> bool {
    error.is_io_error() || error.is_timeout() || error.kind() == ErrorKind::Parse
}

/// The server starts, has lost its primary or its replicas, or runs a long script.
fn is_temporary(error: &RedisError) -> bool {
    let code = error.code().unwrap_or_default();
    matches!(code, "LOADING" | "MASTERDOWN" | "CLUSTERDOWN" | "TRYAGAIN" | "BUSY" | "NOREPLICAS")
}
