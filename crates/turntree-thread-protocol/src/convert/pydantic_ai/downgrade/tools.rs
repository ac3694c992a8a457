//! Parts of tools: returns that request a retry, and the contents of the tools of Pydantic AI itself.

use super::super::model::{Object, Part, Value};
use super::super::read::read_object;
use super::super::versions::{FILE_DIGESTS, Version};
use super::files::has_unrecorded_files;
use super::values::TYPED_RETRIES;
use super::{ChangeKind, Downgrader};
use crate::issue::escape;

const TOOL_KINDS: Version = Version::new(1, 95);
/// Tool kinds that were the only allowed values until the member accepted any string. Since then, a return that is not
/// a success may have any content.
const FIRST_TOOL_KINDS: [(&str, Version); 2] =
    [("tool-search", TOOL_KINDS), ("capability-load", Version::new(1, 105))];
const OPEN_TOOL_KINDS: Version = Version::new(2, 58);
/// Versions until this one drop members of a typed content that they do not know.
const OPEN_CONTENTS: Version = Version::new(2, 66);
/// Search results have descriptions until this version.
const SHORT_MATCHES: Version = Version::new(2, 4);
const REPORTED_LOADS: Version = Version::new(2, 62);

/// A member of a typed content, with the versions that have it.
struct Field {
    key: &'static str,
    form: Form,
    required: bool,
    since: Version,
    until: Version,
}

/// The form of a value.
#[derive(Clone, Copy)]
enum Form {
    Text,
    NullOrText,
    Texts,
    Matches,
}

const fn field(key: &'static str, form: Form, required: bool) -> Field {
    Field { key, form, required, since: TOOL_KINDS, until: Version::END }
}

const SEARCH_ARGS: &[Field] = &[field("queries", Form::Texts, true)];
const SEARCH_CONTENT: &[Field] =
    &[field("discovered_tools", Form::Matches, true), field("message", Form::Text, false)];
const MATCH: &[Field] = &[
    field("name", Form::Text, true),
    Field { until: SHORT_MATCHES, ..field("description", Form::NullOrText, false) },
];
const LOAD_ARGS: &[Field] = &[field("id", Form::Text, true)];
const LOAD_CONTENT: &[Field] = &[
    field("instructions", Form::Text, false),
    Field { since: REPORTED_LOADS, ..field("message", Form::Text, false) },
];

/// The required tool name, the member with the content, and its fields, of the parts of a tool of Pydantic AI.
fn shape(class: &str, kind: &str) -> Option<(&'static str, &'static str, &'static [Field])> {
    Some(match (class, kind) {
        ("tool-call", "tool-search") => ("search_tools", "args", SEARCH_ARGS),
        ("tool-return", "tool-search") => ("search_tools", "content", SEARCH_CONTENT),
        ("builtin-tool-call", "tool-search") => ("tool_search", "args", SEARCH_ARGS),
        ("builtin-tool-return", "tool-search") => ("tool_search", "content", SEARCH_CONTENT),
        ("tool-call", "capability-load") => ("load_capability", "args", LOAD_ARGS),
        ("tool-return", "capability-load") => ("load_capability", "content", LOAD_CONTENT),
        _ => return None,
    })
}

impl Downgrader {
    pub(super) fn tool<'a>(&mut self, pointer: &str, class: &str, part: &Part<'a>) -> Part<'a> {
        if class == "tool-return"
            && self.to < TYPED_RETRIES
            && part.text("outcome").as_deref() == Some("retried")
        {
            let message = format!(
                "returns that request a retry exist since {TYPED_RETRIES}; converted to \"retry-prompt\""
            );
            self.note(pointer.to_owned(), ChangeKind::Rewritten, message);
            let retained =
                ["content", "tool_name", "tool_call_id", "timestamp", "outcome", "part_kind", FILE_DIGESTS];
            self.note_lost(pointer, class, part, &retained);
            return super::replacements::retry_prompt(part);
        }
        let mut older = self.members(pointer, class, part);
        let digests = part.get(FILE_DIGESTS).filter(|_| !self.to.records_files());
        let content = part.get("content");
        // An empty record matters only where the content has mappings that look like files.
        if digests.is_some_and(|digests| {
            digests.as_json() != Some("[]") || content.is_some_and(has_unrecorded_files)
        }) {
            let message =
                format!("this version does not record files in returns, as \"{FILE_DIGESTS}\" does");
            self.note(format!("{pointer}/{FILE_DIGESTS}"), ChangeKind::Dropped, message);
        }
        self.tool_kind(pointer, class, &mut older);
        if class.ends_with("return") {
            let place = format!("{pointer}/content");
            let content = older.get("content").and_then(|content| self.files_in_content(&place, content));
            if let Some(content) = content {
                older.replace("content", Value::Json(content.into()));
            }
        }
        older
    }

    /// Removes a kind that the version refuses, and members of the content that it drops.
    fn tool_kind(&mut self, pointer: &str, class: &str, part: &mut Part<'_>) {
        let Some(kind) = part.text("tool_kind").map(std::borrow::Cow::into_owned) else { return };
        let is_open = self.to >= OPEN_TOOL_KINDS;
        let is_known = FIRST_TOOL_KINDS.iter().any(|(name, since)| *name == kind && *since <= self.to);
        let mut refused = !is_open && !is_known;
        let failed = part.text("outcome").is_some_and(|outcome| outcome != "success");
        if let Some((name, member, fields)) = shape(class, &kind).filter(|_| !refused) {
            let is_call = member == "args";
            if is_open && failed && !is_call {
                return;
            }
            let place = format!("{pointer}/{member}");
            let content = part.get(member).cloned().unwrap_or(Value::NULL);
            if part.text("tool_name").as_deref() != Some(name) {
                refused = true;
            } else if !(is_call && (content.is_null() || content.is_text())) {
                let content = content.to_json();
                let object = read_object(&content).filter(|object| self.fits(object, fields));
                let older = object.as_ref().and_then(|object| self.typed(&place, object, fields));
                refused = object.is_none();
                if let Some(older) = older {
                    part.replace(member, Value::Json(older.into()));
                }
            }
        }
        if refused {
            let message = format!("this version has no tools of kind \"{kind}\" with this content");
            self.note(format!("{pointer}/tool_kind"), ChangeKind::Dropped, message);
            part.replace("tool_kind", Value::NULL);
        }
    }

    /// A typed content without the members that the version drops, and with those that it requires; `None` if nothing
    /// changes.
    fn typed(&mut self, pointer: &str, object: &Object<'_>, fields: &[Field]) -> Option<String> {
        let before = self.changes.len();
        let mut older = self.trimmed(pointer, object, fields);
        let mut changed = self.changes.len() > before;
        for nested in fields.iter().filter(|field| matches!(field.form, Form::Matches)) {
            let list = object.get(nested.key).map(Value::to_json)?;
            let matches = super::objects_in(&list)?;
            let place = format!("{pointer}/{}", nested.key);
            let mut shorter = Vec::with_capacity(matches.len());
            for (index, found) in matches.iter().enumerate() {
                let mut one = self.trimmed(&format!("{place}/{index}"), found, MATCH);
                if self.to < SHORT_MATCHES && one.get("description").is_none() {
                    // These versions require the member and accept `null`.
                    one.push("description", Value::NULL);
                    changed = true;
                }
                shorter.push(one);
            }
            changed |= self.changes.len() > before;
            let written = super::list_json(shorter);
            older.replace(nested.key, written);
        }
        changed.then(|| Value::Object(older).to_json().into_owned())
    }

    /// The members of a typed content that the version retains.
    fn trimmed<'a>(&mut self, pointer: &str, object: &Object<'a>, fields: &[Field]) -> Object<'a> {
        let mut older = Object::with_capacity(object.len() + 1);
        for (key, value) in object.entries() {
            let field = fields.iter().find(|field| field.key == key);
            if self.to >= OPEN_CONTENTS
                || field.is_some_and(|field| field.since <= self.to && self.to < field.until)
            {
                older.push(key.clone(), value.clone());
                continue;
            }
            let message = format!("this version has no \"{key}\" here");
            self.note(format!("{pointer}/{}", escape(key)), ChangeKind::Dropped, message);
        }
        older
    }

    /// True if the members of a typed content have their forms.
    fn fits(&self, object: &Object<'_>, fields: &[Field]) -> bool {
        let has_form = |field: &&Field| {
            let Some(value) = object.get(field.key) else { return !field.required };
            match field.form {
                Form::Text => value.is_text(),
                Form::NullOrText => value.is_null() || value.is_text(),
                Form::Texts => serde_json::from_str::<Vec<String>>(&value.to_json()).is_ok(),
                Form::Matches => {
                    let list = value.to_json();
                    let fits = |found: &Object<'_>| self.fits(found, MATCH);
                    super::objects_in(&list).is_some_and(|matches| matches.iter().all(fits))
                }
            }
        };
        let exists = |field: &&Field| field.since <= self.to && self.to < field.until;
        fields.iter().filter(exists).all(|field| has_form(&field))
    }
}
