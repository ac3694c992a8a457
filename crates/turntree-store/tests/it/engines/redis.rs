//! The engine of Redis, with a real server.

mod faults;
mod keys;
mod urls;

use std::sync::Arc;
use std::time::Duration;

use redis::{AsyncConnectionConfig, FromRedisValue};
use turntree_core::runtime;
use turntree_store::engine::Engine;
use turntree_store::engines::redis::{RedisEngine, RedisOptions};

use crate::conformance::conformance;
use crate::services::{service, unique};
use crate::support::{Fixture, block_on};

conformance!(open);

/// What the keys of a test start with; they are removed when it is dropped.
pub(crate) struct Prefix {
    url: String,
    pub(crate) name: String,
}

impl Prefix {
    /// A new name on a server.
    pub(crate) fn new(url: &str) -> Self {
        Self { url: url.to_owned(), name: unique("test") }
    }

    /// Runs a command: words, separated by spaces, in which `{p}` is the prefix.
    pub(crate) fn command<T: FromRedisValue + Send + 'static>(&self, command: &str) -> T {
        let words: Vec<Vec<u8>> =
            command.split(' ').map(|word| word.replace("{p}", &self.name).into_bytes()).collect();
        call(&self.url, words)
    }

    /// The keys of the store.
    pub(crate) fn keys(&self) -> Vec<String> {
        let mut keys: Vec<String> = self.command("KEYS {p}:*");
        keys.sort();
        keys
    }
}

impl Drop for Prefix {
    fn drop(&mut self) {
        for key in self.keys() {
            call::<u64>(&self.url, vec![b"DEL".to_vec(), key.into_bytes()]);
        }
    }
}

/// How long a connection and a reply may take: the limits of the client, 1 s and 0.5 s, are those of a machine that never
/// stalls.
const PATIENCE: Duration = Duration::from_secs(20);

/// Runs a command on a connection of its own.
pub(crate) fn call<T: FromRedisValue + Send + 'static>(url: &str, words: Vec<Vec<u8>>) -> T {
    let client = redis::Client::open(url).unwrap();
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(Some(PATIENCE))
        .set_response_timeout(Some(PATIENCE));
    let task = runtime::spawn(async move {
        let mut connection = client.get_multiplexed_async_connection_with_config(&config).await.unwrap();
        let (name, arguments) = words.split_first().unwrap();
        let mut command = redis::cmd(str::from_utf8(name).unwrap());
        command.arg(arguments).query_async(&mut connection).await.unwrap()
    });
    block_on(task).unwrap()
}

pub(crate) fn options(prefix: &str) -> RedisOptions {
    RedisOptions { prefix: Some(prefix.to_owned()), ..RedisOptions::default() }
}

pub(crate) fn engine(url: &str, prefix: &str) -> Arc<RedisEngine> {
    Arc::new(RedisEngine::connect(url, options(prefix)).unwrap())
}

fn open() -> Option<Fixture> {
    let url = service("TURNTREE_TEST_REDIS")?;
    let prefix = Prefix::new(&url);
    let name = prefix.name.clone();
    Some(Fixture {
        engine: engine(&url, &name),
        reopen: Some(Box::new(move || engine(&url, &name) as Arc<dyn Engine>)),
        cleanup: Some(Box::new(prefix)),
    })
}
