//! The names of keys.
//!
//! Sessions are spread over [`BUCKETS`] buckets by the digest of their ids. All keys of a bucket have one hash tag, so that a
//! cluster stores them on one node, where a script changes a session and its place in the index in one step:
//!
//! ```text
//! turntree:format                  text     the version of the format
//! turntree:{07}:index              zset     the places of the sessions, all with score 0
//! turntree:{07}:head:<id>          hash     revision, digest, fence, place, id, agent, status, turns, nodes, bytes, updated_at
//! turntree:{07}:log:<id>           list     the entries: 32 bytes digest, then the data
//! turntree:{07}:blobs:<id>         hash     data by address (32 bytes)
//! ```
//!
//! The place of a session in the index is 16 hexadecimal digits, which are smaller for later times, and its id: in
//! lexicographical order the most recently updated session is the first.

use turntree_core::time::Timestamp;

use crate::digest::Digest;
use crate::page::Position;

/// The number of buckets. Part of the format.
pub(super) const BUCKETS: u8 = 16;

/// The number of digits of a time in a place.
pub(super) const TIME_DIGITS: usize = 16;

/// The keys of a session.
#[derive(Debug, Clone)]
pub(super) struct SessionKeys {
    pub(super) head: String,
    pub(super) log: String,
    pub(super) blobs: String,
    pub(super) index: String,
}

impl SessionKeys {
    pub(super) fn new(prefix: &str, session: &str) -> Self {
        let [first, ..] = Digest::of(session.as_bytes()).0;
        let bucket = first % BUCKETS;
        let key = |kind: &str| format!("{prefix}:{{{bucket:02}}}:{kind}:{session}");
        Self { head: key("head"), log: key("log"), blobs: key("blobs"), index: index(prefix, bucket) }
    }
}

/// The key of the index of a bucket.
pub(super) fn index(prefix: &str, bucket: u8) -> String {
    format!("{prefix}:{{{bucket:02}}}:index")
}

/// The kind of a key (`head`, `log`, `blobs` or `index`) and the id of its session.
pub(super) fn parse<'k>(prefix: &str, key: &'k str) -> Option<(&'k str, &'k str)> {
    let rest = key.strip_prefix(prefix)?.strip_prefix(":{")?;
    let (_, rest) = rest.split_once("}:")?;
    Some(rest.split_once(':').unwrap_or((rest, "")))
}

/// The digits of a time.
pub(super) fn time_digits(time: Timestamp) -> String {
    // Moves the smallest time to zero, then reverses the order.
    let ordered = time.microseconds().cast_unsigned() ^ (1 << 63);
    format!("{:016x}", !ordered)
}

/// The place of a session.
pub(super) fn place(position: &Position) -> String {
    format!("{}{}", time_digits(position.updated_at.0), position.id)
}
