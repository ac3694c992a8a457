//! The file format: JSON, version 1, described in `docs/replay.md`. Unknown members are preserved.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::http::error::HostFailure;

/// The value of the member `format`.
const FORMAT: &str = "turntree.replay";

/// The newest supported version, and the version that is written.
const VERSION: u64 = 1;

/// Maximum size in bytes of a file.
const MAX_FILE: u64 = 256 * 1024 * 1024;

/// The errors of a cassette.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CassetteError {
    /// The file does not exist.
    #[error("no recording at {}; record it with mode=\"record\"", path.display())]
    Missing {
        /// The file.
        path: PathBuf,
    },
    /// The file cannot be read or written.
    #[error("cannot {action} the recording {}: {reason}", path.display())]
    File {
        /// Read or write.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's error message.
        reason: String,
    },
    /// The file has another format, is truncated, or damaged.
    #[error("cannot play the recording {}: {reason}", path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// The place, the reason and the remedy.
        reason: String,
    },
    /// An ignored path is not a JSON pointer.
    #[error("invalid JSON pointer {text:?}; write it as \"/messages/0/id\", with * for any key or index")]
    Pointer {
        /// The path as given.
        text: String,
    },
    /// The redaction hook failed.
    #[error("the redaction hook failed on an exchange of {}: {failure}", path.display())]
    Hook {
        /// The file.
        path: PathBuf,
        /// The failure.
        failure: HostFailure,
    },
}

/// The content of a file.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Recording {
    pub(super) format: String,
    pub(super) version: u64,
    pub(super) exchanges: Vec<Recorded>,
    /// Unknown members.
    #[serde(flatten)]
    pub(super) rest: Map<String, Value>,
}

impl Default for Recording {
    fn default() -> Self {
        Self { format: FORMAT.to_owned(), version: VERSION, exchanges: Vec::new(), rest: Map::new() }
    }
}

/// A request with its response, or with the failure that occurred instead.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Recorded {
    pub(super) request: RecordedRequest,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) response: Option<RecordedResponse>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) failure: Option<RecordedFailure>,
    #[serde(flatten)]
    pub(super) rest: Map<String, Value>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct RecordedRequest {
    pub(super) method: String,
    pub(super) url: String,
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub(super) headers: Map<String, Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) body: Option<Payload>,
    #[serde(flatten)]
    pub(super) rest: Map<String, Value>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct RecordedResponse {
    pub(super) status: u16,
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub(super) headers: Map<String, Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) body: Option<Payload>,
    /// The failure that ended the body early.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) failure: Option<RecordedFailure>,
    #[serde(flatten)]
    pub(super) rest: Map<String, Value>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct RecordedFailure {
    pub(super) kind: FailureKind,
    pub(super) message: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum FailureKind {
    /// The connection failed.
    Network,
    /// No connection within the connect timeout.
    ConnectTimeout,
    /// No headers within the header timeout.
    HeadersTimeout,
    /// The client dropped the request or the body.
    Closed,
}

/// A body.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Payload {
    /// One JSON document.
    Json(Value),
    /// Text in one piece.
    Text(String),
    /// Bytes in one piece.
    Base64(String),
    /// A stream, in chunks as they arrived.
    Chunks(Vec<Chunk>),
}

/// A chunk of a stream: text, or bytes if it is not UTF-8 (a chunk may end inside a character).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub(super) enum Chunk {
    Text(String),
    Binary { base64: String },
}

impl Payload {
    /// A body in one piece; None if it is empty.
    pub(super) fn of(bytes: &[u8], is_json: bool) -> Option<Self> {
        if bytes.is_empty() {
            return None;
        }
        let Ok(text) = std::str::from_utf8(bytes) else { return Some(Self::Base64(STANDARD.encode(bytes))) };
        let json = is_json.then(|| serde_json::from_str::<Value>(text).ok()).flatten();
        // Some numbers and duplicate keys do not survive parsing; then the text is recorded.
        let json = json.filter(|value| {
            let written = value.to_string();
            written == without_spaces(text)
        });
        Some(json.map_or_else(|| Self::Text(text.to_owned()), Self::Json))
    }

    /// The bytes, in chunks.
    ///
    /// # Errors
    /// The reason why the base64 does not decode.
    pub(super) fn pieces(&self) -> Result<Vec<Vec<u8>>, String> {
        let decode = |text: &str| {
            STANDARD.decode(text).map_err(|error| format!("its base64 does not decode ({error})"))
        };
        match self {
            Self::Json(value) => Ok(vec![value.to_string().into_bytes()]),
            Self::Text(text) => Ok(vec![text.clone().into_bytes()]),
            Self::Base64(text) => Ok(vec![decode(text)?]),
            Self::Chunks(chunks) => {
                let piece = |chunk: &Chunk| match chunk {
                    Chunk::Text(text) => Ok(text.clone().into_bytes()),
                    Chunk::Binary { base64 } => decode(base64),
                };
                chunks.iter().map(piece).collect()
            }
        }
    }
}

impl Chunk {
    pub(super) fn of(bytes: &[u8]) -> Self {
        match std::str::from_utf8(bytes) {
            Ok(text) => Self::Text(text.to_owned()),
            Err(_) => Self::Binary { base64: STANDARD.encode(bytes) },
        }
    }
}

/// JSON text without the spaces between its tokens.
fn without_spaces(text: &str) -> String {
    let (mut in_string, mut escaped) = (false, false);
    let keep = |character: &char| {
        if in_string {
            in_string = escaped || *character != '"';
            escaped = !escaped && *character == '\\';
            return true;
        }
        in_string = *character == '"';
        !matches!(character, ' ' | '\t' | '\n' | '\r')
    };
    text.chars().filter(keep).collect()
}

/// Reads and validates a file.
pub(super) fn read(path: &Path) -> Result<Recording, CassetteError> {
    let unreadable = |reason: String| CassetteError::File { action: "read", path: path.to_owned(), reason };
    let wrong = |reason: String| CassetteError::Format { path: path.to_owned(), reason };
    let size = match std::fs::metadata(path) {
        // A device may have no end.
        Ok(metadata) if !metadata.is_file() => return Err(unreadable("it is not a file".to_owned())),
        Ok(metadata) => metadata.len(),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Err(CassetteError::Missing { path: path.to_owned() });
        }
        Err(error) => return Err(unreadable(error.to_string())),
    };
    if size > MAX_FILE {
        return Err(wrong(format!("{size} bytes are more than the limit of {MAX_FILE}; split it")));
    }
    let bytes = std::fs::read(path).map_err(|error| unreadable(error.to_string()))?;
    let text = simdutf8::compat::from_utf8(&bytes)
        .map_err(|error| wrong(format!("it is not UTF-8 ({error}); record it again")))?;
    let value: Value = serde_json::from_str(text).map_err(|error| {
        let why = if error.is_eof() { "it is truncated" } else { "it is not JSON" };
        wrong(format!("{why} ({error}); restore it or record it again"))
    })?;
    if value.get("format").and_then(Value::as_str) != Some(FORMAT) {
        return Err(wrong(format!("its member \"format\" is not \"{FORMAT}\"; check the path")));
    }
    match value.get("version").and_then(Value::as_u64) {
        Some(VERSION) => (),
        Some(newer) if newer > VERSION => {
            return Err(wrong(format!(
                "its version is {newer} and this package supports {VERSION}; upgrade the package"
            )));
        }
        _ => return Err(wrong(format!("its member \"version\" is not {VERSION}; record it again"))),
    }
    let recording: Recording = serde_path_to_error::deserialize(value)
        .map_err(|error| wrong(format!("{} at {}; record it again", error.inner(), error.path())))?;
    for (index, exchange) in recording.exchanges.iter().enumerate() {
        check(exchange).map_err(|why| wrong(format!("exchange {index}: {why}; record it again")))?;
    }
    Ok(recording)
}

/// Checks the rules that the types do not express.
fn check(exchange: &Recorded) -> Result<(), String> {
    match (&exchange.response, &exchange.failure) {
        (None, None) => return Err("it has neither a response nor a failure".to_owned()),
        (Some(_), Some(_)) => return Err("it has both a response and a failure".to_owned()),
        _ => (),
    }
    let Some(response) = &exchange.response else { return Ok(()) };
    if ::http::StatusCode::from_u16(response.status).is_err() {
        return Err(format!("{} is not an HTTP status", response.status));
    }
    response.body.as_ref().map_or(Ok(()), |body| body.pieces().map(|_| ()))
}

/// Maximum number of symbolic links between a path and its file, as in Linux.
const MAX_LINKS: usize = 40;

/// The file that a path refers to: follows symbolic links, also to a file that does not exist yet.
///
/// # Errors
/// [`CassetteError::File`] for a circle of links, and for what is not a file (a folder, a device).
pub(super) fn target(path: &Path) -> Result<PathBuf, CassetteError> {
    let failed = |reason: &str| CassetteError::File {
        action: "write",
        path: path.to_owned(),
        reason: reason.to_owned(),
    };
    let mut target = path.to_owned();
    for _ in 0..MAX_LINKS {
        let Ok(link) = std::fs::read_link(&target) else {
            let is_other = std::fs::metadata(&target).is_ok_and(|metadata| !metadata.is_file());
            return if is_other { Err(failed("it is not a file; choose another path")) } else { Ok(target) };
        };
        target = target.parent().map_or_else(|| link.clone(), |folder| folder.join(&link));
    }
    Err(failed("its symbolic links form a circle"))
}

/// Writes a file atomically: into a temporary file in the same folder, which is then renamed. The file keeps its mode.
/// The path must not be a symbolic link; see [`target`].
pub(super) fn write(path: &Path, recording: &Recording) -> Result<(), CassetteError> {
    let failed = |reason: String| CassetteError::File { action: "write", path: path.to_owned(), reason };
    let mut text = serde_json::to_string_pretty(recording).map_err(|error| failed(error.to_string()))?;
    text.push('\n');
    let mut beside =
        path.file_name().ok_or_else(|| failed("the path has no file name".to_owned()))?.to_owned();
    beside.push(format!(".{}.part", uuid::Uuid::new_v4().simple()));
    let part = path.with_file_name(&beside);
    let written = || -> std::io::Result<()> {
        let mut file = std::fs::File::create_new(&part)?;
        if let Ok(metadata) = std::fs::metadata(path) {
            file.set_permissions(metadata.permissions())?;
        }
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        std::fs::rename(&part, path)
    };
    written().map_err(|error| {
        // The temporary file may not exist.
        let _ = std::fs::remove_file(&part);
        failed(error.to_string())
    })
}
