//! Removes credentials from recorded exchanges: those of the request, values that look like keys, and what a hook removes.
//!
//! Headers are recorded only if they are on a list of harmless ones. This file redacts queries and bodies.

use std::borrow::Cow;
use std::path::Path;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::file::{CassetteError, Chunk, Payload, Recorded};
use crate::http::error::HostFailure;

/// Changes an exchange, as JSON of the file's format, before it is compared or written.
///
/// Called with `{"request": …}` on the thread that polls the request, and with the whole exchange on the thread that
/// saves.
///
/// # Errors
/// A failure for a request ends that request with the same failure.
pub type RedactionHook = Arc<dyn Fn(Value) -> Result<Value, HostFailure> + Send + Sync>;

/// Replaces a secret.
pub(super) const MARK: &str = "REDACTED";

/// Minimum length of a secret; shorter values could be ordinary words.
pub(super) const SHORTEST_SECRET: usize = 6;

/// The first character of Unicode's private use area.
const PRIVATE_USE: u32 = 0xE000;

/// Names of query parameters and JSON members that hold credentials, in lower case without `-` and `_`.
const SECRET_NAMES: [&str; 15] = [
    "accesskey",
    "accesstoken",
    "apikey",
    "authorization",
    "authtoken",
    "clientsecret",
    "idtoken",
    "password",
    "privatekey",
    "refreshtoken",
    "secret",
    "secretkey",
    "sig",
    "signature",
    "xgoogsignature",
];

/// Prefixes of vendors' keys, and the minimum number of characters after them.
const KEY_SHAPES: [(&str, usize); 11] = [
    ("AIza", 30),
    ("Bearer ", 12),
    ("csk-", 20),
    ("ghp_", 20),
    ("gsk_", 20),
    ("hf_", 20),
    ("pplx-", 20),
    ("r8_", 20),
    ("sk-", 16),
    ("sk_", 20),
    ("xai-", 20),
];

/// True if a query parameter of this name contains a credential.
pub(super) fn is_secret_name(name: &str) -> bool {
    let plain: String =
        name.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_ascii_lowercase();
    plain == "key" || plain == "token" || is_secret_member(&plain)
}

/// True if a JSON member of this name contains a credential. `key` and `token` are ordinary words inside a document.
fn is_secret_member(plain: &str) -> bool {
    SECRET_NAMES.contains(&plain)
}

/// Removes credentials from a body.
pub(super) fn payload(body: Payload, secrets: &[String]) -> Payload {
    match body {
        Payload::Json(value) => Payload::Json(json(value, secrets)),
        Payload::Text(body) => Payload::Text(text(&body, secrets).into_owned()),
        // A search of the file does not find a secret in base64, but a reader can decode it.
        Payload::Base64(encoded) => {
            let hidden = STANDARD.decode(&encoded).ok().and_then(|whole| bytes(&whole, secrets));
            Payload::Base64(hidden.map_or(encoded, |hidden| STANDARD.encode(hidden)))
        }
        Payload::Chunks(chunks) => Payload::Chunks(stream(chunks, secrets)),
    }
}

/// Removes credentials from a stream. If a chunk boundary splits a secret, the chunks are joined.
fn stream(chunks: Vec<Chunk>, secrets: &[String]) -> Vec<Chunk> {
    let whole: Option<Vec<&str>> = chunks
        .iter()
        .map(|chunk| match chunk {
            Chunk::Text(text) => Some(text.as_str()),
            Chunk::Binary { .. } => None,
        })
        .collect();
    let Some(whole) = whole.map(|pieces| pieces.concat()) else {
        let pieces = Payload::Chunks(chunks.clone()).pieces().unwrap_or_default().concat();
        return bytes(&pieces, secrets).map_or(chunks, |hidden| vec![Chunk::of(&hidden)]);
    };
    let hidden: Vec<Chunk> = chunks
        .into_iter()
        .map(|chunk| match chunk {
            Chunk::Text(content) => Chunk::Text(text(&content, secrets).into_owned()),
            binary @ Chunk::Binary { .. } => binary,
        })
        .collect();
    let at_once = text(&whole, secrets);
    let joined: String = hidden
        .iter()
        .map(|chunk| match chunk {
            Chunk::Text(text) => text.as_str(),
            Chunk::Binary { .. } => "",
        })
        .collect();
    if *at_once == joined { hidden } else { vec![Chunk::Text(at_once.into_owned())] }
}

fn json(value: Value, secrets: &[String]) -> Value {
    match value {
        Value::String(content) => Value::String(text(&content, secrets).into_owned()),
        Value::Array(items) => Value::Array(items.into_iter().map(|item| json(item, secrets)).collect()),
        Value::Object(members) => {
            let hide = |(name, value): (String, Value)| {
                let plain: String = name.chars().filter(char::is_ascii_alphanumeric).collect();
                let is_secret = value.is_string() && is_secret_member(&plain.to_ascii_lowercase());
                let value = if is_secret { Value::from(MARK) } else { json(value, secrets) };
                (name, value)
            };
            Value::Object(members.into_iter().map(hide).collect())
        }
        plain => plain,
    }
}

/// Removes the given secrets, and values that look like keys, from a text.
pub(super) fn text<'a>(input: &'a str, secrets: &[String]) -> Cow<'a, str> {
    let mut hidden = Cow::Borrowed(input);
    for secret in secrets {
        if hidden.contains(secret.as_str()) {
            hidden = Cow::Owned(hidden.replace(secret.as_str(), MARK));
        }
    }
    for (beginning, shortest) in KEY_SHAPES {
        if let Some(changed) = without_shape(&hidden, beginning, shortest) {
            hidden = Cow::Owned(changed);
        }
    }
    hidden
}

/// Removes secrets from bytes that are not UTF-8; None if there are none. The other bytes do not change.
fn bytes(input: &[u8], secrets: &[String]) -> Option<Vec<u8>> {
    // Maps each byte to a character: ASCII to itself, other bytes to the private use area.
    let to_chars = |bytes: &[u8]| -> String {
        let letter = |byte: &u8| match byte {
            0..0x80 => char::from(*byte),
            0x80.. => char::from_u32(PRIVATE_USE + u32::from(*byte)).unwrap_or(char::REPLACEMENT_CHARACTER),
        };
        bytes.iter().map(letter).collect()
    };
    let secrets: Vec<String> = secrets.iter().map(|secret| to_chars(secret.as_bytes())).collect();
    let mapped = to_chars(input);
    let hidden = text(&mapped, &secrets);
    let byte = |letter: char| {
        let code = u32::from(letter);
        u8::try_from(code).or_else(|_| u8::try_from(code.saturating_sub(PRIVATE_USE))).unwrap_or(b'?')
    };
    (*hidden != *mapped).then(|| hidden.chars().map(byte).collect())
}

/// Removes keys with a prefix from a text; None if there are none.
fn without_shape(input: &str, beginning: &str, shortest: usize) -> Option<String> {
    let is_part =
        |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_' | '.' | '/' | '+' | '=');
    let (mut clean, mut rest, mut is_changed) = (String::new(), input, false);
    while let Some(place) = rest.find(beginning) {
        let (before, candidate) = rest.split_at(place);
        let tail = candidate.get(beginning.len()..).unwrap_or_default();
        let length = tail.find(|letter| !is_part(letter)).unwrap_or(tail.len());
        let is_word = before.chars().next_back().is_some_and(char::is_alphanumeric);
        clean.push_str(before);
        if length >= shortest && !is_word {
            // The scheme of an `Authorization` header is not a secret.
            clean.push_str(if beginning.ends_with(' ') { beginning } else { "" });
            clean.push_str(MARK);
            is_changed = true;
            rest = tail.get(length..).unwrap_or_default();
        } else {
            clean.push_str(beginning);
            rest = tail;
        }
    }
    clean.push_str(rest);
    is_changed.then_some(clean)
}

/// Applies the application's hook to an exchange.
///
/// # Errors
/// [`CassetteError::Hook`] if the hook fails or returns something other than an exchange.
pub(super) fn with_hook(
    hook: &RedactionHook,
    exchange: &Recorded,
    path: &Path,
) -> Result<Recorded, CassetteError> {
    let failed = |failure: HostFailure| CassetteError::Hook { path: path.to_owned(), failure };
    let wrong = |reason: String| failed(HostFailure::new(std::io::Error::other(reason)));
    let value = serde_json::to_value(exchange).map_err(|error| wrong(error.to_string()))?;
    let changed = hook(value).map_err(failed)?;
    serde_path_to_error::deserialize::<_, Recorded>(changed).map_err(|error| {
        wrong(format!("it did not return a valid exchange: {} at {}", error.inner(), error.path()))
    })
}
