//! Requests, before and after their URL and headers are parsed.

use std::fmt;

use ::http::header::{ACCEPT, ACCEPT_ENCODING};
use ::http::{HeaderMap, HeaderName, HeaderValue, Method};
use bytes::Bytes;
use tokio::time::Instant;
use url::Url;

use super::admission::Admission;
use super::error::{HttpError, safe_address};
use crate::secret::Secret;

/// Headers that contain credentials. They are hidden also if the application sets them.
const SECRET_HEADERS: [&str; 7] = [
    "authorization",
    "proxy-authorization",
    "cookie",
    "x-api-key",
    "api-key",
    "x-goog-api-key",
    "xi-api-key",
];

/// A request to send. Cloning shares the body.
///
/// `Debug` hides secret headers, the URL's user and query, and the body.
///
/// ```
/// use turntree_core::http::{HttpRequest, ResponseType};
/// use turntree_core::secret::Secret;
///
/// let request = HttpRequest::post("https://api.example/v1/chat?key=hidden", r#"{"stream":true}"#)
///     .header("Content-Type", "application/json")
///     .bearer(&Secret::from("sk-1"))
///     .header("content-type", "application/json; charset=utf-8")
///     .response_type(ResponseType::EventStream);
/// assert_eq!(request.headers().len(), 2);
/// assert!(!format!("{request:?}").contains("hidden") && !format!("{request:?}").contains("sk-1"));
/// ```
#[derive(Clone)]
pub struct HttpRequest {
    method: Method,
    url: String,
    headers: Vec<Header>,
    /// The names of headers that are not sent, lowercase.
    left_out: Vec<String>,
    body: Bytes,
    response_type: ResponseType,
}

#[derive(Clone)]
struct Header {
    name: String,
    value: String,
    is_secret: bool,
}

impl HttpRequest {
    /// A request without headers and body.
    pub fn new(method: Method, url: impl Into<String>) -> Self {
        Self {
            method,
            url: url.into(),
            headers: Vec::new(),
            left_out: Vec::new(),
            body: Bytes::new(),
            response_type: ResponseType::Any,
        }
    }

    /// A GET.
    pub fn get(url: impl Into<String>) -> Self {
        Self::new(Method::GET, url)
    }

    /// A POST with a body. The caller sets `Content-Type`.
    pub fn post(url: impl Into<String>, body: impl Into<Bytes>) -> Self {
        Self { body: body.into(), ..Self::new(Method::POST, url) }
    }

    /// Sets a header. An earlier header of the same name, in any case, is replaced, so that custom headers replace the
    /// provider's.
    ///
    /// Spec: UPP-1.2 §9
    #[must_use]
    pub fn header(self, name: impl Into<String>, value: impl Into<String>) -> Self {
        let name = name.into();
        let is_secret = SECRET_HEADERS.iter().any(|secret| name.eq_ignore_ascii_case(secret));
        self.set(Header { name, value: value.into(), is_secret })
    }

    /// Sets a header whose value `Debug` hides.
    #[must_use]
    pub fn secret_header(self, name: impl Into<String>, value: &Secret) -> Self {
        self.set(Header { name: name.into(), value: value.expose().to_owned(), is_secret: true })
    }

    /// Sets `Authorization: Bearer …`.
    #[must_use]
    pub fn bearer(self, key: &Secret) -> Self {
        let value = format!("Bearer {}", key.expose());
        self.set(Header { name: "Authorization".to_owned(), value, is_secret: true })
    }

    /// Leaves a header out that was set before, or would be sent by default, such as `User-Agent`.
    #[must_use]
    pub fn without_header(mut self, name: &str) -> Self {
        self.headers.retain(|header| !header.name.eq_ignore_ascii_case(name));
        self.left_out.push(name.to_ascii_lowercase());
        self
    }

    /// Sets the media type that a successful response must have, and the `Accept` header.
    #[must_use]
    pub fn response_type(mut self, response_type: ResponseType) -> Self {
        self.response_type = response_type;
        self
    }

    /// Sets the method and the URL.
    #[must_use]
    pub fn with_address(self, method: Method, url: impl Into<String>) -> Self {
        Self { method, url: url.into(), ..self }
    }

    /// The method.
    pub fn method(&self) -> &Method {
        &self.method
    }

    /// The URL as given; its query may contain a key.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Names and values of the headers in the order they were set, secrets included.
    pub fn headers(&self) -> impl ExactSizeIterator<Item = (&str, &str)> {
        self.headers.iter().map(|header| (header.name.as_str(), header.value.as_str()))
    }

    /// The body.
    pub fn body(&self) -> &Bytes {
        &self.body
    }

    fn set(mut self, header: Header) -> Self {
        match self.headers.iter_mut().find(|known| known.name.eq_ignore_ascii_case(&header.name)) {
            Some(known) => *known = header,
            None => self.headers.push(header),
        }
        self
    }

    /// The response type that was set.
    pub(super) const fn accepted(&self) -> ResponseType {
        self.response_type
    }

    /// Parses the URL and the headers, and adds `Accept` and `Accept-Encoding`.
    ///
    /// # Errors
    /// [`HttpError::Request`] if the URL or a header is invalid.
    pub(super) fn prepare(self, streamed: bool) -> Result<PreparedRequest, HttpError> {
        let url = parse_url(&self.url)?;
        let mut headers = HeaderMap::with_capacity(self.headers.len() + 2);
        if let Some(accept) = self.response_type.accept() {
            headers.insert(ACCEPT, HeaderValue::from_static(accept));
        }
        if streamed {
            // A compressed body delivers events only when a block is full.
            headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        }
        for name in &self.left_out {
            headers.remove(name);
        }
        for header in self.headers {
            let (name, value) = header.parse()?;
            headers.insert(name, value);
        }
        Ok(PreparedRequest {
            left_out: self.left_out,
            ..PreparedRequest::new(self.method, url, headers, self.body)
        })
    }
}

impl Header {
    fn parse(self) -> Result<(HeaderName, HeaderValue), HttpError> {
        let name = HeaderName::from_bytes(self.name.as_bytes()).map_err(|_| HttpError::Request {
            message: format!("{:?} is not a header name; use letters, digits and hyphens", self.name),
        })?;
        let mut value = HeaderValue::try_from(self.value).map_err(|_| HttpError::Request {
            message: format!("the value of header {name} has line breaks or control characters; remove them"),
        })?;
        value.set_sensitive(self.is_secret);
        Ok((name, value))
    }
}

impl fmt::Debug for HttpRequest {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let url = Url::parse(&self.url).map_or_else(|_| "(not a URL)".to_owned(), |url| safe_address(&url));
        formatter
            .debug_struct("HttpRequest")
            .field("method", &self.method)
            .field("url", &url)
            .field("headers", &self.headers)
            .field("left_out", &self.left_out)
            .field("body_bytes", &self.body.len())
            .field("response_type", &self.response_type)
            .finish()
    }
}

impl fmt::Debug for Header {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = if self.is_secret { "***" } else { self.value.as_str() };
        write!(formatter, "{}: {value}", self.name)
    }
}

/// A request with parsed URL and headers, as a transport receives it. Cloning shares the body.
///
/// `Debug` hides secret headers, the URL's user and query, and the body.
#[derive(Clone)]
#[non_exhaustive]
pub struct PreparedRequest {
    /// The method.
    pub method: Method,
    /// The URL; its query may contain a key.
    pub url: Url,
    /// The headers; secret ones are marked as sensitive.
    pub headers: HeaderMap,
    /// The names of headers that a transport does not add, lowercase.
    pub(super) left_out: Vec<String>,
    /// The body; empty if there is none.
    pub body: Bytes,
    /// When the client drops the request if the response's headers have not arrived. Time that the request waits for a
    /// place on a connection is added to it.
    pub deadline: Option<Instant>,
    /// Where a transport tells that the request waits for a place on a connection.
    pub(super) admission: Option<Admission>,
}

impl PreparedRequest {
    /// A request for a [`Transport`](super::Transport) that is used without the HTTP client: no retries, no checks of
    /// the response.
    pub const fn new(method: Method, url: Url, headers: HeaderMap, body: Bytes) -> Self {
        Self { method, url, headers, left_out: Vec::new(), body, deadline: None, admission: None }
    }
}

impl fmt::Debug for PreparedRequest {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("PreparedRequest")
            .field("method", &self.method)
            .field("url", &safe_address(&self.url))
            .field("headers", &self.headers)
            .field("body_bytes", &self.body.len())
            .finish_non_exhaustive()
    }
}

/// The type of body that a successful response must have.
///
/// A missing `Content-Type` is accepted, and `text/plain` where servers are known to send it; a gateway's HTML page is
/// not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum ResponseType {
    /// Any body.
    #[default]
    Any,
    /// One JSON document.
    Json,
    /// Server-sent events.
    EventStream,
    /// One JSON document per line.
    JsonLines,
    /// Messages of an event stream of Amazon.
    AmazonEventStream,
}

impl ResponseType {
    /// The value of `Accept`: the first accepted media type.
    fn accept(self) -> Option<&'static str> {
        self.media_types().first().copied()
    }

    fn media_types(self) -> &'static [&'static str] {
        match self {
            Self::Any => &[],
            Self::Json => &["application/json", "text/json", "text/plain"],
            Self::EventStream => &["text/event-stream", "text/plain", "application/octet-stream"],
            Self::AmazonEventStream => &["application/vnd.amazon.eventstream", "application/octet-stream"],
            Self::JsonLines => &[
                "application/x-ndjson",
                "application/ndjson",
                "application/jsonl",
                "application/x-jsonlines",
                "application/json",
                "text/plain",
                "application/octet-stream",
            ],
        }
    }

    /// Checks a response's `Content-Type`. The error is the expected media type.
    pub(super) fn check(self, content_type: Option<&HeaderValue>) -> Result<(), &'static str> {
        let (Some(expected), Some(content_type)) = (self.accept(), content_type) else { return Ok(()) };
        let found = content_type.to_str().unwrap_or_default();
        let essence = found.split(';').next().unwrap_or_default().trim();
        let is_suffixed_json = self == Self::Json
            && essence.rsplit('+').next().is_some_and(|end| end.eq_ignore_ascii_case("json"));
        let is_known = self.media_types().iter().any(|known| essence.eq_ignore_ascii_case(known));
        if essence.is_empty() || is_known || is_suffixed_json { Ok(()) } else { Err(expected) }
    }
}

fn parse_url(text: &str) -> Result<Url, HttpError> {
    let wrong = |why: &str| HttpError::Request {
        message: format!("the URL {why}; give a whole one such as https://host/path"),
    };
    let url = Url::parse(text).map_err(|error| wrong(&format!("does not parse ({error})")))?;
    match url.scheme() {
        "http" | "https" if url.has_host() => Ok(url),
        _ => Err(wrong("is not http or https")),
    }
}
