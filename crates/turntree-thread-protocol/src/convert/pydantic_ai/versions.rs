//! Versions of Pydantic AI: which version introduced which members, parts and items, and which versions may have
//! written a history.
//!
//! The tables are exact: `make test-versions` compares them with installed versions.

use std::fmt;
use std::str::FromStr;

use super::field_layout::FieldLayouts;
use super::model::{History, Object, part_kind};

/// A version of Pydantic AI that determines the format of messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version {
    /// 1 in 1.107.5.
    pub major: u16,
    /// 107 in 1.107.5.
    pub minor: u16,
    /// 5 in 1.107.5.
    pub patch: u16,
}

/// The text is not a supported version.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "invalid pydantic-ai version \"{0}\": expected 1.0 or later, for example \"1.107\", or \"1.x\" for all of 1"
)]
pub struct VersionError(String);

impl Version {
    /// The oldest supported version for exports.
    pub const OLDEST: Self = Self::new(1, 0);
    /// The newest version with known layouts. Later versions read its output.
    pub const NEWEST: Self = Self::new(2, 68);

    /// After every version.
    pub(super) const END: Self = Self::new(u16::MAX, 0);

    /// Creates the first version of a minor.
    pub const fn new(major: u16, minor: u16) -> Self {
        Self { major, minor, patch: 0 }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}.{}", self.major, self.minor)?;
        if self.patch > 0 { write!(formatter, ".{}", self.patch) } else { Ok(()) }
    }
}

/// Parses `1.107`, `1.107.5`, `v1.107` and `1.x`. `1.x` is the oldest version of its major and `1.107` the oldest of its
/// minor, whose histories all others read.
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
        let mut rest = numbers.clone();
        let rest_is_version =
            rest.all(|part| part.chars().all(|letter| letter.is_ascii_alphanumeric()) && !part.is_empty());
        // A patch that is not a number, as in 2.0.0b1, is a version before the patch.
        let patch = numbers.next().and_then(|number| number.parse().ok()).unwrap_or(0);
        let version = Self { major, minor, patch };
        if rest_is_version && version >= Self::OLDEST { Ok(version) } else { Err(refuse()) }
    }
}

const fn v(major: u16, minor: u16) -> Version {
    Version::new(major, minor)
}

/// A version of the first minor: the only one whose patches have new members.
const fn first(patch: u16) -> Version {
    Version { major: 1, minor: 0, patch }
}

/// Members that are newer than their class and than 1.0.0.
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
            ("canonical_system", v(2, 63)),
            ("finish_reason", first(2)),
            ("run_id", v(1, 15)),
            ("conversation_id", v(1, 89)),
            ("metadata", v(1, 20)),
            ("workspace_ref", v(2, 52)),
            ("history_digest", v(2, 58)),
            ("failed_attempts", v(2, 55)),
            ("state", v(1, 92)),
        ],
    ),
    (
        "usage",
        &[
            ("cache_write_1h_tokens", v(2, 58)),
            ("unmeasured_requests", v(2, 59)),
            ("output_reasoning_tokens", v(2, 58)),
            ("audio_seconds", v(2, 50)),
            ("cost", v(2, 23)),
        ],
    ),
    ("system-prompt", &[("context_id", v(2, 64)), ("scope", v(2, 58)), ("metadata", v(2, 58))]),
    (
        "tool-return",
        &[
            ("tool_kind", v(1, 95)),
            ("outcome", v(1, 67)),
            ("retry", v(2, 60)),
            (FILE_DIGESTS, RECORDED_FILES),
        ],
    ),
    (
        "builtin-tool-return",
        &[
            ("tool_kind", v(1, 95)),
            ("outcome", v(1, 67)),
            ("provider_details", v(1, 22)),
            (FILE_DIGESTS, RECORDED_FILES),
        ],
    ),
    (
        "text",
        &[
            ("id", first(5)),
            ("provider_name", v(1, 47)),
            ("provider_details", v(1, 22)),
            ("citations", v(2, 61)),
        ],
    ),
    ("thinking", &[("provider_name", first(3)), ("provider_details", v(1, 22))]),
    (
        "tool-call",
        &[
            ("tool_kind", v(1, 95)),
            ("id", first(18)),
            ("provider_name", v(1, 47)),
            ("provider_details", v(1, 22)),
        ],
    ),
    ("builtin-tool-call", &[("tool_kind", v(1, 95)), ("id", first(18)), ("provider_details", v(1, 22))]),
    ("file", &[("provider_details", v(1, 22))]),
    ("compaction", &[("metadata", v(2, 62))]),
    ("speech", &[("timestamps", v(2, 64))]),
    ("cache-point", &[("ttl", v(1, 20))]),
];

/// The member of tool returns with the digests of the files in their content.
pub(super) const FILE_DIGESTS: &str = "content_file_digests";

/// The first version with [`FILE_DIGESTS`]. 1.107.10 has them too, 2.0 to 2.64 have not.
const RECORDED_FILES: Version = v(2, 66);

impl Version {
    /// True if tool returns record which mappings in their content are files.
    pub(super) fn records_files(self) -> bool {
        let backport = Self { major: 1, minor: 107, patch: 10 };
        self >= RECORDED_FILES || (backport <= self && self < v(2, 0))
    }
}

/// Parts and items that are newer than 1.0.0.
const CLASSES: &[(&str, Version)] = &[
    ("file", first(15)),
    ("retry-feedback", v(2, 60)),
    ("tool-availability-delta", v(2, 23)),
    ("capability-load-delta", v(2, 64)),
    ("model-settings-delta", v(2, 62)),
    ("instruction-delta", v(2, 59)),
    ("instruction-baseline", v(2, 59)),
    ("compaction", v(1, 80)),
    ("speech", v(2, 28)),
    ("uploaded-file", v(1, 65)),
    ("cache-point", v(1, 18)),
    ("text-content", v(1, 74)),
    ("structured-content", v(2, 62)),
];

/// Parts and items of 1.0, including two without a layout.
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

/// The first version with a part or an item; `None` for unknown ones.
pub(super) fn class_since(class: &str) -> Option<Version> {
    let later = CLASSES.iter().find(|(name, _)| *name == class).map(|(_, since)| *since);
    later.or_else(|| FIRST.contains(&class).then_some(Version::OLDEST))
}

/// The first version with a member of a class; `None` for unknown ones.
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

/// The versions that may have written a history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WrittenBy {
    /// The first version that supports all of its members.
    pub at_least: Version,
    /// The first version that would have written more members; `None` if there is none, or if members were excluded
    /// (`exclude_none`).
    pub before: Option<Version>,
}

/// Determines the version of a history by its members and parts.
pub fn written_by(history: &History<'_>) -> WrittenBy {
    let mut range =
        Range { plain: FieldLayouts::default(), at_least: Version::OLDEST, before: None, before_patch: None };
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
    // Shortened histories often lack the members of the first patches.
    let before = if range.at_least < v(1, 1) { range.before_patch.or(range.before) } else { range.before };
    let before = before.filter(|before| *before > range.at_least);
    WrittenBy { at_least: range.at_least, before }
}

struct Range<'p> {
    plain: FieldLayouts<'p>,
    at_least: Version,
    before: Option<Version>,
    /// As `before`, for the patches of the first minor.
    before_patch: Option<Version>,
}

impl Range<'_> {
    fn object(&mut self, class: &str, object: &Object<'_>) {
        for (key, _) in object.iter() {
            let since = member_since(&self.plain, class, key).unwrap_or(Version::OLDEST);
            self.at_least = self.at_least.max(since);
        }
        // The absence of optional members is not conclusive.
        let Some((_, members)) = MEMBERS.iter().find(|(name, _)| *name == class) else { return };
        let always = |key: &str| !matches!(key, "unmeasured_requests" | "content_file_digests");
        for (_, since) in members.iter().filter(|(key, _)| always(key) && object.get(key).is_none()) {
            let before = if *since < v(1, 1) { &mut self.before_patch } else { &mut self.before };
            *before = Some(before.map_or(*since, |before| before.min(*since)));
        }
    }
}
