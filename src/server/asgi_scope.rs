//! The scope of an ASGI connection as a request.

use std::sync::Arc;

use crate::prelude::*;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Uri, header};
use pyo3::exceptions::PyValueError;
use pyo3::intern;
use pyo3::types::{PyBytes, PyDict, PyString};

use turntree_server::{Connection, ServerError};

/// The longest path with its query.
const MAX_URL: usize = 65_534;

/// Characters that stand for themselves in a path (RFC 3986 §3.3), beside letters and digits.
const PATH_CHARACTERS: &[u8] = b"-._~!$&'()*+,;=:@/%";

/// Why a scope is no request.
pub(super) enum ScopeError {
    /// A mistake of the client, which is answered.
    Request(ServerError),
    /// A mistake of the program that runs the application.
    Scope(PyErr),
}

impl From<PyErr> for ScopeError {
    fn from(error: PyErr) -> Self {
        Self::Scope(error)
    }
}

fn invalid(error: impl std::fmt::Display) -> ScopeError {
    ScopeError::Request(ServerError::InvalidHead { reason: error.to_string() })
}

/// The head of a request.
pub(super) struct Scope {
    pub(super) head: http::Request<()>,
    pub(super) connection: Connection,
    /// The length of the body; None if it is not known.
    pub(super) length: Option<u64>,
    /// The WebSocket subprotocols that the client offers.
    pub(super) subprotocols: Vec<String>,
    /// Whether a WebSocket handshake can be refused with a response.
    pub(super) can_reject: bool,
}

impl Scope {
    /// Reads a scope of type `http` or `websocket`.
    ///
    /// # Errors
    /// [`ScopeError::Request`] for a request that cannot be read; `ValueError` and `TypeError` for members that no server
    /// may send.
    pub(super) fn read(scope: &Bound<'_, PyDict>) -> Result<Self, ScopeError> {
        let py = scope.py();
        let mut head = http::Request::new(());
        if let Some(method) = scope.get_item(intern!(py, "method"))? {
            *head.method_mut() =
                Method::from_bytes(method.extract::<String>()?.as_bytes()).map_err(invalid)?;
        }
        let root_path: String = optional(scope, intern!(py, "root_path"))?.unwrap_or_default();
        *head.uri_mut() = uri(scope, &root_path)?;
        *head.headers_mut() = headers(scope)?;
        let scheme: Option<String> = optional(scope, intern!(py, "scheme"))?;
        let version: Option<String> = optional(scope, intern!(py, "http_version"))?;
        let connection = Connection {
            peer: peer(scope)?,
            secure: matches!(scheme.as_deref(), Some("https" | "wss")),
            root_path: Arc::from(root_path.trim_end_matches('/')),
        };
        let extensions = scope.get_item(intern!(py, "extensions"))?;
        let can_reject = match extensions.filter(|value| !value.is_none()) {
            Some(extensions) => extensions.contains(intern!(py, "websocket.http.response"))?,
            None => false,
        };
        Ok(Self {
            length: body_length(head.headers(), version.as_deref()),
            head,
            connection,
            subprotocols: optional(scope, intern!(py, "subprotocols"))?.unwrap_or_default(),
            can_reject,
        })
    }
}

fn optional<'py, T>(scope: &Bound<'py, PyDict>, name: &Bound<'py, PyString>) -> PyResult<Option<T>>
where
    T: for<'a> FromPyObject<'a, 'py, Error = PyErr>,
{
    match scope.get_item(name)? {
        Some(value) if !value.is_none() => value.extract().map(Some),
        _ => Ok(None),
    }
}

/// The path below the mount point, and the query.
fn uri(scope: &Bound<'_, PyDict>, root_path: &str) -> Result<Uri, ScopeError> {
    let py = scope.py();
    let decoded: String = optional(scope, intern!(py, "path"))?.unwrap_or_default();
    let raw: Option<Vec<u8>> = optional(scope, intern!(py, "raw_path"))?;
    let raw = raw.and_then(|raw| String::from_utf8(raw).ok());
    // `raw_path` keeps `%2F`; some servers leave the root path out of it.
    let path = match raw.as_deref().map(|raw| raw.split('?').next().unwrap_or_default()) {
        Some(raw) if below(raw, &encoded(root_path)) || !below(&decoded, root_path) => {
            encoded(relative(raw, &encoded(root_path)))
        }
        _ => encoded(relative(&decoded, root_path)),
    };
    let query: Vec<u8> = optional(scope, intern!(py, "query_string"))?.unwrap_or_default();
    let query = String::from_utf8(query).map_err(invalid)?;
    let separator = if query.is_empty() { "" } else { "?" };
    let url = format!("{path}{separator}{query}");
    if url.len() > MAX_URL {
        return Err(ScopeError::Request(ServerError::UrlTooLong { limit: MAX_URL }));
    }
    url.parse().map_err(invalid)
}

/// Whether a path is the root path or below it.
fn below(path: &str, root: &str) -> bool {
    let root = root.trim_end_matches('/');
    path.strip_prefix(root).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// A path without the root path. Servers before ASGI 3.0's clarification leave it out already.
fn relative<'a>(path: &'a str, root: &str) -> &'a str {
    let rest =
        if below(path, root) { path.strip_prefix(root.trim_end_matches('/')).unwrap_or(path) } else { path };
    if rest.is_empty() { "/" } else { rest }
}

fn encoded(path: &str) -> String {
    use std::fmt::Write as _;

    let mut encoded = String::with_capacity(path.len());
    for byte in path.bytes() {
        if byte.is_ascii_alphanumeric() || PATH_CHARACTERS.contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            // Writing to a string does not fail.
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    encoded
}

fn headers(scope: &Bound<'_, PyDict>) -> Result<HeaderMap, ScopeError> {
    let py = scope.py();
    let mut headers = HeaderMap::new();
    let Some(pairs) = scope.get_item(intern!(py, "headers"))? else { return Ok(headers) };
    for pair in pairs.try_iter()? {
        let (name, value): (Bound<'_, PyBytes>, Bound<'_, PyBytes>) = pair?.extract()?;
        let name = HeaderName::from_bytes(name.as_bytes()).map_err(invalid)?;
        let value = HeaderValue::from_bytes(value.as_bytes()).map_err(invalid)?;
        headers.try_append(name, value).map_err(invalid)?;
    }
    Ok(headers)
}

fn peer(scope: &Bound<'_, PyDict>) -> PyResult<Option<std::net::SocketAddr>> {
    let client: Option<(String, Option<u16>)> = match scope.get_item(intern!(scope.py(), "client"))? {
        // A Unix socket, or a list instead of a tuple.
        Some(client) if !client.is_none() => {
            let host: String = client.get_item(0)?.extract().map_err(|_| unreadable())?;
            Some((host, client.get_item(1)?.extract().unwrap_or_default()))
        }
        _ => None,
    };
    Ok(client.and_then(|(host, port)| Some(std::net::SocketAddr::new(host.parse().ok()?, port.unwrap_or(0)))))
}

fn unreadable() -> PyErr {
    PyValueError::new_err("scope[\"client\"] must be a pair of host and port")
}

/// The length that the headers declare. In HTTP/1.1 a request without both headers has no body.
fn body_length(headers: &HeaderMap, version: Option<&str>) -> Option<u64> {
    if headers.contains_key(header::TRANSFER_ENCODING) {
        return None;
    }
    match headers.get(header::CONTENT_LENGTH) {
        Some(length) => length.to_str().ok()?.parse().ok(),
        None if version.is_some_and(|version| version.starts_with('1')) => Some(0),
        None => None,
    }
}
