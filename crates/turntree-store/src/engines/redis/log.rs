//! Reads and writes of one session.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use redis::{Script, ScriptInvocation};
use turntree_core::time::Timestamp;

use super::Server;
use super::keys::{self, SessionKeys};
use crate::digest::Digest;
use crate::engine::{Append, Blob, Entry, Head, Log, Replace, SessionInfo, SessionStatus};
use crate::engines::network::Failure;
use crate::error::StoreError;
use crate::page::Position;

/// The length of the digest before the data of an entry.
const DIGEST: usize = 32;

/// The names of the fields of a head that [`fields`] returns.
pub(super) const INFO: [&str; 7] = ["id", "agent", "status", "turns", "nodes", "bytes", "updated_at"];

/// The values of the fields in [`INFO`], the missing ones included.
pub(super) type Fields = [Option<Vec<u8>>; 7];

/// What a script that writes returns.
const WRITTEN: u8 = 0;
const FENCED: u8 = 1;
const CHANGED: u8 = 2;

/// The reply to `HGETALL`: field names and values.
type Hash = HashMap<String, Vec<u8>>;

impl Server {
    pub(super) async fn append(&self, append: Append) -> Result<(), Failure> {
        let id = &append.info.id;
        let revision = append.expected.map_or(0, |head| head.revision).saturating_add(1);
        let keys = SessionKeys::new(self.link.prefix(), id);
        let mut script = self.append.prepare_invoke();
        add_keys(&mut script, &keys);
        add_expected(&mut script, append.expected);
        script.arg(append.fence.map_or_else(String::new, |fence| fence.to_string()));
        script.arg(packed(&append.entry));
        script.arg(keys::place(&Position::of(&append.info)));
        add_fields(&mut script, &append.info, revision, append.entry.digest);
        add_blobs(&mut script, &append.blobs);
        self.write(id, &script).await
    }

    pub(super) async fn replace(&self, replace: Replace) -> Result<(), Failure> {
        replace.validate()?;
        let keys = SessionKeys::new(self.link.prefix(), &replace.info.id);
        self.write(&replace.info.id, &replacing(&self.replace, &keys, &replace)).await
    }

    /// Runs a script that writes.
    pub(super) async fn write(&self, id: &Arc<str>, script: &ScriptInvocation<'_>) -> Result<(), Failure> {
        let mut lease = self.link.get().await?;
        let result = script.invoke_async(&mut lease.connection).await;
        let session = Arc::clone(id);
        match self.link.end::<u8>(&lease, result)? {
            WRITTEN => Ok(()),
            FENCED => Err(StoreError::Fenced { session }.into()),
            refused => Err(StoreError::Conflict { session, deleted: refused != CHANGED }.into()),
        }
    }

    pub(super) async fn read(&self, session: &str) -> Result<Option<Log>, Failure> {
        let keys = SessionKeys::new(self.link.prefix(), session);
        let mut lease = self.link.get().await?;
        let mut script = self.read.prepare_invoke();
        script.key(&keys.head).key(&keys.log);
        let result = script.invoke_async(&mut lease.connection).await;
        let (mut head, entries): (Hash, Vec<Vec<u8>>) = self.link.end(&lease, result)?;
        if head.is_empty() && entries.is_empty() {
            return Ok(None);
        }
        let fields = INFO.map(|name| head.remove(name));
        let info = self.info_of(session, &fields)?;
        let head = self.head_of(session, head.get("revision"), head.get("digest"))?;
        let entries: Result<Vec<Entry>, StoreError> =
            entries.into_iter().map(|entry| self.unpacked(session, entry)).collect();
        let log = Log { revision: head.revision, entries: entries?, info };
        if log.head() != Some(head) {
            return Err(self.corrupt(session, "the last entry is not the one that its head names").into());
        }
        Ok(Some(log))
    }

    pub(super) async fn blobs(
        &self,
        session: &str,
        addresses: &[Digest],
    ) -> Result<Vec<Option<Bytes>>, Failure> {
        if addresses.is_empty() {
            return Ok(Vec::new());
        }
        let mut lease = self.link.get().await?;
        let mut command = redis::cmd("HMGET");
        command.arg(SessionKeys::new(self.link.prefix(), session).blobs);
        for address in addresses {
            command.arg(&address.0);
        }
        let result = command.query_async(&mut lease.connection).await;
        let blobs: Vec<Option<Vec<u8>>> = self.link.end(&lease, result)?;
        Ok(blobs.into_iter().map(|blob| blob.map(Bytes::from)).collect())
    }

    pub(super) async fn head(&self, session: &str) -> Result<Option<Head>, Failure> {
        let mut lease = self.link.get().await?;
        let mut command = redis::cmd("HMGET");
        command.arg(SessionKeys::new(self.link.prefix(), session).head).arg("revision").arg("digest");
        let result = command.query_async(&mut lease.connection).await;
        match self.link.end::<(Option<Vec<u8>>, Option<Vec<u8>>)>(&lease, result)? {
            (None, None) => Ok(None),
            (revision, digest) => Ok(Some(self.head_of(session, revision.as_ref(), digest.as_ref())?)),
        }
    }

    pub(super) async fn delete(&self, session: &str) -> Result<bool, Failure> {
        let mut lease = self.link.get().await?;
        let mut script = self.delete.prepare_invoke();
        add_keys(&mut script, &SessionKeys::new(self.link.prefix(), session));
        let result = script.invoke_async(&mut lease.connection).await;
        self.link.end(&lease, result)
    }

    fn head_of(
        &self,
        session: &str,
        revision: Option<&Vec<u8>>,
        digest: Option<&Vec<u8>>,
    ) -> Result<Head, StoreError> {
        let revision = revision.and_then(|revision| number(revision));
        let digest = digest.and_then(|digest| Digest::from_slice(digest));
        match (revision, digest) {
            (Some(revision), Some(digest)) => Ok(Head { revision, digest }),
            _ => Err(self.corrupt(session, "its head has no revision or no digest")),
        }
    }

    /// Reads the fields of a head.
    pub(super) fn info_of(&self, session: &str, fields: &Fields) -> Result<SessionInfo, StoreError> {
        let [_, agent, status, turns, nodes, bytes, updated_at] = fields.each_ref().map(Option::as_deref);
        let text =
            |value: Option<&[u8]>| value.and_then(|value| str::from_utf8(value).ok().map(str::to_owned));
        let status = SessionStatus::ALL.into_iter().find(|value| Some(value.as_str().as_bytes()) == status);
        let info = || {
            Some(SessionInfo {
                id: session.into(),
                agent: text(agent)?.into(),
                status: status?,
                turns: number(turns?)?,
                nodes: number(nodes?)?,
                bytes: number(bytes?)?,
                updated_at: Timestamp::from_microseconds(number(updated_at?)?),
            })
        };
        info().ok_or_else(|| self.corrupt(session, "a field of its head is missing or invalid"))
    }

    fn unpacked(&self, session: &str, entry: Vec<u8>) -> Result<Entry, StoreError> {
        let entry = Bytes::from(entry);
        let digest = entry.get(..DIGEST).and_then(Digest::from_slice);
        let digest = digest.ok_or_else(|| self.corrupt(session, "an entry is shorter than its digest"))?;
        Ok(Entry { digest, data: entry.slice(DIGEST..) })
    }

    pub(super) fn corrupt(&self, session: &str, reason: &str) -> StoreError {
        let store = Arc::clone(self.link.name());
        StoreError::Corrupt { store, session: session.into(), reason: reason.to_owned() }
    }
}

/// The call of the script that replaces a log.
pub(super) fn replacing<'s>(script: &'s Script, keys: &SessionKeys, log: &Replace) -> ScriptInvocation<'s> {
    let digest = log.entries.last().map(|last| last.digest).unwrap_or_default();
    let mut script = script.prepare_invoke();
    add_keys(&mut script, keys);
    add_expected(&mut script, log.expected);
    script.arg(keys::place(&Position::of(&log.info)));
    add_fields(&mut script, &log.info, log.revision, digest);
    script.arg(log.entries.len());
    for entry in &log.entries {
        script.arg(packed(entry));
    }
    add_blobs(&mut script, &log.blobs);
    script
}

fn number<T: std::str::FromStr>(value: &[u8]) -> Option<T> {
    str::from_utf8(value).ok()?.parse().ok()
}

/// The digest and the data of an entry.
fn packed(entry: &Entry) -> Vec<u8> {
    let mut packed = Vec::with_capacity(DIGEST + entry.data.len());
    packed.extend_from_slice(&entry.digest.0);
    packed.extend_from_slice(&entry.data);
    packed
}

fn add_keys(script: &mut ScriptInvocation<'_>, keys: &SessionKeys) {
    script.key(&keys.head).key(&keys.log).key(&keys.blobs).key(&keys.index);
}

fn add_expected(script: &mut ScriptInvocation<'_>, expected: Option<Head>) {
    match expected {
        Some(head) => script.arg(head.revision).arg(head.digest.0.as_slice()),
        None => script.arg("").arg(""),
    };
}

/// Adds the number of fields, then their names and values.
fn add_fields(script: &mut ScriptInvocation<'_>, info: &SessionInfo, revision: u64, digest: Digest) {
    script.arg(INFO.len() + 2).arg("revision").arg(revision).arg("digest").arg(digest.0.as_slice());
    script.arg("id").arg(&*info.id).arg("agent").arg(&*info.agent).arg("status").arg(info.status.as_str());
    script.arg("turns").arg(info.turns).arg("nodes").arg(info.nodes).arg("bytes").arg(info.bytes);
    script.arg("updated_at").arg(info.updated_at.microseconds());
}

fn add_blobs(script: &mut ScriptInvocation<'_>, blobs: &[Blob]) {
    for blob in blobs {
        script.arg(blob.address.0.as_slice()).arg(&*blob.data);
    }
}
