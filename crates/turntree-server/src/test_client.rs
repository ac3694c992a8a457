//! Calls an application in process, without sockets: for tests of protocols.

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use serde::Serialize;
use serde_json::Value;

use crate::application::{Application, Connection, Request};
use crate::body::Body;
use crate::error::ServerError;
use crate::service::Service;

/// Sends requests to an application in process. Authentication and limits apply as on a socket.
#[derive(Debug, Clone)]
pub struct TestClient {
    service: Service,
    headers: HeaderMap,
    connection: Connection,
}

impl TestClient {
    /// A client of an application without an authenticator.
    pub fn new(application: impl Application) -> Self {
        Self::for_service(Service::new(application))
    }

    /// A client of a service with its authenticator and limits.
    pub fn for_service(service: Service) -> Self {
        Self { service, headers: HeaderMap::new(), connection: Connection::default() }
    }

    /// A client that sends a header with each request. A value that is not a header value is an empty one.
    #[must_use]
    pub fn with_header(mut self, name: HeaderName, value: &str) -> Self {
        let value = HeaderValue::from_str(value).unwrap_or(HeaderValue::from_static(""));
        self.headers.insert(name, value);
        self
    }

    /// A client that sends a bearer token.
    #[must_use]
    pub fn with_token(self, token: &str) -> Self {
        self.with_header(header::AUTHORIZATION, &format!("Bearer {token}"))
    }

    /// Sends `GET`.
    ///
    /// # Errors
    /// The response's body failed.
    pub async fn get(&self, path: &str) -> Result<TestResponse, ServerError> {
        self.send(self.request(Method::GET, path, Body::empty())).await
    }

    /// Sends `POST` with JSON.
    ///
    /// # Errors
    /// The response's body failed.
    pub async fn post<T: Serialize + ?Sized>(
        &self,
        path: &str,
        json: &T,
    ) -> Result<TestResponse, ServerError> {
        let mut request = self.request(Method::POST, path, Body::json(json));
        request
            .headers_mut()
            .entry(header::CONTENT_TYPE)
            .or_insert(HeaderValue::from_static("application/json"));
        self.send(request).await
    }

    /// Sends `DELETE`.
    ///
    /// # Errors
    /// The response's body failed.
    pub async fn delete(&self, path: &str) -> Result<TestResponse, ServerError> {
        self.send(self.request(Method::DELETE, path, Body::empty())).await
    }

    /// A request with the client's headers. A path that is not a URI becomes `/`.
    pub fn request(&self, method: Method, path: &str, body: Body) -> Request {
        let mut request = Request::new(body);
        *request.method_mut() = method;
        *request.uri_mut() = path.parse().unwrap_or_default();
        *request.headers_mut() = self.headers.clone();
        request
    }

    /// Sends a request and reads the whole response.
    ///
    /// # Errors
    /// The response's body failed.
    pub async fn send(&self, request: Request) -> Result<TestResponse, ServerError> {
        let (parts, body) = self.stream(request).await.into_parts();
        Ok(TestResponse { status: parts.status, headers: parts.headers, body: body.bytes().await? })
    }

    /// Sends a request and returns the response with its streamed body.
    pub async fn stream(&self, request: Request) -> http::Response<Body> {
        self.service.call(request, self.connection.clone()).await
    }
}

/// A response with its whole body.
#[derive(Debug, Clone)]
pub struct TestResponse {
    /// The status.
    pub status: StatusCode,
    /// The headers.
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
}

impl TestResponse {
    /// The body as JSON; `null` if it is not JSON.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    /// The body as text; bytes that are not UTF-8 are replaced.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The value of a header; None without it, or if it is not text.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }
}

/// The chunks of a streamed body until its end, for tests.
///
/// # Errors
/// The body failed.
pub async fn chunks(mut body: Body) -> Result<Vec<Bytes>, ServerError> {
    let mut chunks = Vec::new();
    while let Some(chunk) = body.next().await {
        chunks.push(chunk?);
    }
    Ok(chunks)
}
