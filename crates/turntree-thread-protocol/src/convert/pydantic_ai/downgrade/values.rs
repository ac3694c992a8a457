//! Members with a fixed set of values, and when each value was added.

use std::borrow::Cow;

use super::super::model::{Object, Value};
use super::super::versions::Version;
use super::{ChangeKind, Downgrader};

/// A value as JSON, the first version with it, and the value that older versions have instead.
type Known = (&'static str, Version, &'static str);

const fn v(major: u16, minor: u16) -> Version {
    Version::new(major, minor)
}

const fn always(value: &'static str) -> Known {
    (value, Version::OLDEST, "")
}

const OUTCOMES: [Known; 4] = [
    always("\"success\""),
    always("\"failed\""),
    always("\"denied\""),
    ("\"interrupted\"", v(2, 10), "\"failed\""),
];

/// The first version with returns that request a retry.
pub(super) const TYPED_RETRIES: Version = v(2, 60);

const RETRIED: Known = ("\"retried\"", TYPED_RETRIES, "\"failed\"");

const DOWNLOADS: &[Known] = &[always("false"), always("true"), ("\"allow-local\"", v(1, 56), "true")];

/// The class, the member and its values.
const VALUES: &[(&str, &str, &[Known])] = &[
    ("request", "state", &[always("\"complete\""), always("\"interrupted\"")]),
    (
        "response",
        "state",
        &[
            always("\"complete\""),
            always("\"interrupted\""),
            ("\"incomplete\"", v(1, 97), "\"interrupted\""),
            ("\"suspended\"", v(2, 10), "\"incomplete\""),
        ],
    ),
    (
        "response",
        "finish_reason",
        &[
            always("\"stop\""),
            always("\"length\""),
            always("\"content_filter\""),
            always("\"tool_call\""),
            always("\"error\""),
        ],
    ),
    ("system-prompt", "scope", &[always("\"conversation\""), always("\"request\"")]),
    ("tool-return", "outcome", &[OUTCOMES[0], OUTCOMES[1], OUTCOMES[2], OUTCOMES[3], RETRIED]),
    ("builtin-tool-return", "outcome", &[OUTCOMES[0], OUTCOMES[1], OUTCOMES[2], OUTCOMES[3], RETRIED]),
    ("cache-point", "ttl", &[always("\"5m\""), always("\"1h\"")]),
    ("image-url", "force_download", DOWNLOADS),
    ("audio-url", "force_download", DOWNLOADS),
    ("video-url", "force_download", DOWNLOADS),
    ("document-url", "force_download", DOWNLOADS),
    (
        "uploaded-file",
        "provider_name",
        &[
            always("\"anthropic\""),
            always("\"openai\""),
            ("\"google\"", v(1, 97), "\"google-gla\""),
            ("\"google-cloud\"", v(1, 97), "\"google-vertex\""),
            always("\"google-gla\""),
            always("\"google-vertex\""),
            always("\"bedrock\""),
            always("\"xai\""),
        ],
    ),
];

fn values_of(class: &str, key: &str) -> Option<&'static [Known]> {
    let of_member = VALUES.iter().find(|(name, member, _)| *name == class && *member == key);
    of_member.map(|(_, _, values)| *values)
}

fn find(values: &[Known], value: &Value<'_>) -> Option<Known> {
    let json = match value.as_text() {
        Some(text) => Cow::Owned(format!("\"{text}\"")),
        None => value.to_json(),
    };
    values.iter().find(|(known, ..)| *known == json).copied()
}

/// True if the version has the value.
pub(super) fn is_known(class: &str, key: &str, value: &Value<'_>, to: Version) -> bool {
    values_of(class, key).and_then(|values| find(values, value)).is_some_and(|(_, since, _)| since <= to)
}

impl Downgrader {
    /// The value that the version has for a value of a member. `None` if it has none: the member is dropped.
    pub(super) fn value<'a>(
        &mut self,
        pointer: &str,
        class: &str,
        key: &str,
        value: &Value<'a>,
    ) -> Option<Value<'a>> {
        let Some(values) = values_of(class, key).filter(|_| !value.is_null()) else {
            return Some(value.clone());
        };
        let Some((json, since, mut instead)) = find(values, value) else {
            let message = format!("no known version has this value of \"{key}\"");
            self.note(format!("{pointer}/{key}"), ChangeKind::Dropped, message);
            return None;
        };
        if since <= self.to {
            return Some(value.clone());
        }
        while let Some((_, _, older)) = find(values, &Value::json(instead)).filter(|known| known.1 > self.to)
        {
            instead = older;
        }
        let message = format!("{json} was added in {since}; it is now {instead}");
        self.note(format!("{pointer}/{key}"), ChangeKind::Rewritten, message);
        Some(Value::json(instead))
    }

    /// Instructions of a run have an id since 2.60; 2.59 reads it as `null`.
    pub(super) fn instruction_ids<'a>(&mut self, pointer: &str, mut part: Object<'a>) -> Object<'a> {
        const RUN_IDS: Version = v(2, 60);
        let of_run = |object: &Object<'_>| object.text("id").is_some_and(|id| id.starts_with("run:"));
        if self.to >= RUN_IDS {
            return part;
        }
        let message = || format!("ids of a run's instructions were added in {RUN_IDS}");
        if of_run(&part) {
            self.note(format!("{pointer}/id"), ChangeKind::Dropped, message());
            part.replace("id", Value::NULL);
        }
        let Some(list) = part.get("instructions").map(Value::to_json) else { return part };
        let Some(mut items) = super::objects_in(&list) else { return part };
        let mut changed = false;
        for (index, item) in items.iter_mut().enumerate().filter(|(_, item)| of_run(item)) {
            self.note(format!("{pointer}/instructions/{index}/id"), ChangeKind::Dropped, message());
            item.replace("id", Value::NULL);
            changed = true;
        }
        let written = changed.then(|| super::list_json(items));
        drop(list);
        if let Some(written) = written {
            part.replace("instructions", written);
        }
        part
    }
}
