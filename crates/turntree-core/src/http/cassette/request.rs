//! A request as it is recorded and compared: without credentials, with JSON bodies as values.

use ::http::HeaderMap;
use serde_json::{Map, Value};
use url::Url;

use super::file::{Payload, RecordedRequest};
use super::redact::{self, MARK};
use crate::http::request::{HttpRequest, PreparedRequest};

/// Request headers that are recorded for readers of the file. They are not compared. Other headers may contain secrets.
const HEADERS: [&str; 5] = ["accept", "content-type", "anthropic-beta", "anthropic-version", "openai-beta"];

/// Replaces a form's random boundary.
const BOUNDARY: &str = "boundary";

/// A request, and the secrets that were removed from it.
pub(super) struct RequestRecord {
    pub(super) request: RecordedRequest,
    /// The credentials of this request, which are removed from its response as well.
    pub(super) secrets: Vec<String>,
}

impl RequestRecord {
    /// Of a request that is about to be sent.
    pub(super) fn of(request: &PreparedRequest) -> Self {
        let secret = request.headers.values().filter(|value| value.is_sensitive());
        let secret: Vec<String> = secret.filter_map(|value| value.to_str().ok()).map(str::to_owned).collect();
        let shown = headers(&request.headers);
        Self::new(request.method.as_str(), request.url.clone(), shown, &request.body, &secret)
    }

    /// Of a request that has not been prepared.
    pub(super) fn of_http(request: &HttpRequest) -> Self {
        let mut shown = Map::new();
        for (name, value) in request.headers() {
            shown.insert(name.to_ascii_lowercase(), Value::from(value));
        }
        // An invalid URL matches no exchange, and the client refuses it when it is sent.
        let url = Url::parse(request.url()).or_else(|_| Url::parse("http://invalid/"));
        match url {
            Ok(url) => Self::new(request.method().as_str(), url, shown, request.body(), &[]),
            Err(_) => Self { request: RecordedRequest::default(), secrets: Vec::new() },
        }
    }

    fn new(
        method: &str,
        url: Url,
        mut headers: Map<String, Value>,
        body: &[u8],
        secret_headers: &[String],
    ) -> Self {
        // Of `Bearer sk-…` vendors quote only the second word.
        let in_headers = secret_headers
            .iter()
            .flat_map(|value| [value.trim()].into_iter().chain(value.split_whitespace().next_back()));
        let mut secrets: Vec<String> = in_headers.map(str::to_owned).collect();
        let url = without_secrets(url, &mut secrets);
        secrets.retain(|secret| secret.len() >= redact::SHORTEST_SECRET && secret != MARK);
        // A value may contain another one.
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        secrets.dedup();
        let form = headers.get("content-type").and_then(Value::as_str).and_then(boundary);
        let kind = headers.get("content-type").and_then(Value::as_str).unwrap_or_default();
        let is_json = kind.is_empty() || kind.to_ascii_lowercase().contains("json");
        let body = match &form {
            Some(drawn) => Payload::of(&replaced(body, drawn.as_bytes()), false),
            None => Payload::of(body, is_json),
        };
        let body = body.map(|body| redact::payload(body, &secrets));
        if let Some(drawn) = form {
            headers.insert("content-type".to_owned(), kind_of_form(&headers, &drawn));
        }
        headers.retain(|name, _| HEADERS.contains(&name.as_str()));
        let request = RecordedRequest { method: method.to_owned(), url, headers, body, ..Default::default() };
        Self { request, secrets }
    }
}

/// Headers by lower-case name; several values of one name as a list.
pub(super) fn headers(headers: &HeaderMap) -> Map<String, Value> {
    let mut shown = Map::new();
    for name in headers.keys() {
        let values = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
        let mut values: Vec<Value> = values.map(Value::from).collect();
        let value = if values.len() == 1 { values.pop() } else { Some(Value::Array(values)) };
        shown.insert(name.as_str().to_owned(), value.unwrap_or_default());
    }
    shown
}

/// A URL without user, password and keys in its query. The removed values are added to `secrets`.
fn without_secrets(mut url: Url, secrets: &mut Vec<String>) -> String {
    secrets.extend(url.password().map(str::to_owned));
    // Fails only for URLs without a host, which the client does not send.
    let _ = url.set_username("").and_then(|()| url.set_password(None));
    url.set_fragment(None);
    let pairs: Vec<(String, String)> = url.query_pairs().into_owned().collect();
    if pairs.iter().any(|(name, _)| redact::is_secret_name(name)) {
        let mut query = url.query_pairs_mut();
        query.clear();
        for (name, value) in pairs {
            if redact::is_secret_name(&name) {
                query.append_pair(&name, MARK);
                secrets.push(value);
            } else {
                query.append_pair(&name, &value);
            }
        }
    }
    url.to_string()
}

fn boundary(content_type: &str) -> Option<String> {
    let (_, rest) = content_type.split_once("boundary=")?;
    let drawn = rest.split(';').next().unwrap_or_default().trim().trim_matches('"');
    (!drawn.is_empty()).then(|| drawn.to_owned())
}

fn kind_of_form(headers: &Map<String, Value>, drawn: &str) -> Value {
    let kind = headers.get("content-type").and_then(Value::as_str).unwrap_or_default();
    Value::from(kind.replace(drawn, BOUNDARY))
}

fn replaced(body: &[u8], drawn: &[u8]) -> Vec<u8> {
    let mut whole = Vec::with_capacity(body.len());
    let mut rest = body;
    while let Some(place) = memchr::memmem::find(rest, drawn) {
        let (before, after) = rest.split_at(place);
        whole.extend_from_slice(before);
        whole.extend_from_slice(BOUNDARY.as_bytes());
        rest = after.get(drawn.len()..).unwrap_or_default();
    }
    whole.extend_from_slice(rest);
    whole
}
