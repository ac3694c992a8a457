//! A client of UAIP servers over HTTP.
//!
//! Every action has an idempotency key, so that a request that was lost is sent again and runs once. Servers of version 0.4
//! do not know such keys and answer every action with status 200: the client sees in the response to `/initialize` that a
//! server is one of them (it names no stages). It then sends nothing twice and reads errors from the text.
//!
//! | module | content |
//! |---|---|
//! | [`session`] | a session on a server |
//! | [`running`] | a call of a task whose progress is read |
//! | [`error`] | errors with their codes |
//! | `reply` | reads responses of both profiles |

pub mod error;
mod reply;
pub mod running;
pub mod session;

use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;
use turntree_core::http::{
    BodyStream, EventsOrDocument, EventsOrDocumentError, ExponentialBackoff, FailedAttempt, HttpClient,
    HttpConfig, HttpError, HttpRequest, RetryPolicy, RetryStrategy,
};
use turntree_core::ids::IdSource;
use turntree_core::secret::Secret;

pub use self::error::ClientError;
use self::running::Frame;
pub use self::running::{CallEvent, RunningCall};
pub use self::session::ClientSession;

/// How long a server may take for a task, by default.
const HEADER_TIMEOUT: Duration = Duration::from_secs(600);

/// A client of one server. Cloning shares its connections.
#[derive(Debug, Clone)]
pub struct UaipClient {
    base: Arc<str>,
    http: HttpClient,
    token: Option<Secret>,
    ids: Arc<dyn IdSource>,
}

/// A request that is sent.
#[derive(Debug, Clone)]
pub(crate) struct Sent<'a> {
    pub(crate) path: &'a str,
    pub(crate) body: Value,
    pub(crate) session: Option<&'a Secret>,
    /// The idempotency key.
    pub(crate) key: String,
    /// True if the server runs a repeated request once.
    pub(crate) repeats: bool,
}

/// Retries what the server has not seen or cannot do now. A task that has failed or was too slow is not repeated.
#[derive(Debug)]
struct Retries(ExponentialBackoff);

impl RetryStrategy for Retries {
    fn delay(&self, failure: &FailedAttempt<'_>) -> Option<Duration> {
        let may_help = match failure.error.status() {
            Some(status) => matches!(
                status,
                StatusCode::TOO_MANY_REQUESTS | StatusCode::BAD_GATEWAY | StatusCode::SERVICE_UNAVAILABLE
            ),
            None => true,
        };
        if may_help { self.0.delay(failure) } else { None }
    }
}

/// Whether a request is sent again after a failure.
fn retries(repeats: bool) -> RetryPolicy {
    if !repeats {
        return RetryPolicy::default();
    }
    RetryPolicy::new(Retries(ExponentialBackoff {
        base_delay: Duration::from_millis(200),
        max_delay: Duration::from_secs(5),
        ..ExponentialBackoff::default()
    }))
}

impl UaipClient {
    /// The settings of a client over the network: tasks may take ten minutes.
    pub fn default_config() -> HttpConfig {
        HttpConfig { header_timeout: HEADER_TIMEOUT, ..HttpConfig::default() }
    }

    /// A client of the server at `url`, for example `http://127.0.0.1:8000`.
    pub fn new(url: &str, token: Option<Secret>, http: HttpClient, ids: Arc<dyn IdSource>) -> Self {
        Self { base: url.trim_end_matches('/').into(), http, token, ids }
    }

    /// Opens a session. `workflow` may be `None` if the server has one workflow.
    ///
    /// # Errors
    /// [`ClientError::Refused`] if the server does not know the workflow, and the errors of HTTP.
    ///
    /// # Cancel safety
    /// Dropping the future may leave a session on the server, which expires.
    pub async fn open(&self, workflow: Option<&str>) -> Result<ClientSession, ClientError> {
        self.open_with_key(workflow, self.key()).await
    }

    /// Opens a session, or the one that an earlier call with the same idempotency key has opened: servers remember a key
    /// for a day. Servers of version 0.4 always open a new one.
    ///
    /// # Errors
    /// As for [`Self::open`]; [`ClientError::Refused`] with the code `session_not_found` if the session is over.
    ///
    /// # Cancel safety
    /// As for [`Self::open`].
    pub async fn open_with_key(
        &self,
        workflow: Option<&str>,
        key: String,
    ) -> Result<ClientSession, ClientError> {
        let mut body = Map::new();
        if let Some(name) = workflow {
            body.insert("workflow_name".to_owned(), json!(name));
        }
        // A session too many expires, so the request may be repeated.
        let sent = Sent { path: "/initialize", body: Value::Object(body), session: None, key, repeats: true };
        let body = self.send(&sent).await?;
        ClientSession::start(self.clone(), &body).await
    }

    /// Reads the schema of a workflow.
    ///
    /// # Errors
    /// [`ClientError::Refused`] if the server does not know it, and the errors of HTTP.
    pub async fn workflow(&self, name: &str) -> Result<Value, ClientError> {
        let name = percent_encoding::utf8_percent_encode(name, percent_encoding::NON_ALPHANUMERIC);
        self.get(&format!("/api/workflows/{name}")).await
    }

    /// A new idempotency key.
    pub(crate) fn key(&self) -> String {
        self.ids.string()
    }

    pub(crate) async fn get(&self, path: &str) -> Result<Value, ClientError> {
        let request = HttpRequest::get(format!("{}{path}", self.base));
        let request = match &self.token {
            Some(token) => request.bearer(token),
            None => request,
        };
        self.exchange(request, true).await
    }

    fn request(&self, sent: &Sent<'_>) -> Result<HttpRequest, ClientError> {
        let body = serde_json::to_vec(&sent.body).map_err(|error| ClientError::Protocol {
            reason: format!("the request cannot be written as JSON: {error}"),
        })?;
        let mut request = HttpRequest::post(format!("{}{}", self.base, sent.path), body)
            .header("content-type", "application/json")
            .header("x-uaip-profile", "strict")
            .header("idempotency-key", &sent.key);
        if let Some(session) = sent.session {
            request = request.secret_header("x-session-id", session);
        }
        Ok(match &self.token {
            Some(token) => request.bearer(token),
            None => request,
        })
    }

    pub(crate) async fn send(&self, sent: &Sent<'_>) -> Result<Value, ClientError> {
        self.exchange(self.request(sent)?, sent.repeats).await
    }

    /// Sends a request whose response may be a stream of events.
    async fn stream(&self, sent: &Sent<'_>) -> Result<BodyStream<Frame, EventsOrDocumentError>, ClientError> {
        let request = self.request(sent)?.header("accept", "text/event-stream, application/json");
        let opened = self.http.stream(
            request,
            &retries(sent.repeats),
            &CancellationToken::new(),
            EventsOrDocument::default(),
        );
        match opened.await {
            Ok(stream) => Ok(stream),
            Err(HttpError::Status(error)) => Err(reply::refusal(error.status, &error.body)),
            Err(error) => Err(ClientError::Http(Arc::new(error))),
        }
    }

    async fn exchange(&self, request: HttpRequest, repeats: bool) -> Result<Value, ClientError> {
        match self.http.send(request, &retries(repeats), &CancellationToken::new()).await {
            Ok(response) => reply::parse(&response.body),
            Err(HttpError::Status(error)) => Err(reply::refusal(error.status, &error.body)),
            Err(error) => Err(ClientError::Http(Arc::new(error))),
        }
    }
}
