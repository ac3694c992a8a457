//! Headers and bodies of requests.

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, header};
use turntree_server::{Body, ServerError};

use crate::wire::{Profile, WireError};

/// Maximum length of a session id or an idempotency key.
const MAX_ID: usize = 255;

pub(super) const SESSION_ID: &str = "x-session-id";

/// The text of a header; `None` if it is missing.
fn text<'h>(
    headers: &'h HeaderMap,
    name: &'static str,
    rule: &'static str,
) -> Result<Option<&'h str>, WireError> {
    let Some(value) = headers.get(name) else { return Ok(None) };
    let text = value.to_str().map_err(|_| WireError::InvalidHeader { header: name, rule })?;
    Ok(Some(text.trim()))
}

pub(super) fn session_id(headers: &HeaderMap) -> Result<String, WireError> {
    let value = text(headers, SESSION_ID, "expected the id that POST /initialize has returned")?;
    let value = value.filter(|id| !id.is_empty()).ok_or(WireError::MissingSessionHeader)?;
    if value.len() > MAX_ID { Err(WireError::SessionNotFound) } else { Ok(value.to_owned()) }
}

/// The key under which a request runs once (decision UAIP-A25).
pub(super) fn idempotency_key(headers: &HeaderMap) -> Result<Option<String>, WireError> {
    const RULE: &str = "expected 1 to 255 visible characters of ASCII, without spaces";
    let value = text(headers, "idempotency-key", RULE)?;
    match value {
        Some(key)
            if key.is_empty() || key.len() > MAX_ID || !key.bytes().all(|byte| byte.is_ascii_graphic()) =>
        {
            Err(WireError::InvalidHeader { header: "Idempotency-Key", rule: RULE })
        }
        other => Ok(other.map(str::to_owned)),
    }
}

/// The version that the session must have. Quotes are allowed, as in an entity tag.
pub(super) fn if_match(headers: &HeaderMap) -> Result<Option<String>, WireError> {
    const RULE: &str = "expected the state_version, a whole number";
    let Some(value) = text(headers, "if-match", RULE)? else { return Ok(None) };
    let quoted = value.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    match quoted.unwrap_or(value).parse::<u64>() {
        Ok(version) => Ok(Some(version.to_string())),
        Err(_) => Err(WireError::InvalidHeader { header: "If-Match", rule: RULE }),
    }
}

pub(super) fn profile(headers: &HeaderMap, default: Profile) -> Result<Profile, WireError> {
    const RULE: &str = "expected \"strict\" or \"reference\"";
    match text(headers, "x-uaip-profile", RULE)? {
        None => Ok(default),
        Some(name) => {
            Profile::from_name(name).ok_or(WireError::InvalidHeader { header: "X-UAIP-Profile", rule: RULE })
        }
    }
}

/// True if the client asks for an event stream.
pub(super) fn accepts_events(headers: &HeaderMap) -> bool {
    headers.get_all(header::ACCEPT).iter().any(|value| {
        value.to_str().is_ok_and(|value| value.to_ascii_lowercase().contains("text/event-stream"))
    })
}

/// Checks that the body is JSON, if the client says what it is.
pub(super) fn check_content_type(headers: &HeaderMap) -> Result<(), WireError> {
    let Some(value) = headers.get(header::CONTENT_TYPE) else { return Ok(()) };
    let content_type = String::from_utf8_lossy(value.as_bytes()).to_ascii_lowercase();
    let essence = content_type.split(';').next().unwrap_or_default().trim();
    let is_structured = essence.starts_with("application/") && essence.ends_with("+json");
    if essence.is_empty() || essence == "application/json" || is_structured {
        return Ok(());
    }
    Err(WireError::UnsupportedMediaType { content_type })
}

/// Reads a body up to a limit.
pub(super) async fn read_body(mut body: Body, limit: usize) -> Result<Bytes, WireError> {
    if body.length().is_some_and(|length| length > limit as u64) {
        return Err(WireError::BodyTooLarge { limit });
    }
    let mut whole = BytesMut::new();
    while let Some(chunk) = body.next().await {
        let chunk = chunk.map_err(|error| match error {
            ServerError::BodyTooLarge { limit } => WireError::BodyTooLarge { limit },
            ServerError::BodyTimeout { .. } => WireError::BodyTimeout,
            other => WireError::InvalidBody { reason: other.public_message() },
        })?;
        if whole.len().saturating_add(chunk.len()) > limit {
            return Err(WireError::BodyTooLarge { limit });
        }
        whole.extend_from_slice(&chunk);
    }
    Ok(whole.freeze())
}
