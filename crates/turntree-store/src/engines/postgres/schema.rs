//! The tables and their versions.
//!
//! `turntree_schema` has one row with the version. A change of the tables is a new element of [`MIGRATIONS`].

use std::sync::Arc;

use tokio_postgres::error::SqlState;

use super::connection::Connection;
use super::error::failure;
use super::url::Target;
use crate::engines::network::Failure;
use crate::error::StoreError;

/// The statements that make each version from the one before it. `{p}` is the qualifier of the tables.
///
/// - The texts are compared and sorted by bytes, whatever the locale of the database.
/// - `data` of blobs is not compressed again: the writer compresses what it can.
/// - `turntree_leases`: a released lease has no worker; its token stays, so that the next one is greater.
/// - The list of sessions is read through one index; the filters by agent and status are applied on the way.
const MIGRATIONS: [&str; 3] = [
    "
CREATE TABLE {p}turntree_sessions (
    key bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id text COLLATE \"C\" NOT NULL UNIQUE,
    agent text COLLATE \"C\" NOT NULL,
    status text COLLATE \"C\" NOT NULL CHECK (status IN ('idle', 'unfinished', 'waiting')),
    turns bigint NOT NULL,
    nodes bigint NOT NULL,
    bytes bigint NOT NULL,
    updated_at bigint NOT NULL,
    revision bigint NOT NULL,
    digest bytea NOT NULL,
    fence bigint
);
CREATE INDEX turntree_sessions_updated ON {p}turntree_sessions (updated_at DESC, id);
CREATE TABLE {p}turntree_entries (
    session bigint NOT NULL REFERENCES {p}turntree_sessions (key) ON DELETE CASCADE,
    revision bigint NOT NULL,
    digest bytea NOT NULL,
    data bytea NOT NULL,
    PRIMARY KEY (session, revision)
);
CREATE TABLE {p}turntree_blobs (
    session bigint NOT NULL REFERENCES {p}turntree_sessions (key) ON DELETE CASCADE,
    address bytea NOT NULL,
    data bytea NOT NULL,
    PRIMARY KEY (session, address)
);
ALTER TABLE {p}turntree_blobs ALTER COLUMN data SET STORAGE EXTERNAL;
",
    "
CREATE TABLE {p}turntree_runs (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id text COLLATE \"C\" NOT NULL UNIQUE,
    session text COLLATE \"C\" NOT NULL,
    input text,
    agent text COLLATE \"C\",
    status text COLLATE \"C\" NOT NULL DEFAULT 'queued'
        CHECK (status IN ('queued', 'running', 'waiting', 'done', 'failed')),
    is_active boolean NOT NULL DEFAULT true,
    is_started boolean NOT NULL DEFAULT false,
    priority integer NOT NULL,
    not_before bigint NOT NULL,
    retry_at bigint NOT NULL DEFAULT 0,
    attempts integer NOT NULL DEFAULT 0,
    failures integer NOT NULL DEFAULT 0,
    seen bigint NOT NULL DEFAULT 0,
    error text,
    turn text,
    created_at bigint NOT NULL,
    updated_at bigint NOT NULL
);
CREATE INDEX turntree_runs_session ON {p}turntree_runs (session, number) WHERE is_active;
CREATE INDEX turntree_runs_priority ON {p}turntree_runs (priority DESC, number) WHERE is_active;
CREATE TABLE {p}turntree_leases (
    session text COLLATE \"C\" PRIMARY KEY,
    token bigint NOT NULL,
    worker text,
    expires bigint NOT NULL
);
",
    "
CREATE TABLE {p}turntree_records (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    collection text COLLATE \"C\" NOT NULL,
    key text COLLATE \"C\" NOT NULL,
    version bigint NOT NULL,
    data bytea NOT NULL,
    expires_at bigint,
    UNIQUE (collection, key)
);
CREATE INDEX turntree_records_expiry ON {p}turntree_records (collection, expires_at) WHERE expires_at IS NOT NULL;
CREATE TABLE {p}turntree_record_entries (
    record bigint NOT NULL REFERENCES {p}turntree_records (number) ON DELETE CASCADE,
    version bigint NOT NULL,
    data bytea NOT NULL,
    PRIMARY KEY (record, version)
);
",
];

/// The version that this code reads and writes: the number of migrations.
pub(super) const VERSION: i64 = 3;

/// The key of the advisory lock that one process holds while it makes or changes tables: "turntree" in ASCII.
const LOCK: i64 = i64::from_be_bytes(*b"turntree");

/// Returns the qualifier of tables: nothing, or a quoted schema with a period.
pub(super) fn qualifier(schema: Option<&str>) -> String {
    schema.map_or_else(String::new, |schema| format!("\"{}\".", schema.replace('"', "\"\"")))
}

/// Makes the tables, or brings them to this version. Writes nothing if they are of this version.
pub(super) async fn ensure(connection: &mut Connection, target: &Target) -> Result<(), Failure> {
    let store = &target.name;
    let qualifier = qualifier(target.schema.as_deref());
    if version(connection, store, &qualifier).await? == VERSION {
        return Ok(());
    }
    let result = migrate(connection, target, &qualifier).await;
    if result.as_ref().is_err_and(|failure| !failure.is_lost) {
        // The error that is reported is the first one.
        let _ = connection.client.batch_execute("ROLLBACK").await;
    }
    result
}

async fn migrate(connection: &mut Connection, target: &Target, qualifier: &str) -> Result<(), Failure> {
    let store = &target.name;
    check_encoding(connection, store).await?;
    run(connection, store, &format!("BEGIN; SELECT pg_advisory_xact_lock({LOCK})")).await?;
    if let Some(schema) = &target.schema {
        let found = connection.query_opt("SELECT 1 FROM pg_namespace WHERE nspname = $1", &[schema]).await;
        // `IF NOT EXISTS` would demand the privilege to create one that exists.
        if found.map_err(|error| failure(store, &error))?.is_none() {
            run(connection, store, &format!("CREATE SCHEMA {}", qualifier.trim_end_matches('.'))).await?;
        }
    }
    let found = version(connection, store, qualifier).await?;
    if found == 0 {
        let table = format!(
            "CREATE TABLE {qualifier}turntree_schema (version bigint NOT NULL);
             INSERT INTO {qualifier}turntree_schema VALUES (0)"
        );
        run(connection, store, &table).await?;
    }
    for migration in MIGRATIONS.iter().skip(usize::try_from(found).unwrap_or_default()) {
        run(connection, store, &migration.replace("{p}", qualifier)).await?;
    }
    run(connection, store, &format!("UPDATE {qualifier}turntree_schema SET version = {VERSION}; COMMIT"))
        .await
}

/// Reads the version of the tables: 0 if there are none.
async fn version(connection: &mut Connection, store: &Arc<str>, qualifier: &str) -> Result<i64, Failure> {
    let sql = format!("SELECT version FROM {qualifier}turntree_schema");
    let table = format!("{qualifier}turntree_schema");
    let exists = connection.query_one("SELECT to_regclass($1) IS NOT NULL", &[&table]).await;
    let exists: bool = match exists {
        Ok(row) => row.try_get(0).map_err(|error| failure(store, &error))?,
        // The schema does not exist.
        Err(error) if error.code() == Some(&SqlState::INVALID_SCHEMA_NAME) => false,
        Err(error) => return Err(failure(store, &error)),
    };
    if !exists {
        return Ok(0);
    }
    let row = connection.query_opt(&sql, &[]).await.map_err(|error| failure(store, &error))?;
    let Some(row) = row else {
        let reason = format!("the table {table} has no version; restore it from a backup");
        return Err(StoreError::Failed { store: Arc::clone(store), reason }.into());
    };
    let found: i64 = row.try_get(0).map_err(|error| failure(store, &error))?;
    if found > VERSION {
        return Err(StoreError::NewerSchema {
            store: Arc::clone(store),
            found: found.unsigned_abs(),
            supported: VERSION.unsigned_abs(),
        }
        .into());
    }
    Ok(found.max(0))
}

/// Ids and names are Unicode.
async fn check_encoding(connection: &mut Connection, store: &Arc<str>) -> Result<(), Failure> {
    let row = connection.query_one("SELECT current_setting('server_encoding')", &[]).await;
    let encoding = row.and_then(|row| row.try_get::<_, String>(0)).map_err(|error| failure(store, &error))?;
    if encoding == "UTF8" {
        return Ok(());
    }
    let reason = format!("the encoding of the database is {encoding}; create one with ENCODING 'UTF8'");
    Err(StoreError::Failed { store: Arc::clone(store), reason }.into())
}

async fn run(connection: &Connection, store: &Arc<str>, sql: &str) -> Result<(), Failure> {
    connection.client.batch_execute(sql).await.map_err(|error| failure(store, &error))
}
