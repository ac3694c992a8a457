//! Which version of Pydantic AI writes which members, parts and items; and which versions a history is from.
//!
//! A table of first appearances. Between 2.34 and 2.68 it knows every fourth version, and names the first of those that
//! has a member: an older one may have it already, never a later one.

use std::fmt;
use std::str::FromStr;

use super::field_layout::FieldLayouts;
use super::model::{History, Object, part_kind};

/// A version of Pydantic AI, as far as the shapes of its messages depend on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version {
    /// 1 in 1.107.5.
    pub major: u16,
    /// 107 in 1.107.5.
    pub minor: u16,
}

/// Not a version that a history can be written for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("\"{0}\" is no version of pydantic-ai from 1.0 on; write it like \"1.107\", or \"1.x\" for all of 1")]
pub struct VersionError(String);

impl Version {
    /// The first version whose histories can be written.
    pub const OLDEST: Self = Self::new(1, 0);
    /// The version whose shapes are known best; later ones read what it writes.
    pub const NEWEST: Self = Self::new(2, 68);

    /// A version.
    pub const fn new(major: u16, minor: u16) -> Self {
        Self { major, minor }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}.{}", self.major, self.minor)
    }
}

/// Reads `1.107`, `1.107.5`, `v1.107` and `1.x`, which is the oldest of its major version: what that one reads, all do.
impl FromStr for Version {
    type Err = VersionError;

    fn from_str(text: &str) -> Result<Self, VersionError> {
        let refuse = || VersionError(text.chars().take(40).collect());
        let mut numbers = text.trim_start_matches('v').split('.');
        let major = numbers.next().and_then(|number| number.parse().ok()).ok_or_else(refuse)?;
        let minor = match numbers.next() {
            None | Some("x" | "*") => 0,
            Some(number) => number.parse().map_err(|_| refuse())?,
        };
        let rest_is_version =
            numbers.all(|part| part.chars().all(|letter| letter.is_ascii_alphanumeric()) && !part.is_empty());
        let version = Self { major, minor };
        if rest_is_version && version >= Self::OLDEST { Ok(version) } else { Err(refuse()) }
    }
}

const fn v(major: u16, minor: u16) -> Version {
    Version::new(major, minor)
}

/// Members that came later than their class, or than 1.0.
const MEMBERS: &[(&str, &[(&str, Version)])] = &[
    (
        "request",
        &[
            ("timestamp", v(1, 38)),
            ("run_id", v(1, 15)),
            ("conversation_id", v(1, 89)),
            ("metadata", v(1, 20)),
            ("state", v(2, 0)),
        ],
    ),
    (
        "response",
        &[
            ("model_id", v(2, 64)),
            ("provider_url", v(1, 31)),
            ("canonical_system", v(2, 64)),
            ("run_id", v(1, 15)),
            ("conversation_id", v(1, 89)),
            ("metadata", v(1, 20)),
            ("workspace_ref", v(2, 52)),
            ("history_digest", v(2, 60)),
            ("failed_attempts", v(2, 56)),
            ("state", v(1, 92)),
        ],
    ),
    (
        "usage",
        &[
            ("cache_write_1h_tokens", v(2, 60)),
            ("unmeasured_requests", v(2, 60)),
            ("output_reasoning_tokens", v(2, 60)),
            ("audio_seconds", v(2, 52)),
            ("cost", v(2, 23)),
        ],
    ),
    ("system-prompt", &[("context_id", v(2, 64)), ("scope", v(2, 60)), ("metadata", v(2, 60))]),
    (
        "tool-return",
        &[
            ("tool_kind", v(1, 95)),
            ("outcome", v(1, 67)),
            ("retry", v(2, 60)),
            ("content_file_digests", v(2, 68)),
        ],
    ),
    (
        "builtin-tool-return",
        &[
            ("tool_kind", v(1, 95)),
            ("outcome", v(1, 67)),
            ("provider_details", v(1, 22)),
            ("content_file_digests", v(2, 68)),
        ],
    ),
    ("text", &[("provider_name", v(1, 47)), ("provider_details", v(1, 22)), ("citations", v(2, 64))]),
    ("thinking", &[("provider_details", v(1, 22))]),
    ("tool-call", &[("tool_kind", v(1, 95)), ("provider_name", v(1, 47)), ("provider_details", v(1, 22))]),
    ("builtin-tool-call", &[("tool_kind", v(1, 95)), ("provider_details", v(1, 22))]),
    ("file", &[("provider_details", v(1, 22))]),
    ("compaction", &[("metadata", v(2, 64))]),
    ("speech", &[("timestamps", v(2, 64))]),
    ("cache-point", &[("ttl", v(1, 20))]),
];

/// Parts and items that came after 1.0.
const CLASSES: &[(&str, Version)] = &[
    // 1.0.15.
    ("file", v(1, 1)),
    ("retry-feedback", v(2, 60)),
    ("tool-availability-delta", v(2, 23)),
    ("capability-load-delta", v(2, 64)),
    ("model-settings-delta", v(2, 64)),
    ("instruction-delta", v(2, 60)),
    ("instruction-baseline", v(2, 60)),
    ("compaction", v(1, 80)),
    ("speech", v(2, 28)),
    ("uploaded-file", v(1, 65)),
    ("cache-point", v(1, 18)),
    ("text-content", v(1, 74)),
    ("structured-content", v(2, 64)),
];

/// Parts and items of 1.0, and two whose shapes have no template.
const FIRST: &[&str] = &[
    "system-prompt",
    "user-prompt",
    "tool-return",
    "retry-prompt",
    "text",
    "thinking",
    "tool-call",
    "builtin-tool-call",
    "builtin-tool-return",
    "image-url",
    "audio-url",
    "video-url",
    "document-url",
    "binary",
];

/// The first version with a part or an item; `None` for one that no known version has.
pub(super) fn class_since(class: &str) -> Option<Version> {
    let later = CLASSES.iter().find(|(name, _)| *name == class).map(|(_, since)| *since);
    later.or_else(|| FIRST.contains(&class).then_some(Version::OLDEST))
}

/// The first version with a member of a class; `None` for one that no known version has.
pub(super) fn member_since(plain: &FieldLayouts<'_>, class: &str, key: &str) -> Option<Version> {
    let members = MEMBERS.iter().find(|(name, _)| *name == class).map_or(&[][..], |(_, members)| *members);
    if let Some((_, since)) = members.iter().find(|(name, _)| *name == key) {
        return Some(*since);
    }
    let known = match plain.get(class) {
        Some(layout) => layout.members.get(key).is_some(),
        None => class_since(class).is_some(),
    };
    let alias = matches!(
        (class, key),
        ("response", "vendor_id" | "vendor_details")
            | ("usage", "request_tokens" | "response_tokens" | "total_tokens" | "requests")
            | ("tool-availability-delta", "added")
    );
    (known || alias).then(|| class_since(class).unwrap_or(Version::OLDEST))
}

/// The versions that write the members that a history has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WrittenBy {
    /// The first version that knows all of it.
    pub at_least: Version,
    /// The first version that would have written more; `None` when none would, or when members were left out on
    /// purpose (`exclude_none`).
    pub before: Option<Version>,
}

/// Which versions a history is from, by the members and parts that are there and those that are not.
pub fn written_by(history: &History<'_>) -> WrittenBy {
    let mut range = Range { plain: FieldLayouts::default(), at_least: Version::OLDEST, before: None };
    for message in history {
        range.object(message.kind.name(), &message.members);
        if let Some(usage) = &message.usage {
            range.object("usage", usage);
        }
        for part in &message.parts {
            let class = part_kind(part);
            range.at_least = range.at_least.max(class_since(&class).unwrap_or(Version::OLDEST));
            range.object(&class, part);
        }
    }
    let before = range.before.filter(|before| *before > range.at_least);
    WrittenBy { at_least: range.at_least, before }
}

struct Range<'p> {
    plain: FieldLayouts<'p>,
    at_least: Version,
    before: Option<Version>,
}

impl Range<'_> {
    fn object(&mut self, class: &str, object: &Object<'_>) {
        for (key, _) in object.iter() {
            let since = member_since(&self.plain, class, key).unwrap_or(Version::OLDEST);
            self.at_least = self.at_least.max(since);
        }
        // Members that a version writes only now and then say nothing by their absence.
        let Some((_, members)) = MEMBERS.iter().find(|(name, _)| *name == class) else { return };
        let always = |key: &str| !matches!(key, "unmeasured_requests" | "content_file_digests");
        for (_, since) in members.iter().filter(|(key, _)| always(key) && object.get(key).is_none()) {
            self.before = Some(self.before.map_or(*since, |before| before.min(*since)));
        }
    }
}
