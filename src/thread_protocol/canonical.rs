//! One spelling for equal threads: canonical bytes, and a digest of them. RFC 8785; the protocol's principle
//! "Deterministic".

use std::borrow::Cow;
use std::fmt::Write as _;
use std::sync::Arc;

use sha2::{Digest, Sha256};
use uuid::Uuid;

use super::action::Action;
use super::by_the_letter::issue_of;
use super::content::{Attachment, ContentPart, MessageContent};
use super::document::Thread;
use super::error::ThreadError;
use super::validate::{Issue, Rule, Severity, escape};
use crate::core::json::canonical;
use crate::core::json::losses::losses;
use crate::core::time::Timestamp;

impl Thread {
    /// The canonical bytes, RFC 8785: the same for equal conversations, whoever wrote them.
    ///
    /// Before that, what can be spelled in several ways is spelled in one: times are UTC with `Z`, with at most six
    /// digits of a second and no trailing zeros, and never before the action before them; a `thread_id` that is a UUID
    /// is in lower case; base64 is in the standard alphabet, padded; optional members that are `null` are absent. A text
    /// that is no time stays as it is. Numbers are what ECMAScript makes of them: an integer beyond 2^53 - 1 becomes the
    /// nearest double; members called `__proto__` are left out. [`Self::canonical_json_strictly`] refuses those two,
    /// [`Self::validate_strictly`] lists them.
    ///
    /// # Errors
    /// [`ThreadError::Invalid`] for times without an offset from UTC: nobody knows which moment they are.
    pub fn canonical_json(&self) -> Result<Vec<u8>, ThreadError> {
        self.refuse_naive_times()?;
        Ok(canonical_bytes(&self.normalized()))
    }

    /// The canonical bytes of a thread that loses nothing by them.
    ///
    /// # Errors
    /// As [`Self::canonical_json`], and for numbers that no double holds and members called `__proto__`.
    pub fn canonical_json_strictly(&self) -> Result<Vec<u8>, ThreadError> {
        self.refuse_naive_times()?;
        let text = String::from_utf8(self.to_json()).unwrap_or_default();
        let issues = losses(&text).iter().map(|loss| issue_of(loss, "", Severity::Error)).collect();
        refuse(issues)?;
        self.canonical_json()
    }

    /// The SHA-256 of the canonical bytes, in hexadecimal digits.
    ///
    /// Without `include_times` the times of the thread, its agents and its actions count as empty texts, so that two
    /// recordings of one conversation have one digest. What metadata says is part of it; compare [`Self::core`] where
    /// only the conversation counts.
    ///
    /// # Errors
    /// With `include_times`, as [`Self::canonical_json`].
    pub fn digest(&self, include_times: bool) -> Result<String, ThreadError> {
        let bytes = if include_times {
            self.canonical_json()?
        } else {
            canonical_bytes(&self.normalized().timeless())
        };
        let mut digest = String::with_capacity(64);
        for byte in Sha256::digest(bytes) {
            let _ = write!(digest, "{byte:02x}");
        }
        Ok(digest)
    }

    fn refuse_naive_times(&self) -> Result<(), ThreadError> {
        let mut issues = Vec::new();
        let mut look = |place: &dyn Fn() -> String, time: &str| {
            if !has_offset(time) && time.parse::<Timestamp>().is_ok() {
                let message = format!("the time has no offset from UTC; {}", Rule::Timestamp.remedy());
                let severity = Severity::Error;
                issues.push(Issue { rule: Rule::Timestamp, pointer: place(), message, severity });
            }
        };
        look(&|| "/created_at".to_owned(), &self.created_at);
        look(&|| "/updated_at".to_owned(), &self.updated_at);
        for (key, agent) in self.agents.iter() {
            look(&|| format!("/agents/{}/created_at", escape(key)), &agent.created_at);
        }
        for (place, action) in self.actions.iter().enumerate() {
            look(&|| format!("/actions/{place}/timestamp"), action.timestamp());
        }
        refuse(issues)
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
        thread.actions.0.iter_mut().for_each(respell_data);
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

fn refuse(issues: Vec<Issue>) -> Result<(), ThreadError> {
    if issues.is_empty() { Ok(()) } else { Err(ThreadError::Invalid { issues }) }
}

/// Spells the base64 of an action's content parts and attachments in the standard alphabet, padded. Decision 15.
fn respell_data(entry: &mut Arc<Action>) {
    let is_other = |data: &String| standard_base64(data).is_some();
    let respell = |data: &mut String| {
        if let Some(standard) = standard_base64(data) {
            *data = standard;
        }
    };
    let parts = |content: &MessageContent| {
        let MessageContent::Parts(parts) = content else { return false };
        parts.iter().filter_map(ContentPart::base64).any(is_other)
    };
    let attached = |attachments: Option<&Vec<Attachment>>| {
        attachments.into_iter().flatten().filter_map(|attachment| attachment.data.as_ref()).any(is_other)
    };
    let changes = match &**entry {
        Action::UserMessage(action) => parts(&action.content) || attached(action.attachments.as_ref()),
        Action::AssistantMessage(action) => parts(&action.content),
        _ => false,
    };
    if !changes {
        return;
    }
    let content = match Arc::make_mut(entry) {
        Action::UserMessage(action) => {
            let attachments = action.attachments.iter_mut().flatten();
            attachments.filter_map(|attachment| attachment.data.as_mut()).for_each(respell);
            &mut action.content
        }
        Action::AssistantMessage(action) => &mut action.content,
        _ => return,
    };
    if let MessageContent::Parts(parts) = content {
        parts.iter_mut().filter_map(ContentPart::base64_mut).for_each(respell);
    }
}

/// The standard spelling of base64; `None` for what has it already, or is none.
fn standard_base64(data: &str) -> Option<String> {
    let digits = data.trim_end_matches('=');
    let is_padded = data.len().is_multiple_of(4);
    if is_padded && memchr::memchr2(b'-', b'_', data.as_bytes()).is_none() {
        return None;
    }
    let mut standard = digits.replace('-', "+").replace('_', "/");
    if !standard.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/')) {
        return None;
    }
    let padding = match digits.len() % 4 {
        0 => "",
        2 => "==",
        3 => "=",
        _ => return None,
    };
    standard.push_str(padding);
    Some(standard)
}

fn canonical_bytes(thread: &Thread) -> Vec<u8> {
    String::from_utf8(thread.to_json()).map(|text| canonical::canonical(&text)).unwrap_or_default()
}

/// A time with an offset, and its one spelling; `None` for any other text.
fn normal_time(text: &str) -> Option<(Timestamp, String)> {
    if !has_offset(text) {
        return None;
    }
    let time = six_digits(text).parse::<Timestamp>().ok()?;
    let mut normal = time.to_string();
    if let Some(whole) = normal.strip_suffix('Z').filter(|whole| whole.contains('.')) {
        let shorter = whole.trim_end_matches('0').trim_end_matches('.').len();
        normal.truncate(shorter);
        normal.push('Z');
    }
    Some((time, normal))
}

/// The time without the digits of a second after the sixth: the moment is cut, not rounded.
fn six_digits(text: &str) -> Cow<'_, str> {
    let Some((whole, fraction)) = text.split_once(['.', ',']) else { return Cow::Borrowed(text) };
    let digits = fraction.bytes().take_while(u8::is_ascii_digit).count();
    match (fraction.get(..6), fraction.get(digits..)) {
        (Some(kept), Some(offset)) if digits > 6 => Cow::Owned(format!("{whole}.{kept}{offset}")),
        _ => Cow::Borrowed(text),
    }
}

/// Whether a time says how far from UTC it is.
pub(super) fn has_offset(text: &str) -> bool {
    let clock = text.find(['T', 't', ' ']).and_then(|place| text.get(place..)).unwrap_or_default();
    clock.contains(['Z', 'z', '+', '-'])
}
