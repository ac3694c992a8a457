//! One spelling for equal threads: canonical bytes, and a digest of them. RFC 8785; the protocol's principle
//! "Deterministic".

use std::fmt::Write as _;
use std::sync::Arc;

use sha2::{Digest, Sha256};
use uuid::Uuid;

use super::document::Thread;
use crate::core::json::canonical;
use crate::core::time::Timestamp;

impl Thread {
    /// The canonical bytes, RFC 8785: the same for equal conversations, whoever wrote them.
    ///
    /// Before that, what can be spelled in several ways is spelled in one: times are UTC with `Z`, without trailing
    /// zeros, and never before the action before them; a `thread_id` that is a UUID is in lower case; optional members
    /// that are `null` are absent. A time without an offset, or that is none, stays as it is. Numbers are what
    /// ECMAScript makes of them: an integer beyond 2^53 - 1 becomes the nearest double ([`Self::validate_strictly`]
    /// names such places).
    pub fn canonical_json(&self) -> Vec<u8> {
        canonical_bytes(&self.normalized())
    }

    /// The SHA-256 of the canonical bytes, in hexadecimal digits.
    ///
    /// Without `include_times` the times of the thread, its agents and its actions count as empty texts, so that two
    /// recordings of one conversation have one digest. What metadata says is part of it; compare [`Self::core`] where
    /// only the conversation counts.
    pub fn digest(&self, include_times: bool) -> String {
        let bytes = if include_times {
            self.canonical_json()
        } else {
            canonical_bytes(&self.normalized().timeless())
        };
        let mut digest = String::with_capacity(64);
        for byte in Sha256::digest(bytes) {
            let _ = write!(digest, "{byte:02x}");
        }
        digest
    }

    /// The same thread with one spelling of everything that canonical bytes spell in one way.
    #[must_use]
    fn normalized(&self) -> Self {
        let mut thread = self.clone();
        for id in std::iter::once(&mut thread.thread_id).chain(thread.parent_thread_id.as_mut()) {
            if Uuid::parse_str(id).is_ok() {
                *id = id.to_lowercase();
            }
        }
        for time in [&mut thread.created_at, &mut thread.updated_at] {
            if let Some((_, normal)) = normal_time(time) {
                *time = normal;
            }
        }
        for agent in thread.agents.values_mut() {
            if let Some((_, normal)) = normal_time(&agent.created_at) {
                agent.created_at = normal;
            }
        }
        let mut latest: Option<(Timestamp, String)> = None;
        for entry in &mut thread.actions.0 {
            let Some((time, mut text)) = normal_time(entry.timestamp()) else { continue };
            match &latest {
                Some((before, before_text)) if time < *before => text.clone_from(before_text),
                _ => latest = Some((time, text.clone())),
            }
            if text != entry.timestamp() {
                Arc::make_mut(entry).set_timestamp(text);
            }
        }
        thread
    }

    fn timeless(mut self) -> Self {
        self.created_at.clear();
        self.updated_at.clear();
        self.agents.values_mut().for_each(|agent| agent.created_at.clear());
        for entry in &mut self.actions.0 {
            Arc::make_mut(entry).set_timestamp(String::new());
        }
        self
    }
}

fn canonical_bytes(thread: &Thread) -> Vec<u8> {
    String::from_utf8(thread.to_json()).map(|text| canonical::canonical(&text)).unwrap_or_default()
}

/// A time with an offset, and its one spelling; `None` for any other text.
fn normal_time(text: &str) -> Option<(Timestamp, String)> {
    if !has_offset(text) {
        return None;
    }
    let time = text.parse::<Timestamp>().ok()?;
    let mut normal = time.to_string();
    if let Some(whole) = normal.strip_suffix('Z').filter(|whole| whole.contains('.')) {
        let shorter = whole.trim_end_matches('0').trim_end_matches('.').len();
        normal.truncate(shorter);
        normal.push('Z');
    }
    Some((time, normal))
}

/// Whether a time says how far from UTC it is.
pub(super) fn has_offset(text: &str) -> bool {
    let clock = text.find(['T', 't', ' ']).and_then(|place| text.get(place..)).unwrap_or_default();
    clock.contains(['Z', 'z', '+', '-'])
}
