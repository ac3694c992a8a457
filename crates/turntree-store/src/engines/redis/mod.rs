//! Stores logs in Redis or Valkey.
//!
//! How durable an acknowledged write is, the server decides: with `appendonly yes` and `appendfsync always` it is on disk.
//! With `appendfsync everysec`, a crash of the machine may lose the writes of the last second; without `appendonly`, all
//! writes since the last snapshot. A failover loses what the replica did not have yet. `maxmemory-policy` must be
//! `noeviction`: other policies remove sessions when the memory is full.
//!
//! | file | content |
//! |---|---|
//! | `url` | the URL of a server |
//! | `connection` | the connection, TLS, reconnecting |
//! | `keys` | the names of keys; the format |
//! | `scripts` | the scripts that change a session in one step |
//! | `log` | reads and writes of one session |
//! | `import` | sessions that are created together |
//! | `list` | the list of sessions; the check |
//! | `error` | errors of Redis as errors of stores |

mod connection;
mod error;
mod import;
mod keys;
mod list;
mod log;
mod url;

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use redis::Script;

use self::connection::Link;
use super::network::{Failure, Operations, twice};
use crate::batch::Batch;
use crate::digest::Digest;
use crate::engine::{
    Append, Engine, EngineFuture, Head, Log, Replace, SessionPage, SessionQuery, StoreIssue, TIMEOUT,
};
use crate::error::StoreError;

/// The settings of a [`RedisEngine`].
#[derive(Debug, Clone)]
pub struct RedisOptions {
    /// How long an operation waits for a connection to the server, 10 s by default and 60 s at most.
    pub connect_timeout: Duration,
    /// What the names of all keys start with: by default the option `prefix` of the URL, or else `turntree`. Stores with
    /// different prefixes share nothing.
    pub prefix: Option<String>,
}

impl Default for RedisOptions {
    fn default() -> Self {
        Self { connect_timeout: Duration::from_secs(10), prefix: None }
    }
}

/// A store in a Redis server. All operations share one connection.
///
/// All of its I/O runs on the runtime of [`turntree_core::runtime`]; futures may be polled on any thread. After a fork,
/// the child has a connection of its own.
#[derive(Debug)]
pub struct RedisEngine {
    operations: Operations,
    server: Arc<Server>,
}

/// The connection and the scripts. Each operation on the runtime shares it.
struct Server {
    link: Link,
    read: Script,
    append: Script,
    replace: Script,
    delete: Script,
    create_all: Script,
}

impl RedisEngine {
    /// Makes a store of `redis://user:password@host:port/database`, or `rediss://` for TLS. The first operation connects.
    ///
    /// The options of the URL are `prefix`, `ssl_ca_certs` (a PEM file with the authorities to trust instead of the
    /// system's) and `protocol` (`resp3`).
    ///
    /// # Errors
    /// [`StoreError::Invalid`] if the URL or an option is invalid; its message contains no part of the URL.
    pub fn connect(url: &str, options: RedisOptions) -> Result<Self, StoreError> {
        let mut target = url::parse(url)?;
        if let Some(prefix) = options.prefix {
            url::check_prefix(&prefix)?;
            target.prefix = prefix;
        }
        let operations = Operations::new(Arc::clone(&target.name));
        let server = Server {
            link: Link::new(target, options.connect_timeout.min(TIMEOUT)),
            read: Script::new(include_str!("scripts/read.lua")),
            append: Script::new(include_str!("scripts/append.lua")),
            replace: Script::new(include_str!("scripts/replace.lua")),
            delete: Script::new(include_str!("scripts/delete.lua")),
            create_all: Script::new(include_str!("scripts/create_all.lua")),
        };
        Ok(Self { operations, server: Arc::new(server) })
    }

    fn run<T, F>(&self, operation: impl FnOnce(Arc<Server>) -> F) -> EngineFuture<'_, T>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, Failure>> + Send + 'static,
    {
        let operation = operation(Arc::clone(&self.server));
        self.operations.run(async move { operation.await.map_err(StoreError::from) })
    }
}

impl Engine for RedisEngine {
    fn name(&self) -> Arc<str> {
        Arc::clone(self.server.link.name())
    }

    fn schema(&self) -> Option<u64> {
        Some(connection::FORMAT)
    }

    fn append(&self, append: Append) -> EngineFuture<'_, ()> {
        self.run(|server| async move { server.append(append).await })
    }

    fn replace(&self, replace: Replace) -> EngineFuture<'_, ()> {
        self.run(|server| async move { server.replace(replace).await })
    }

    fn create_all(&self, batch: Box<dyn Batch>) -> EngineFuture<'_, ()> {
        let server = Arc::clone(&self.server);
        self.operations.run_long(async move { server.create_all(batch).await.map_err(StoreError::from) })
    }

    fn read(&self, session: &str) -> EngineFuture<'_, Option<Log>> {
        let session = session.to_owned();
        self.run(|server| async move { twice(|| server.read(&session)).await })
    }

    fn blobs(&self, session: &str, addresses: Vec<Digest>) -> EngineFuture<'_, Vec<Option<Bytes>>> {
        let session = session.to_owned();
        self.run(|server| async move { twice(|| server.blobs(&session, &addresses)).await })
    }

    fn head(&self, session: &str) -> EngineFuture<'_, Option<Head>> {
        let session = session.to_owned();
        self.run(|server| async move { twice(|| server.head(&session)).await })
    }

    fn delete(&self, session: &str) -> EngineFuture<'_, bool> {
        let session = session.to_owned();
        self.run(|server| async move { server.delete(&session).await })
    }

    fn sessions(&self, query: SessionQuery) -> EngineFuture<'_, SessionPage> {
        self.run(|server| async move { twice(|| server.sessions(&query)).await })
    }

    fn check(&self) -> EngineFuture<'_, Vec<StoreIssue>> {
        self.run(|server| async move { twice(|| server.check()).await })
    }

    fn close(&self) -> EngineFuture<'_, ()> {
        Box::pin(async move {
            self.operations.close().await;
            self.server.link.close();
            Ok(())
        })
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Server").field("link", &self.link).finish_non_exhaustive()
    }
}
