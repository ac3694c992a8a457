//! The canonical bytes of a thread (RFC 8785), and their digest. They are the same for equal threads.
//!
//! Spec: ThreadProtocol 1.0.0, "Core Design Principles"

use std::borrow::Cow;
use std::fmt::Write as _;

use sha2::{Digest, Sha256};
use uuid::Uuid;

use super::action::Action;
use super::content::{ContentPart, MessageContent};
use super::document::{Actions, Thread};
use super::error::ThreadError;
use super::issue::{Issue, Rule, Severity, escape};
use super::strict::issue_of;
use turntree_core::json::canonical::{self, CanonicalForm, CanonicalWriter, write_string};
use turntree_core::json::lossy::lossy_conversions;
use turntree_core::time::Timestamp;

/// The approximate size in bytes of the pieces of a long thread.
const PIECE: usize = 64 * 1024;

impl Thread {
    /// The canonical bytes (RFC 8785): the same for equal threads, independent of the program that wrote them.
    ///
    /// Equivalent notations become one. Times are in UTC with `Z` and have at most six digits of a second without
    /// trailing zeros; the time of an action is never before that of the preceding action. A `thread_id` that is a
    /// UUID is in lower case. Base64 is in the standard alphabet with padding. Optional members that are `null` are
    /// absent. A text that is not a time does not change.
    ///
    /// With [`CanonicalForm::Exact`] different threads have different bytes. With [`CanonicalForm::JavaScript`]
    /// threads have equal bytes if they are equal after `JSON.parse` and `JSON.stringify`.
    ///
    /// # Errors
    /// [`ThreadError::Invalid`] for times without an offset from UTC, because they are ambiguous.
    pub fn canonical_json(&self, form: CanonicalForm) -> Result<Vec<u8>, ThreadError> {
        let mut out = Vec::new();
        self.write_canonical_json(form, |piece| out.extend_from_slice(piece))?;
        Ok(out)
    }

    /// As [`Self::canonical_json`], but rejects threads that a JavaScript reader changes.
    ///
    /// # Errors
    /// As [`Self::canonical_json`], and for numbers that a double cannot represent and members named `__proto__`.
    pub fn canonical_json_strictly(&self, form: CanonicalForm) -> Result<Vec<u8>, ThreadError> {
        self.refuse_naive_times()?;
        let text = String::from_utf8(self.to_json()).unwrap_or_default();
        let issues =
            lossy_conversions(&text).iter().map(|loss| issue_of(loss, "", Severity::Error)).collect();
        refuse(issues)?;
        self.canonical_json(form)
    }

    /// Writes the bytes of [`Self::canonical_json`] in pieces, so that a long thread is never in memory as a whole.
    ///
    /// # Errors
    /// As [`Self::canonical_json`]; then nothing is written.
    pub fn write_canonical_json(
        &self,
        form: CanonicalForm,
        write: impl FnMut(&[u8]),
    ) -> Result<(), ThreadError> {
        self.refuse_naive_times()?;
        self.write_pieces(form, true, write);
        Ok(())
    }

    /// The SHA-256 of the canonical bytes, in hexadecimal digits.
    ///
    /// Without `include_times` the times of the thread, its agents and its actions count as empty texts, so that two
    /// recordings of one conversation have the same digest. The digest includes metadata; use [`Self::core`] to compare
    /// only the conversation.
    ///
    /// # Errors
    /// With `include_times`, as [`Self::canonical_json`].
    pub fn digest(&self, form: CanonicalForm, include_times: bool) -> Result<String, ThreadError> {
        if include_times {
            self.refuse_naive_times()?;
        }
        let mut sha256 = Sha256::new();
        self.write_pieces(form, include_times, |piece| sha256.update(piece));
        let mut digest = String::with_capacity(64);
        for byte in sha256.finalize() {
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

    fn write_pieces(&self, form: CanonicalForm, include_times: bool, mut write: impl FnMut(&[u8])) {
        let frame = canonical(&self.frame(include_times).to_json(), form);
        // `place` is the offset of the actions in the frame.
        let (mut around, mut place) = (Vec::new(), 0);
        let mut remember = |out: &mut Vec<u8>| place = out.len();
        CanonicalWriter::new(form).write_text(
            &mut around,
            std::str::from_utf8(&frame).unwrap_or_default(),
            Some(("actions", &mut remember)),
        );
        let (before, after) = around.split_at_checked(place).unwrap_or_default();
        let mut out = before.to_vec();
        self.write_actions(&mut out, form, include_times, |piece| {
            if piece.len() >= PIECE {
                write(piece);
                piece.clear();
            }
        });
        out.extend_from_slice(after);
        write(&out);
    }

    /// The thread without its actions, with normalized ids and times.
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

    /// Writes the actions one by one, so that sorting their members moves few bytes. `use_piece` may clear `out` after
    /// each action.
    fn write_actions(
        &self,
        out: &mut Vec<u8>,
        form: CanonicalForm,
        include_times: bool,
        mut use_piece: impl FnMut(&mut Vec<u8>),
    ) {
        let mut writer = CanonicalWriter::new(form);
        let mut clock = Clock::default();
        out.push(b'[');
        for (place, action) in self.actions.iter().map(|action| &**action).enumerate() {
            if place > 0 {
                out.push(b',');
            }
            let timestamp = if include_times { clock.time_of(action.timestamp()) } else { "" };
            let mut write_timestamp = |out: &mut Vec<u8>| write_string(out, timestamp);
            let replacement: canonical::MemberOverride<'_> = ("timestamp", &mut write_timestamp);
            let normalized = with_standard_base64(action);
            // The members of an action have names, so writing it cannot fail.
            let _ = writer.write_value(out, normalized.as_ref().unwrap_or(action), Some(replacement));
            use_piece(out);
        }
        out.push(b']');
    }
}

/// The canonical times of actions, in order.
#[derive(Default)]
struct Clock<'t> {
    /// The latest time so far, and its canonical text.
    latest: Option<(Timestamp, Cow<'t, str>)>,
    /// The preceding text, if its canonical form is that of `latest`: most actions have the time of their message.
    before: Option<&'t str>,
}

impl<'t> Clock<'t> {
    /// The canonical text of a time, which is not before the preceding one. A text that is not a time does not change.
    fn time_of<'c>(&'c mut self, text: &'t str) -> &'c str
    where
        't: 'c,
    {
        if self.before != Some(text) {
            let Some((time, normal)) = normal_time(text) else { return text };
            if self.latest.as_ref().is_none_or(|(latest, _)| time >= *latest) {
                self.latest = Some((time, normal));
            }
            self.before = Some(text);
        }
        self.latest.as_ref().map_or(text, |(_, normal)| normal)
    }
}

fn refuse(issues: Vec<Issue>) -> Result<(), ThreadError> {
    if issues.is_empty() { Ok(()) } else { Err(ThreadError::Invalid { issues }) }
}

/// The action with the base64 of its content parts and attachments in the standard alphabet with padding (decision 15);
/// `None` if nothing changes.
fn with_standard_base64(action: &Action) -> Option<Action> {
    let is_other = |data: &String| standard_base64(data).is_some();
    let normalize = |data: &mut String| {
        if let Some(standard) = standard_base64(data) {
            *data = standard;
        }
    };
    let (content, attachments) = match action {
        Action::UserMessage(action) => (&action.content, action.attachments.as_ref()),
        Action::AssistantMessage(action) => (&action.content, None),
        _ => return None,
    };
    let parts = if let MessageContent::Parts(parts) = content { parts.as_slice() } else { &[] };
    let attached = attachments.into_iter().flatten().filter_map(|attachment| attachment.data.as_ref());
    if !parts.iter().filter_map(ContentPart::base64).chain(attached).any(is_other) {
        return None;
    }
    let mut normalized = action.clone();
    let content = match &mut normalized {
        Action::UserMessage(action) => {
            let attachments = action.attachments.iter_mut().flatten();
            attachments.filter_map(|attachment| attachment.data.as_mut()).for_each(normalize);
            &mut action.content
        }
        Action::AssistantMessage(action) => &mut action.content,
        _ => return None,
    };
    if let MessageContent::Parts(parts) = content {
        parts.iter_mut().filter_map(ContentPart::base64_mut).for_each(normalize);
    }
    Some(normalized)
}

/// Base64 in the standard alphabet with padding; `None` if `data` has this form already or is not base64.
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

fn canonical(json: &[u8], form: CanonicalForm) -> Vec<u8> {
    canonical::canonical(std::str::from_utf8(json).unwrap_or_default(), form)
}

/// A time with an offset, and its canonical text; `None` for other texts.
fn normal_time(text: &str) -> Option<(Timestamp, Cow<'_, str>)> {
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
    Some((time, if normal == text { Cow::Borrowed(text) } else { Cow::Owned(normal) }))
}

/// Removes the digits of a second after the sixth, without rounding.
fn six_digits(text: &str) -> Cow<'_, str> {
    let Some((whole, fraction)) = text.split_once(['.', ',']) else { return Cow::Borrowed(text) };
    let digits = fraction.bytes().take_while(u8::is_ascii_digit).count();
    match (fraction.get(..6), fraction.get(digits..)) {
        (Some(six), Some(offset)) if digits > 6 => Cow::Owned(format!("{whole}.{six}{offset}")),
        _ => Cow::Borrowed(text),
    }
}

/// True if a time has an offset from UTC.
pub(super) fn has_offset(text: &str) -> bool {
    let is_start = |byte: &u8| matches!(byte, b'T' | b't' | b' ');
    let clock = text.bytes().skip_while(|byte| !is_start(byte));
    clock.into_iter().any(|byte| matches!(byte, b'Z' | b'z' | b'+' | b'-'))
}
