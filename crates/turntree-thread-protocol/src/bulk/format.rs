//! The table of formats for bulk conversion.

use std::fmt;
use std::io::Write as _;

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::chunked_bytes::ChunkedBytes;
use crate::convert::pydantic_ai::{ImportOptions, ViewOptions, from_pydantic_ai_json};
use crate::convert::vercel_ui::{
    DONE_FRAME, ExportOptions, LIMITS, UiImportOptions, from_ui_chunks_json, from_ui_messages_json,
    from_ui_stream_bytes,
};
use crate::{Thread, ThreadError};
use turntree_core::json::canonical::CanonicalForm;
use turntree_core::json::tagged::CowStr;
use turntree_core::json::{ParseError, parse_bytes};
use turntree_core::limits::Limits;

/// The options of each conversion.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// Options of the import from Pydantic AI.
    pub import: ImportOptions,
    /// Options of the export to Pydantic AI.
    pub view: ViewOptions,
    /// Further formats that can be read, after [`FORMATS`].
    pub sources: &'static [Format],
}

impl Settings {
    /// The limits of one document.
    pub fn limits(&self) -> &Limits {
        &self.import.limits
    }

    fn formats(&self) -> impl Iterator<Item = &'static Format> {
        FORMATS.iter().chain(self.sources)
    }

    /// Returns the readable format with a name.
    pub fn source(&self, name: &str) -> Option<&'static Format> {
        self.formats().find(|format| format.name == name && format.read.is_some())
    }

    /// The names of the formats that can be read.
    pub fn readable(&self) -> Vec<&'static str> {
        self.formats().filter(|format| format.read.is_some()).map(|format| format.name).collect()
    }

    /// Detects the format of a document. The document may be truncated or malformed further on.
    pub fn detect(&self, document: &[u8]) -> Option<&'static Format> {
        let hints = FormatHints::of(document)?;
        self.formats().find(|format| format.read.is_some() && (format.looks_like)(&hints))
    }
}

/// Reads one document as a thread.
pub type ReadFn = fn(&[u8], &Settings) -> Result<Thread, ThreadError>;

/// Writes a thread as one document on one line. May free the thread while it writes.
pub type WriteFn = fn(Thread, &Settings, &mut ChunkedBytes) -> Result<(), ThreadError>;

/// A format.
#[derive(Debug)]
pub struct Format {
    /// The name, as an argument of conversions.
    pub name: &'static str,
    /// The reader; `None` for formats that are only written.
    pub read: Option<ReadFn>,
    /// The writer; `None` for formats that are only read.
    pub write: Option<WriteFn>,
    /// The writer for a file of its own; `None` if it does not differ.
    pub write_whole: Option<WriteFn>,
    /// True if a document with these hints may have this format.
    pub looks_like: fn(&FormatHints) -> bool,
}

/// The import options of the Vercel AI SDK.
fn ui_import(settings: &Settings) -> UiImportOptions {
    let limits = Limits { bytes: settings.limits().bytes, ..LIMITS };
    UiImportOptions { profile: settings.import.profile, limits, ..UiImportOptions::default() }
}

/// All formats, in the order of detection.
pub static FORMATS: &[Format] = &[
    Format {
        name: "ui-messages",
        read: Some(|bytes, settings| from_ui_messages_json(bytes, settings.limits(), &ui_import(settings))),
        write: Some(|thread, _settings, out| {
            // Neither serialization nor writing to memory can fail: all members are strings, booleans or verbatim.
            let _infallible = out.write_all(b"[");
            let mut separator: &[u8] = b"";
            thread.each_ui_message(&ExportOptions::default(), |message| {
                let _infallible = out.write_all(std::mem::replace(&mut separator, b","));
                serde_json::to_writer(&mut *out, &message).unwrap_or_default();
            });
            let _infallible = out.write_all(b"]");
            Ok(())
        }),
        write_whole: None,
        looks_like: |hints| hints.list && hints.has("parts") && hints.has("role"),
    },
    Format {
        name: "ui-stream",
        read: Some(|bytes, settings| {
            let options = ui_import(settings);
            if bytes.trim_ascii_start().starts_with(b"[") {
                return from_ui_chunks_json(bytes, &options);
            }
            from_ui_stream_bytes(bytes, &options)
        }),
        write: Some(|thread, _settings, out| {
            // Neither serialization nor writing to memory can fail.
            for (index, chunk) in thread.into_ui_stream(&ExportOptions::default()).enumerate() {
                let _infallible = out.write_all(if index == 0 { b"[" } else { b"," });
                serde_json::to_writer(&mut *out, &chunk).unwrap_or_default();
            }
            let _infallible = out.write_all(b"]");
            Ok(())
        }),
        write_whole: Some(|thread, _settings, out| {
            let mut frame = Vec::new();
            for chunk in thread.into_ui_stream(&ExportOptions::default()) {
                frame.clear();
                chunk.write_frame(&mut frame);
                let _infallible = out.write_all(&frame);
            }
            let _infallible = out.write_all(DONE_FRAME);
            Ok(())
        }),
        looks_like: |hints| hints.stream || (hints.list && hints.has("type") && !hints.has("role")),
    },
    Format {
        name: "pydantic-ai",
        read: Some(|bytes, settings| from_pydantic_ai_json(bytes, &settings.import)),
        write: Some(|thread, settings, out| {
            thread.write_pydantic_ai_json(&settings.view, |piece| out.extend(piece))
        }),
        write_whole: None,
        looks_like: |hints| hints.list && (hints.has("parts") || hints.keys.is_empty()),
    },
    Format {
        name: "thread-protocol",
        read: Some(|bytes, settings| Thread::from_json(bytes, settings.limits())),
        write: Some(|thread, _settings, out| {
            write_spent(thread, out);
            Ok(())
        }),
        write_whole: None,
        looks_like: |hints| !hints.list && hints.has("actions"),
    },
    Format {
        name: "thread-protocol-canonical",
        read: Some(|bytes, settings| Thread::from_json(bytes, settings.limits())),
        write: Some(|thread, _settings, out| {
            thread.write_canonical_json(CanonicalForm::Exact, |piece| out.extend(piece))
        }),
        write_whole: None,
        looks_like: |_| false,
    },
];

/// As [`Thread::to_json`], but frees each action after writing it, so that a long thread and its text are never both in
/// memory.
fn write_spent(mut thread: Thread, out: &mut ChunkedBytes) {
    let (actions, extra) = (std::mem::take(&mut thread.actions), std::mem::take(&mut thread.extra));
    let frame = thread.to_json();
    // `actions` is the last known member, and its list is empty now.
    out.extend(frame.strip_suffix(b"]}").unwrap_or_default());
    for (index, action) in actions.0.into_iter().enumerate() {
        if index > 0 {
            out.extend(b",");
        }
        // Serialization cannot fail: keys are strings, numbers are integers or verbatim.
        serde_json::to_writer(&mut *out, &*action).unwrap_or_default();
    }
    out.extend(b"]");
    for (key, value) in extra.iter() {
        out.extend(b",");
        serde_json::to_writer(&mut *out, key).unwrap_or_default();
        out.extend(b":");
        out.extend(value.get().as_bytes());
    }
    out.extend(b"}");
}

/// Returns the format with a name.
pub fn named(name: &str) -> Option<&'static Format> {
    FORMATS.iter().find(|format| format.name == name)
}

/// The names of the formats that can be written.
pub fn writable() -> Vec<&'static str> {
    FORMATS.iter().filter(|format| format.write.is_some()).map(|format| format.name).collect()
}

/// Hints about the format from the start of a document.
#[derive(Debug, Default)]
pub struct FormatHints {
    /// True for a list.
    pub list: bool,
    /// True for a stream of server-sent events with objects.
    pub stream: bool,
    /// The keys of the object, or of the first object of the list.
    pub keys: Vec<String>,
}

impl FormatHints {
    /// True if the object has this key.
    pub fn has(&self, key: &str) -> bool {
        self.keys.iter().any(|known| known == key)
    }

    /// Reads the hints; `None` if the document is not an object, a list or a stream.
    pub fn of(document: &[u8]) -> Option<Self> {
        let document = document.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(document).trim_ascii_start();
        if is_stream(document) {
            return Some(Self { stream: true, ..Self::default() });
        }
        let mut hints = Self { list: document.first() == Some(&b'['), ..Self::default() };
        if !hints.list && document.first() != Some(&b'{') {
            return None;
        }
        let mut deserializer = serde_json::Deserializer::from_slice(document);
        // Keys before an error count: the reader of the format reports the error.
        let _ = HintVisitor { hints: &mut hints, depth: 0 }.deserialize(&mut deserializer);
        Some(hints)
    }
}

/// Why a document of an unknown format is not JSON: it is empty, truncated or damaged. `None` if it is JSON.
pub fn json_error(document: &[u8]) -> Option<ParseError> {
    let document = document.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(document);
    parse_bytes::<IgnoredAny>(document, &Limits::default()).err()
}

/// Lines of server-sent events that do not indicate their content, and comments.
const OTHER_FIELDS: &[&[u8]] = &[b":", b"event:", b"id:", b"retry:"];

/// True if the first event of a stream has an object or ends the stream.
fn is_stream(document: &[u8]) -> bool {
    let lines = document.split(|byte| matches!(byte, b'\n' | b'\r')).map(<[u8]>::trim_ascii);
    let first = lines
        .take(100)
        .find(|line| !line.is_empty() && !OTHER_FIELDS.iter().any(|field| line.starts_with(field)));
    first
        .and_then(|line| line.strip_prefix(b"data:"))
        .map(<[u8]>::trim_ascii_start)
        .is_some_and(|data| data.starts_with(b"{") || data == b"[DONE]")
}

struct HintVisitor<'s> {
    hints: &'s mut FormatHints,
    depth: u8,
}

impl<'de> DeserializeSeed<'de> for HintVisitor<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for HintVisitor<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object, or a list of objects")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<CowStr<'de>>()? {
            self.hints.keys.push(key.as_str().to_owned());
            map.next_value::<IgnoredAny>()?;
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        if self.depth == 0 {
            list.next_element_seed(HintVisitor { hints: &mut *self.hints, depth: 1 })?;
        }
        Err(A::Error::custom("seen enough"))
    }
}
