//! Files in prompts and in the content of tool returns.
//!
//! Versions from 1.50 turn each mapping in the content of a return that has the form of a file into a file object, and
//! drop its other members. Versions that record files do so only for files of the record. Some versions cannot write a
//! file by URL whose media type is unknown.

use std::borrow::Cow;

use super::super::model::{Object, Value};
use super::super::read::read_object;
use super::super::validation::is_base64;
use super::super::versions::Version;
use super::replacements::digest_of;
use super::values::is_known;
use super::{ChangeKind, Downgrader};
use crate::issue::escape;

const URLS: [&str; 4] = ["image-url", "audio-url", "video-url", "document-url"];
const FILES_IN_RETURNS: Version = Version::new(1, 50);
const TYPED_FILES_IN_RETURNS: Version = Version::new(2, 42);
const UPLOADED_FILES: Version = Version::new(1, 65);
/// Until 1.0.15, files need an identifier, and a file without any media type can be stored; URLs need one since 1.0.12.
const IDENTIFIED_URLS: Version = Version { major: 1, minor: 0, patch: 12 };
const DERIVED_IDENTIFIERS: Version = Version { major: 1, minor: 0, patch: 16 };
const UNKNOWN_MEDIA_TYPES: Version = Version::new(2, 55);
const ANY_MEDIA_TYPE: &str = "application/octet-stream";

/// True if a JSON value has mappings that the newest version turns into files if there is no record of files.
pub(super) fn has_unrecorded_files(content: &Value<'_>) -> bool {
    let text = content.to_json();
    let object_at = |span: &Span| text.get(span.start..span.end).and_then(read_object);
    let is_link = |object: Object<'_>| {
        let has_kind = object.text("kind").is_some_and(|kind| URLS.contains(&&*kind));
        let is_web = object.text("url").is_some_and(|url| {
            url.split_once(':').is_some_and(|(scheme, _)| {
                scheme.eq_ignore_ascii_case("http") || scheme.eq_ignore_ascii_case("https")
            })
        });
        has_kind && is_web && object.get("media_type").is_some_and(Value::is_text)
    };
    objects_with_kind(&text).iter().filter_map(object_at).any(is_link)
}

impl Downgrader {
    /// Rewrites the files in the content of a tool return.
    pub(super) fn files_in_content(&mut self, pointer: &str, content: &Value<'_>) -> Option<String> {
        if self.to < FILES_IN_RETURNS || self.to.records_files() {
            return None;
        }
        let text = content.to_json();
        let (mut written, mut copied) = (String::new(), 0);
        for span in objects_with_kind(&text) {
            let object = text.get(span.start..span.end).and_then(read_object);
            // A file inside a file is data.
            let Some(object) = object.filter(|object| span.start >= copied && self.becomes_file(object))
            else {
                continue;
            };
            let class = object.text("kind").unwrap_or_default().into_owned();
            let place = format!("{pointer}{}", span.pointer);
            let changes = self.changes.len();
            let older = self.members(&place, &class, &object);
            let older = self.media_type(&place, &class, older);
            written.push_str(text.get(copied..span.start).unwrap_or_default());
            if self.changes.len() > changes {
                written.push_str(&Value::Object(older).to_json());
            } else {
                written.push_str(text.get(span.start..span.end).unwrap_or_default());
            }
            copied = span.end;
        }
        (copied > 0).then(|| written + text.get(copied..).unwrap_or_default())
    }

    /// True if the version turns this mapping into a file.
    fn becomes_file(&self, object: &Object<'_>) -> bool {
        let null_or_text = |key: &str| object.get(key).is_none_or(|value| value.is_null() || value.is_text());
        let null_or_object =
            |key: &str| object.get(key).is_none_or(|value| value.is_null() || value.is_object());
        let text = |key: &str| object.get(key).is_some_and(Value::is_text);
        let kind = object.text("kind").unwrap_or_default();
        if !null_or_object("vendor_metadata") || !null_or_text("identifier") {
            return false;
        }
        match &*kind {
            "binary" => text("media_type") && object.text("data").is_some_and(|data| is_base64(&data)),
            "uploaded-file" => {
                self.to >= UPLOADED_FILES
                    && text("file_id")
                    && null_or_text("media_type")
                    && object
                        .get("provider_name")
                        .is_some_and(|name| is_known(&kind, "provider_name", name, self.to))
            }
            kind if URLS.contains(&kind) => {
                let typed = text("media_type") || self.to < TYPED_FILES_IN_RETURNS;
                let download = object.get("force_download");
                text("url")
                    && typed
                    && null_or_text("media_type")
                    && download.is_none_or(|download| is_known(kind, "force_download", download, self.to))
            }
            _ => false,
        }
    }

    /// Sets a media type that the version cannot infer and cannot omit.
    pub(super) fn media_type<'a>(&mut self, pointer: &str, class: &str, mut item: Object<'a>) -> Object<'a> {
        let unknown = match item.get("media_type") {
            None if self.to < DERIVED_IDENTIFIERS => false,
            None => !item.text("url").is_some_and(|url| has_media_type(class, &url)),
            Some(value) => value.is_null(),
        };
        if !URLS.contains(&class) || !unknown || self.to >= UNKNOWN_MEDIA_TYPES {
            return item;
        }
        let message = format!(
            "unknown media types can be stored since {UNKNOWN_MEDIA_TYPES}; it is now \"{ANY_MEDIA_TYPE}\""
        );
        let missing = item.get("media_type").is_none();
        let place = if missing { pointer.to_owned() } else { format!("{pointer}/media_type") };
        self.note(place, ChangeKind::Rewritten, message);
        if missing {
            item.push("media_type", Value::text(ANY_MEDIA_TYPE));
        } else {
            item.replace("media_type", Value::text(ANY_MEDIA_TYPE));
        }
        item
    }

    /// Sets the identifier of a file that the version requires and cannot derive.
    pub(super) fn identified<'a>(&mut self, pointer: &str, class: &str, mut file: Object<'a>) -> Object<'a> {
        let needed = class == "binary" || (URLS.contains(&class) && self.to >= IDENTIFIED_URLS);
        if !needed || self.to >= DERIVED_IDENTIFIERS || file.get("identifier").is_some_and(Value::is_text) {
            return file;
        }
        let made = Value::Text(Cow::Owned(digest_of(
            &[class.as_bytes(), Value::Object(file.clone()).to_json().as_bytes()],
            3,
        )));
        let message = format!("identifiers are derived since {DERIVED_IDENTIFIERS}; this one is made up");
        if file.get("identifier").is_some() {
            self.note(format!("{pointer}/identifier"), ChangeKind::Rewritten, message);
            file.replace("identifier", made);
        } else {
            self.note(pointer.to_owned(), ChangeKind::Rewritten, message);
            file.push("identifier", made);
        }
        file
    }

    /// A file part, whose content is a file.
    pub(super) fn file_part<'a>(&mut self, pointer: &str, part: &Object<'a>) -> Object<'a> {
        let mut part = self.members(pointer, "file", part);
        if self.to < DERIVED_IDENTIFIERS {
            let content = part.get("content").map(Value::to_json).unwrap_or_default().into_owned();
            if let Some(file) = read_object(&content) {
                let file = self.identified(&format!("{pointer}/content"), "binary", file);
                part.replace("content", Value::Json(Cow::Owned(Value::Object(file).to_json().into_owned())));
            }
        }
        part
    }
}

/// True if every version infers the media type of a URL: it ends in an extension, or a video host is known.
fn has_media_type(class: &str, url: &str) -> bool {
    let after_scheme = url.split_once("://").map_or(url, |(_, rest)| rest);
    let (host, path) = after_scheme.split_once('/').unwrap_or((after_scheme, ""));
    if class == "video-url" && matches!(host, "youtu.be" | "youtube.com" | "www.youtube.com") {
        return true;
    }
    let name = path.rsplit('/').next().unwrap_or_default();
    name.rsplit_once('.').is_some_and(|(stem, extension)| {
        let plain = extension.bytes().all(|byte| byte.is_ascii_alphanumeric());
        !stem.is_empty() && plain && (1..=5).contains(&extension.len())
    })
}

/// An object in a JSON text.
struct Span {
    start: usize,
    end: usize,
    /// The JSON pointer from the root of the text.
    pointer: String,
}

/// A container that is being read.
struct Frame<'t> {
    start: usize,
    is_object: bool,
    has_kind: bool,
    key: &'t str,
    index: usize,
}

/// The objects with a member `kind` in a valid JSON text, outer ones first.
fn objects_with_kind(text: &str) -> Vec<Span> {
    let (mut found, mut open): (Vec<Span>, Vec<Frame<'_>>) = (Vec::new(), Vec::new());
    if memchr::memmem::find(text.as_bytes(), b"\"kind\"").is_none() {
        return found;
    }
    let mut at = 0;
    while let Some(byte) = text.as_bytes().get(at) {
        match byte {
            b'{' | b'[' => {
                let is_object = *byte == b'{';
                open.push(Frame { start: at, is_object, has_kind: false, key: "", index: 0 });
            }
            b',' => {
                if let Some(frame) = open.last_mut() {
                    frame.index += 1;
                }
            }
            b'}' | b']' => {
                if let Some(frame) = open.pop().filter(|frame| frame.has_kind) {
                    found.push(Span { start: frame.start, end: at + 1, pointer: pointer_of(&open) });
                }
            }
            b'"' => {
                let end = string_end(text.as_bytes(), at);
                let after = text.as_bytes().get(end..).unwrap_or_default();
                let is_key = after.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b':');
                if let Some(frame) = open.last_mut().filter(|frame| is_key && frame.is_object) {
                    frame.key = text.get(at..end).unwrap_or_default();
                    frame.has_kind |= frame.key == "\"kind\"";
                }
                at = end;
                continue;
            }
            _ => {}
        }
        at += 1;
    }
    found.sort_by_key(|span| span.start);
    found
}

/// The offset after the string that starts at `start`.
fn string_end(text: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while let Some(rest) = text.get(at..) {
        match memchr::memchr2(b'"', b'\\', rest) {
            Some(mark) if rest.get(mark) == Some(&b'"') => return at + mark + 1,
            Some(escape) => at += escape + 2,
            None => break,
        }
    }
    text.len()
}

fn pointer_of(open: &[Frame<'_>]) -> String {
    let mut pointer = String::new();
    for frame in open {
        pointer.push('/');
        if frame.is_object {
            let key: Cow<'_, str> = serde_json::from_str(frame.key).unwrap_or_default();
            pointer.push_str(&escape(&key));
        } else {
            pointer.push_str(&frame.index.to_string());
        }
    }
    pointer
}
