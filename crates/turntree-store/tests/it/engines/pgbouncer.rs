//! The engine of PostgreSQL through `PgBouncer` in transaction mode, with fewer connections to the server than the engine has
//! to the pooler: consecutive statements meet processes that others have used.

use std::sync::Arc;

use tokio_postgres::{Client, NoTls, SimpleQueryMessage};
use turntree_core::runtime;
use turntree_store::engine::{Engine, Synchronous};
use turntree_store::engines::postgres::{PostgresEngine, PostgresOptions};
use turntree_store::error::StoreError;

use super::postgres::{Schema, engine, execute, options};
use crate::conformance::{conformance, queue_conformance, record_conformance};
use crate::services::{service, unique};
use crate::support::{Fixture, append_after, block_on, read_texts, write};

conformance!(open);
queue_conformance!(open);
record_conformance!(open);

/// The URL of the pooler, and of the server behind it.
fn urls() -> Option<(String, String)> {
    Some((service("TURNTREE_TEST_PGBOUNCER")?, service("TURNTREE_TEST_POSTGRES")?))
}

fn open() -> Option<Fixture> {
    let (url, direct) = urls()?;
    let schema = Schema::new(&direct);
    let name = schema.name.clone();
    Some(Fixture {
        engine: engine(&url, &name),
        reopen: Some(Box::new(move || engine(&url, &name) as Arc<dyn Engine>)),
        cleanup: Some(Box::new(schema)),
    })
}

/// The values that a statement returns on each of the processes that the pooler has: their transactions overlap.
fn on_each_process(url: &str, sql: &str) -> Vec<String> {
    let (url, sql) = (url.to_owned(), sql.to_owned());
    let task = runtime::spawn(async move {
        let mut clients: Vec<Client> = Vec::new();
        let mut values = Vec::new();
        for _ in 0..3 {
            let (client, connection) = tokio_postgres::connect(&url, NoTls).await.unwrap();
            runtime::spawn(connection).detach();
            client.batch_execute("BEGIN").await.unwrap();
            for message in client.simple_query(&sql).await.unwrap() {
                if let SimpleQueryMessage::Row(row) = message {
                    values.push(row.get(0).unwrap_or_default().to_owned());
                }
            }
            clients.push(client);
        }
        values
    });
    block_on(task).unwrap()
}

#[test]
fn nothing_is_left_on_the_connections_of_a_pooler() {
    let Some((url, direct)) = urls() else { return };
    // A database of its own has connections of its own in the pooler.
    let database = Database::new(&direct);
    let url = database.of(&url);
    let engine = PostgresEngine::connect(&url, PostgresOptions::default()).unwrap();
    for number in 0..20 {
        block_on(write(&engine, &format!("s{number}"), &[b"1", b"2"]));
    }
    block_on(engine.queue().unwrap().wait(std::time::Duration::from_millis(1))).unwrap();
    block_on(engine.close()).unwrap();

    let sql = "SELECT current_setting('statement_timeout') || ' ' || (SELECT count(*) FROM pg_prepared_statements) \
         || ' ' || (SELECT count(*) FROM pg_listening_channels())";
    assert_eq!(on_each_process(&url, sql), ["0 0 0", "0 0 0", "0 0 0"]);
}

#[test]
fn a_setting_that_writes_need_and_that_the_role_does_not_have_is_named() {
    let Some((url, direct)) = urls() else { return };
    for (setting, name) in [
        ("synchronous_commit = off", "synchronous_commit = on"),
        (
            "default_transaction_isolation = 'serializable'",
            "default_transaction_isolation = 'read committed'",
        ),
    ] {
        let database = Database::new(&direct);
        execute(&direct, &format!("ALTER DATABASE {} SET {setting}", database.name));

        let refused = PostgresEngine::connect(&database.of(&url), PostgresOptions::default()).unwrap();
        let error = block_on(refused.append(append_after(None, "s", b"1"))).unwrap_err();
        assert!(matches!(error, StoreError::Failed { .. }), "{error:?}");
        assert!(error.to_string().contains(name) && error.to_string().contains("pooler"), "{error}");

        // A connection without a pooler makes the setting itself; it is known to be one with TLS, and without.
        for mode in ["disable", "require"] {
            let own = format!("{}?sslmode={mode}", database.of(&direct));
            let own = PostgresEngine::connect(&own, PostgresOptions::default()).unwrap();
            block_on(write(&own, mode, &[b"1"]));
            block_on(own.close()).unwrap();
        }
    }
}

#[test]
fn a_store_that_does_not_wait_for_the_disk_needs_no_setting() {
    let Some((url, direct)) = urls() else { return };
    let database = Database::new(&direct);
    execute(&direct, &format!("ALTER DATABASE {} SET synchronous_commit = off", database.name));

    let options = PostgresOptions { synchronous: Synchronous::Normal, ..PostgresOptions::default() };
    let engine = PostgresEngine::connect(&database.of(&url), options).unwrap();

    block_on(write(&engine, "s", &[b"1"]));
    assert_eq!(block_on(read_texts(&engine, "s")).unwrap(), ["1"]);
    block_on(engine.close()).unwrap();
}

#[test]
fn the_url_may_say_what_the_pooler_does() {
    let Some((_, direct)) = urls() else { return };
    for pooler in ["session", "transaction"] {
        let schema = Schema::new(&direct);
        let url = format!("{direct}?pooler={pooler}");
        let engine = PostgresEngine::connect(&url, options(&schema.name)).unwrap();

        block_on(write(&engine, "s", &[b"1", b"2"]));

        assert_eq!(block_on(read_texts(&engine, "s")).unwrap(), ["1", "2"]);
    }
}

/// A database of one test.
struct Database {
    server: String,
    name: String,
}

impl Database {
    fn new(server: &str) -> Self {
        let database = Self { server: server.to_owned(), name: unique("pooled") };
        execute(server, &format!("CREATE DATABASE {}", database.name));
        database
    }

    /// The URL of this database, from that of another one.
    fn of(&self, url: &str) -> String {
        let (server, _) = url.rsplit_once('/').unwrap();
        format!("{server}/{}", self.name)
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        execute(&self.server, &format!("DROP DATABASE {} WITH (FORCE)", self.name));
    }
}
