//! One spelling for equal threads: canonical bytes, and a digest of them. RFC 8785; the protocol's principle
//! "Deterministic".

use std::borrow::Cow;
use std::fmt::Write as _;

use sha2::{Digest, Sha256};
use uuid::Uuid;

use super::document::{Actions, Thread};
use crate::core::json::canonical::{self, write_canonical, write_string};
use crate::core::time::Timestamp;

/// Long threads are written in pieces of about this size.
const PIECE: usize = 64 * 1024;

impl Thread {
    /// The canonical bytes, RFC 8785: the same for equal conversations, whoever wrote them.
    ///
    /// Before that, what can be spelled in several ways is spelled in one: times are UTC with `Z`, without trailing
    /// zeros, and never before the action before them; a `thread_id` that is a UUID is in lower case; optional members
    /// that are `null` are absent. A time without an offset, or that is none, stays as it is. Numbers are what
    /// ECMAScript makes of them: an integer beyond 2^53 - 1 becomes the nearest double ([`Self::validate_strictly`]
    /// names such places).
    pub fn canonical_json(&self) -> Vec<u8> {
        self.canonical_bytes(true)
    }

    /// As [`Self::canonical_json`], in pieces: of a long thread the bytes are never in one place.
    pub fn write_canonical_json(&self, mut write: impl FnMut(&[u8])) {
        let frame = self.canonical_frame(true);
        let (mut around, mut place) = (Vec::new(), 0);
        let mut remember = |out: &mut Vec<u8>| place = out.len();
        write_canonical(&mut around, &frame, Some(("actions", &mut remember)));
        let (before, after) = around.split_at_checked(place).unwrap_or_default();
        let mut out = before.to_vec();
        self.write_actions(&mut out, true, |piece| {
            if piece.len() >= PIECE {
                write(piece);
                piece.clear();
            }
        });
        out.extend_from_slice(after);
        write(&out);
    }

    /// The SHA-256 of the canonical bytes, in hexadecimal digits.
    ///
    /// Without `include_times` the times of the thread, its agents and its actions count as empty texts, so that two
    /// recordings of one conversation have one digest. What metadata says is part of it; compare [`Self::core`] where
    /// only the conversation counts.
    pub fn digest(&self, include_times: bool) -> String {
        let mut digest = String::with_capacity(64);
        for byte in Sha256::digest(self.canonical_bytes(include_times)) {
            let _ = write!(digest, "{byte:02x}");
        }
        digest
    }

    fn canonical_bytes(&self, include_times: bool) -> Vec<u8> {
        let frame = self.canonical_frame(include_times);
        let mut out = Vec::new();
        // The frame is in order already, so that nothing is moved once the actions are in it.
        let mut write_actions = |out: &mut Vec<u8>| self.write_actions(out, include_times, |_| ());
        write_canonical(&mut out, &frame, Some(("actions", &mut write_actions)));
        out
    }

    fn canonical_frame(&self, include_times: bool) -> String {
        String::from_utf8(canonical(&self.frame(include_times).to_json())).unwrap_or_default()
    }

    /// Everything but the actions, with one spelling of what canonical bytes spell in one way.
    fn frame(&self, include_times: bool) -> Self {
        let mut thread = Self { actions: Actions::default(), ..self.clone() };
        for id in std::iter::once(&mut thread.thread_id).chain(thread.parent_thread_id.as_mut()) {
            if Uuid::parse_str(id).is_ok() {
                *id = id.to_lowercase();
            }
        }
        let of_agents = thread.agents.values_mut().map(|agent| &mut agent.created_at);
        for time in of_agents.chain([&mut thread.created_at, &mut thread.updated_at]) {
            if !include_times {
                time.clear();
            } else if let Some((_, normal)) = normal_time(time) {
                *time = normal.into_owned();
            }
        }
        thread
    }

    /// One by one, so that what is moved stays small. `use_piece` may empty `out` after each of them.
    fn write_actions(&self, out: &mut Vec<u8>, include_times: bool, mut use_piece: impl FnMut(&mut Vec<u8>)) {
        let mut json = Vec::new();
        let mut latest: Option<(Timestamp, Cow<'_, str>)> = None;
        out.push(b'[');
        for (place, action) in self.actions.iter().enumerate() {
            if place > 0 {
                out.push(b',');
            }
            let mut timestamp = Cow::Borrowed(if include_times { action.timestamp() } else { "" });
            if let Some((time, normal)) = normal_time(action.timestamp()).filter(|_| include_times) {
                match &latest {
                    Some((before, spelled)) if time < *before => timestamp.clone_from(spelled),
                    _ => timestamp.clone_from(&latest.insert((time, normal)).1),
                }
            }
            json.clear();
            // Writing an action into memory cannot fail.
            let _ = serde_json::to_writer(&mut json, &**action);
            let text = std::str::from_utf8(&json).unwrap_or_default();
            let mut write_timestamp = |out: &mut Vec<u8>| write_string(out, &timestamp);
            write_canonical(out, text, Some(("timestamp", &mut write_timestamp)));
            use_piece(out);
        }
        out.push(b']');
    }
}

fn canonical(json: &[u8]) -> Vec<u8> {
    canonical::canonical(std::str::from_utf8(json).unwrap_or_default())
}

/// A time with an offset, and its one spelling; `None` for any other text.
fn normal_time(text: &str) -> Option<(Timestamp, Cow<'_, str>)> {
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
    Some((time, if normal == text { Cow::Borrowed(text) } else { Cow::Owned(normal) }))
}

/// Whether a time says how far from UTC it is.
pub(super) fn has_offset(text: &str) -> bool {
    let clock = text.find(['T', 't', ' ']).and_then(|place| text.get(place..)).unwrap_or_default();
    clock.contains(['Z', 'z', '+', '-'])
}
