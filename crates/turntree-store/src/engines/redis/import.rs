//! Sessions that are created together.
//!
//! They are written under keys of their own, `prefix:import-ID:…`, and one script gives all of them their final names. The
//! server removes keys that never got there.

use std::sync::Arc;

use redis::RedisError;
use tokio::time::timeout;
use turntree_core::ids::{IdSource as _, RandomIds};

use super::Server;
use super::keys::{self, SessionKeys};
use super::log::replacing;
use crate::batch::{Batch, next_log};
use crate::engine::{Replace, TIMEOUT};
use crate::engines::network::Failure;
use crate::error::StoreError;
use crate::page::Position;

/// After this time, in seconds, the server removes what an interrupted import has written.
const EXPIRES: u64 = 3600;

/// What the script returns when a session is no longer there under its temporary name.
const EXPIRED: &str = "expired";

/// A session whose keys have temporary names.
struct Staged {
    id: Arc<str>,
    temporary: SessionKeys,
    place: String,
}

impl Server {
    /// Creates sessions, all or none. Each step has a limit of time, and not the whole.
    pub(super) async fn create_all(&self, mut batch: Box<dyn Batch>) -> Result<(), Failure> {
        let prefix = format!("{}:import-{}", self.link.prefix(), RandomIds.uuid());
        let mut staged = Vec::new();
        let result = loop {
            let log = match next_log(batch, self.link.name()).await {
                Ok((rest, Some(log))) => {
                    batch = rest;
                    log
                }
                Ok((_, None)) => break self.limited(self.rename(&staged)).await,
                Err(error) => break Err(error.into()),
            };
            staged.push(Staged {
                id: Arc::clone(&log.info.id),
                temporary: SessionKeys::new(&prefix, &log.info.id),
                place: keys::place(&Position::of(&log.info)),
            });
            if let Err(failure) = self.limited(self.stage(&prefix, &log)).await {
                break Err(failure);
            }
        };
        if result.is_err() {
            // An error: the server removes them later.
            let _ = self.limited(self.remove(&staged)).await;
        }
        result
    }

    async fn limited<T>(&self, step: impl Future<Output = Result<T, Failure>> + Send) -> Result<T, Failure> {
        let reason = || format!("no answer within {} s", TIMEOUT.as_secs());
        let store = || Arc::clone(self.link.name());
        let done = timeout(TIMEOUT, step).await;
        done.unwrap_or_else(|_| Err(StoreError::Unavailable { store: store(), reason: reason() }.into()))
    }

    async fn stage(&self, prefix: &str, log: &Replace) -> Result<(), Failure> {
        log.validate()?;
        let keys = SessionKeys::new(prefix, &log.info.id);
        self.write(&log.info.id, &replacing(&self.replace, &keys, log)).await?;
        let mut lease = self.link.get().await?;
        let mut pipe = redis::pipe();
        for key in [&keys.head, &keys.log, &keys.blobs, &keys.index] {
            pipe.cmd("EXPIRE").arg(key).arg(EXPIRES).ignore();
        }
        let result: Result<(), RedisError> = pipe.query_async(&mut lease.connection).await;
        self.link.end(&lease, result)
    }

    /// Gives the keys their final names.
    async fn rename(&self, staged: &[Staged]) -> Result<(), Failure> {
        let mut script = self.create_all.prepare_invoke();
        for session in staged {
            let (from, to) = (&session.temporary, SessionKeys::new(self.link.prefix(), &session.id));
            script.key(&from.head).key(&from.log).key(&from.blobs).key(&from.index);
            script.key(to.head).key(to.log).key(to.blobs).key(to.index);
            script.arg(&*session.id).arg(&session.place);
        }
        let mut lease = self.link.get().await?;
        let result = script.invoke_async(&mut lease.connection).await;
        match self.link.end::<Option<(String, String)>>(&lease, result)? {
            None => Ok(()),
            Some((reason, _)) if reason == EXPIRED => {
                let text = format!("the import took longer than {EXPIRES} s; nothing was imported");
                Err(self.import_failed(text).into())
            }
            Some((_, id)) => {
                let store = Arc::clone(self.link.name());
                Err(StoreError::Exists { store, session: id.into() }.into())
            }
        }
    }

    async fn remove(&self, staged: &[Staged]) -> Result<(), Failure> {
        let mut lease = self.link.get().await?;
        let mut pipe = redis::pipe();
        for Staged { temporary: keys, .. } in staged {
            let command = pipe.cmd("UNLINK");
            command.arg(&keys.head).arg(&keys.log).arg(&keys.blobs).arg(&keys.index).ignore();
        }
        let result: Result<(), RedisError> = pipe.query_async(&mut lease.connection).await;
        self.link.end(&lease, result)
    }

    fn import_failed(&self, reason: String) -> StoreError {
        StoreError::Failed { store: Arc::clone(self.link.name()), reason }
    }
}
