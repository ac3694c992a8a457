//! The engine of PostgreSQL, with a real server.

mod faults;
mod schema;
mod urls;

use std::sync::Arc;

use tokio_postgres::{Client, NoTls};
use turntree_core::runtime::{self, Task};
use turntree_store::engine::Engine;
use turntree_store::engines::postgres::{PostgresEngine, PostgresOptions};

use crate::conformance::{conformance, queue_conformance, record_conformance};
use crate::services::{service, unique};
use crate::support::{Fixture, block_on};

conformance!(open);
queue_conformance!(open);
record_conformance!(open);

/// Removes a schema when it is dropped.
pub(crate) struct Schema {
    url: String,
    pub(crate) name: String,
}

impl Schema {
    /// A new name in a database.
    pub(crate) fn new(url: &str) -> Self {
        Self { url: url.to_owned(), name: unique("test") }
    }

    /// Runs statements; tables need the qualifier.
    pub(crate) fn execute(&self, sql: &str) {
        execute(&self.url, sql);
    }
}

impl Drop for Schema {
    fn drop(&mut self) {
        self.execute(&format!("DROP SCHEMA IF EXISTS {} CASCADE", self.name));
    }
}

/// Runs statements on a connection of their own.
pub(crate) fn execute(url: &str, sql: &str) {
    on_client(url, sql, false);
}

/// Begins a transaction with a statement; ends it when it is dropped.
pub(crate) fn begin(url: &str, sql: &str) -> impl Drop {
    struct Transaction(Option<Client>, Option<Task<()>>);
    impl Drop for Transaction {
        fn drop(&mut self) {
            drop(self.0.take());
            block_on(self.1.take().unwrap()).unwrap();
        }
    }
    let (url, sql) = (url.to_owned(), sql.to_owned());
    let begun = runtime::spawn(async move {
        let (client, connection) = tokio_postgres::connect(&url, NoTls).await.unwrap();
        let task = runtime::spawn(async move { connection.await.unwrap() });
        client.batch_execute(&format!("BEGIN; {sql}")).await.unwrap();
        Transaction(Some(client), Some(task))
    });
    block_on(begun).unwrap()
}

/// Returns the text that a statement returns.
pub(crate) fn query_text(url: &str, sql: &str) -> String {
    on_client(url, sql, true)
}

fn on_client(url: &str, sql: &str, has_row: bool) -> String {
    let (url, sql) = (url.to_owned(), sql.to_owned());
    let task = runtime::spawn(async move {
        let (client, connection) = tokio_postgres::connect(&url, NoTls).await.unwrap();
        let connection = runtime::spawn(connection);
        let text = if has_row {
            client.query_one(&sql, &[]).await.unwrap().get(0)
        } else {
            client.batch_execute(&sql).await.unwrap();
            String::new()
        };
        drop(client);
        connection.await.unwrap().unwrap();
        text
    });
    block_on(task).unwrap()
}

pub(crate) fn options(schema: &str) -> PostgresOptions {
    PostgresOptions { schema: Some(schema.to_owned()), ..PostgresOptions::default() }
}

pub(crate) fn engine(url: &str, schema: &str) -> Arc<PostgresEngine> {
    Arc::new(PostgresEngine::connect(url, options(schema)).unwrap())
}

fn open() -> Option<Fixture> {
    let url = service("TURNTREE_TEST_POSTGRES")?;
    let schema = Schema::new(&url);
    let name = schema.name.clone();
    Some(Fixture {
        engine: engine(&url, &name),
        reopen: Some(Box::new(move || engine(&url, &name) as Arc<dyn Engine>)),
        cleanup: Some(Box::new(schema)),
    })
}
