//! The errors of PostgreSQL as errors of stores.

use std::error::Error as _;
use std::sync::Arc;

use tokio_postgres::error::SqlState;

use crate::engines::network::Failure;
use crate::error::StoreError;

/// Converts an error of a statement.
pub(super) fn failure(store: &Arc<str>, error: &tokio_postgres::Error) -> Failure {
    let store = Arc::clone(store);
    let reason = describe(error);
    let Some(code) = error.code() else {
        // Whatever has no code came from the connection, except for values that do not fit.
        let is_value = reason.contains("error serializing") || reason.contains("error deserializing");
        return if is_value {
            StoreError::Failed { store, reason }.into()
        } else {
            Failure { error: StoreError::Unavailable { store, reason }, is_lost: true }
        };
    };
    if is_connection_lost(code) {
        return Failure { error: StoreError::Unavailable { store, reason }, is_lost: true };
    }
    let error = match code.code() {
        // The disk, or the quota of a tablespace, is full.
        "53100" => StoreError::Full { store, reason },
        // A read-only transaction: a replica, or a server that was set so.
        "25006" => StoreError::ReadOnly { store, reason },
        // A statement was cancelled after its time, or waited too long for a lock.
        "57014" | "55P03" => StoreError::Unavailable { store, reason },
        "26000" | "42P05" => {
            let reason = format!(
                "{reason}: a pooler gives the connection to others between transactions; add pooler=transaction to the URL, or \
                 set pool_mode = session of the pooler"
            );
            StoreError::Failed { store, reason }
        }
        _ => StoreError::Failed { store, reason },
    };
    // A prepared statement does not exist any more (a pooler between us and the server), or its tables were changed.
    Failure { error, is_lost: matches!(code.code(), "26000" | "0A000") }
}

/// Converts an error of connecting: nothing was sent.
pub(super) fn connect_error(store: &Arc<str>, error: &tokio_postgres::Error) -> StoreError {
    StoreError::Unavailable { store: Arc::clone(store), reason: describe(error) }
}

/// Returns whether connecting may succeed soon: the server starts, is restarted, or has too many connections.
pub(super) fn is_transient(error: &tokio_postgres::Error) -> bool {
    match error.code() {
        Some(code) => is_connection_lost(code) || *code == SqlState::TOO_MANY_CONNECTIONS,
        // TLS and the configuration fail again; sockets may not.
        None => error
            .source()
            .and_then(|source| source.downcast_ref::<std::io::Error>())
            .is_some_and(|source| source.kind() != std::io::ErrorKind::InvalidData),
    }
}

/// The server stops, starts, or has ended the connection.
fn is_connection_lost(code: &SqlState) -> bool {
    let code = code.code();
    code.starts_with("08") || matches!(code, "57P01" | "57P02" | "57P03" | "57P05" | "25P03")
}

/// The message of an error with its causes. The details of the server are left out: they may quote stored values.
pub(super) fn describe(error: &tokio_postgres::Error) -> String {
    if let Some(error) = error.as_db_error() {
        return format!("{} (SQLSTATE {})", error.message(), error.code().code());
    }
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    text
}
