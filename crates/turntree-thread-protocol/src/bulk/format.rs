//! The formats that bulk conversion knows, as a table: one row a format.

use std::fmt;
use std::io::Write as _;

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::chunked_bytes::ChunkedBytes;
use crate::convert::pydantic_ai::{ImportOptions, ViewOptions, from_pydantic_ai_json};
use crate::convert::vercel_ui::{
    DONE_FRAME, ExportOptions, LIMITS, UiImportOptions, from_ui_chunks_json, from_ui_messages,
    from_ui_stream_bytes, ui_messages_from_json,
};
use crate::{Thread, ThreadError};
use turntree_core::json::tagged::CowStr;
use turntree_core::limits::Limits;

/// How each conversion is made.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// How a thread is made of a history.
    pub import: ImportOptions,
    /// How a history is made of a thread.
    pub view: ViewOptions,
}

impl Settings {
    /// What one document may cost to read.
    pub fn limits(&self) -> &Limits {
        &self.import.limits
    }
}

/// Makes a thread of one document.
pub type ReadFn = fn(&[u8], &Settings) -> Result<Thread, ThreadError>;

/// Writes a thread as one document on one line, and may let go of the thread as it is written.
pub type WriteFn = fn(Thread, &Settings, &mut ChunkedBytes) -> Result<(), ThreadError>;

/// One format.
#[derive(Debug)]
pub struct Format {
    /// What it is called: an argument of conversions.
    pub name: &'static str,
    /// How to read it; `None` where it is only written.
    pub read: Option<ReadFn>,
    /// How to write it; `None` where it is only read.
    pub write: Option<WriteFn>,
    /// How to write it where it is a file of its own; `None` where that is no different.
    pub write_whole: Option<WriteFn>,
    /// Whether a document looks like it.
    pub looks_like: fn(&FormatHints) -> bool,
}

/// How chats of the Vercel AI SDK are read.
fn ui_import(settings: &Settings) -> UiImportOptions {
    let limits = Limits { bytes: settings.limits().bytes, ..LIMITS };
    UiImportOptions { profile: settings.import.profile, limits, ..UiImportOptions::default() }
}

/// Every format, in the order in which they are tried.
pub static FORMATS: &[Format] = &[
    Format {
        name: "ui-messages",
        read: Some(|bytes, settings| {
            let messages = ui_messages_from_json(bytes, settings.limits())?;
            Ok(from_ui_messages(&messages, &ui_import(settings)))
        }),
        write: Some(|thread, _settings, out| {
            // No member of a message can fail to serialize: all are strings, booleans or verbatim.
            serde_json::to_writer(out, &thread.to_ui_messages(&ExportOptions::default())).unwrap_or_default();
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
            // Neither a chunk nor the memory it is written to can fail.
            for (index, chunk) in thread.to_ui_stream(&ExportOptions::default()).enumerate() {
                let _infallible = out.write_all(if index == 0 { b"[" } else { b"," });
                serde_json::to_writer(&mut *out, &chunk).unwrap_or_default();
            }
            let _infallible = out.write_all(b"]");
            Ok(())
        }),
        write_whole: Some(|thread, _settings, out| {
            let mut frame = Vec::new();
            for chunk in thread.to_ui_stream(&ExportOptions::default()) {
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
        write: Some(|thread, _settings, out| thread.write_canonical_json(|piece| out.extend(piece))),
        write_whole: None,
        looks_like: |_| false,
    },
];

/// Writes a thread as [`Thread::to_json`] does, and lets go of each action when it is written: a long thread and its
/// text are never in memory both.
fn write_spent(mut thread: Thread, out: &mut ChunkedBytes) {
    let (actions, extra) = (std::mem::take(&mut thread.actions), std::mem::take(&mut thread.extra));
    let frame = thread.to_json();
    // The list of actions is the last member that is known, and now it is empty.
    out.extend(frame.strip_suffix(b"]}").unwrap_or_default());
    for (index, action) in actions.0.into_iter().enumerate() {
        if index > 0 {
            out.extend(b",");
        }
        // No member of a thread can fail to serialize: keys are strings, numbers are integers or verbatim.
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

/// The format of a name.
pub fn named(name: &str) -> Option<&'static Format> {
    FORMATS.iter().find(|format| format.name == name)
}

/// The names of the formats that can be read.
pub fn readable() -> Vec<&'static str> {
    FORMATS.iter().filter(|format| format.read.is_some()).map(|format| format.name).collect()
}

/// The names of the formats that can be written.
pub fn writable() -> Vec<&'static str> {
    FORMATS.iter().filter(|format| format.write.is_some()).map(|format| format.name).collect()
}

/// The format that a document looks like. The document may be cut short or broken further on.
pub fn detect(document: &[u8]) -> Option<&'static Format> {
    let hints = FormatHints::of(document)?;
    FORMATS.iter().find(|format| format.read.is_some() && (format.looks_like)(&hints))
}

/// What the beginning of a document says about its format.
#[derive(Debug, Default)]
pub struct FormatHints {
    /// Whether it is a list.
    pub list: bool,
    /// Whether it is a stream of server-sent events that hold objects.
    pub stream: bool,
    /// The names of the members of the object, or of the first object of the list.
    pub keys: Vec<String>,
}

impl FormatHints {
    /// Whether there is a member of this name.
    pub fn has(&self, key: &str) -> bool {
        self.keys.iter().any(|known| known == key)
    }

    /// Reads it; `None` for what is neither an object nor a list nor a stream.
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
        // What is found before an error counts: a broken document is told by its reader what is wrong with it.
        let _ = HintVisitor { hints: &mut hints, depth: 0 }.deserialize(&mut deserializer);
        Some(hints)
    }
}

/// Fields of server-sent events that say nothing about what they hold; a comment has no name.
const OTHER_FIELDS: &[&[u8]] = &[b":", b"event:", b"id:", b"retry:"];

/// Whether the first event of a stream holds an object, or is the mark of its end.
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
