//! A client of A2A agents, over JSON-RPC of the versions 1.0 and 0.3.
//!
//! ```text
//!   A2aClient ──card──> interface ──SendStreamingMessage | SendMessage──> updates ──> RemoteCall ──> Answer
//!                                        a lost stream: SubscribeToTask, then GetTask until the task ends
//! ```
//!
//! | module | content |
//! |---|---|
//! | [`call`] | one message and the task that answers it |
//! | [`card`] | agent cards: which interface is used |
//! | [`error`] | errors with their codes |
//! | `frames` | bodies of responses: events, or one JSON document |
//! | `task` | the task as the updates of both versions describe it |
//!
//! Spec: A2A 1.0; A2A 0.3

pub mod call;
pub mod card;
pub mod error;
mod frames;
mod task;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::OnceCell;
use tokio_util::sync::CancellationToken;
use turntree_core::http::{
    BodyStream, EventsOrDocument, EventsOrDocumentError, ExponentialBackoff, HttpClient, HttpConfig,
    HttpError, HttpRequest, RetryPolicy,
};
use turntree_core::ids::IdSource;
use turntree_core::secret::Secret;
use url::Url;

pub use self::call::{Answer, CallEvent, MessageInput, RemoteCall};
pub use self::card::{AgentCard, Interface, ProtocolVersion};
pub use self::error::A2aClientError;
use self::frames::Frame;

/// The longest silence on a stream. Agents send nothing while they wait for a tool.
const IDLE_TIMEOUT: Duration = Duration::from_secs(300);

/// The paths of cards below the URL of an agent: of this version, and of those before 0.3.
const CARD_PATHS: [&str; 2] = ["/.well-known/agent-card.json", "/.well-known/agent.json"];

/// A client of one agent. Cloning shares the card and the connections.
#[derive(Debug, Clone)]
pub struct A2aClient {
    url: Url,
    token: Option<Secret>,
    http: HttpClient,
    ids: Arc<dyn IdSource>,
    card: Arc<OnceCell<Arc<AgentCard>>>,
}

/// An operation of the protocol, by its names in both versions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operation {
    Send,
    Stream,
    Get,
    Cancel,
    Subscribe,
}

impl Operation {
    const fn name(self, version: ProtocolVersion) -> &'static str {
        match (self, version) {
            (Self::Send, ProtocolVersion::V1) => "SendMessage",
            (Self::Send, ProtocolVersion::V03) => "message/send",
            (Self::Stream, ProtocolVersion::V1) => "SendStreamingMessage",
            (Self::Stream, ProtocolVersion::V03) => "message/stream",
            (Self::Get, ProtocolVersion::V1) => "GetTask",
            (Self::Get, ProtocolVersion::V03) => "tasks/get",
            (Self::Cancel, ProtocolVersion::V1) => "CancelTask",
            (Self::Cancel, ProtocolVersion::V03) => "tasks/cancel",
            (Self::Subscribe, ProtocolVersion::V1) => "SubscribeToTask",
            (Self::Subscribe, ProtocolVersion::V03) => "tasks/resubscribe",
        }
    }

    /// Whether a repeated request has no further effect.
    const fn is_safe(self) -> bool {
        matches!(self, Self::Get | Self::Subscribe)
    }
}

/// Whether a request is sent again after a failure.
fn retries(is_safe: bool) -> RetryPolicy {
    if !is_safe {
        return RetryPolicy::default();
    }
    RetryPolicy::new(ExponentialBackoff {
        base_delay: Duration::from_millis(200),
        max_delay: Duration::from_secs(5),
        ..ExponentialBackoff::default()
    })
}

impl A2aClient {
    /// The settings of a client over the network.
    pub fn default_config() -> HttpConfig {
        HttpConfig { idle_timeout: IDLE_TIMEOUT, ..HttpConfig::default() }
    }

    /// A client of the agent at `url`, for example `https://example.com/agents/helper`, or of the agent with the card at
    /// `url` if it ends in `.json`. The token is sent only to the origin of `url`.
    ///
    /// # Errors
    /// [`A2aClientError::Url`] if `url` is not an HTTP URL.
    pub fn new(
        url: &str,
        token: Option<Secret>,
        http: HttpClient,
        ids: Arc<dyn IdSource>,
    ) -> Result<Self, A2aClientError> {
        let wrong = |reason: String| A2aClientError::Url { url: url.to_owned(), reason };
        let parsed = Url::parse(url).map_err(|error| wrong(error.to_string()))?;
        if !matches!(parsed.scheme(), "http" | "https") || !parsed.has_host() {
            return Err(wrong("it does not begin with http:// or https:// and a host".to_owned()));
        }
        Ok(Self { url: parsed, token, http, ids, card: Arc::default() })
    }

    /// The card of the agent. It is read once.
    ///
    /// # Errors
    /// [`A2aClientError::Card`] if there is none, [`A2aClientError::Interface`] if it has no interface that this client
    /// speaks, and the errors of HTTP.
    ///
    /// # Cancel safety
    /// After a dropped future the card is read again.
    pub async fn card(&self) -> Result<Arc<AgentCard>, A2aClientError> {
        self.card.get_or_try_init(|| self.read_card()).await.cloned()
    }

    async fn read_card(&self) -> Result<Arc<AgentCard>, A2aClientError> {
        let base = self.url.as_str().trim_end_matches('/');
        let extension = Path::new(self.url.path()).extension();
        let is_card = extension.is_some_and(|extension| extension.eq_ignore_ascii_case("json"));
        let urls: Vec<String> = if is_card {
            vec![base.to_owned()]
        } else {
            CARD_PATHS.iter().map(|path| format!("{base}{path}")).collect()
        };
        let mut missing = None;
        for url in urls {
            let request = self.with_token(HttpRequest::get(url.as_str()), &url);
            match self.http.send(request, &retries(true), &CancellationToken::new()).await {
                Ok(response) => return AgentCard::read(&url, &response.body).map(Arc::new),
                Err(HttpError::Status(error)) if error.status.as_u16() == 404 => {
                    let reason = "the server has none; check the URL of the agent".to_owned();
                    missing.get_or_insert(A2aClientError::Card { url, reason });
                }
                Err(error) => return Err(error.into()),
            }
        }
        let none = || A2aClientError::Card { url: base.to_owned(), reason: "there is none".to_owned() };
        Err(missing.unwrap_or_else(none))
    }

    /// Sends a message. The returned call reports the progress and the answer.
    ///
    /// # Cancel safety
    /// Dropping the call cancels the task of the agent.
    pub fn call(&self, input: MessageInput) -> RemoteCall {
        RemoteCall::start(self.clone(), input)
    }

    pub(crate) fn new_id(&self) -> String {
        self.ids.string()
    }

    /// Adds the token if the request goes to the origin that the user has named: a card can name any other one.
    fn with_token(&self, request: HttpRequest, url: &str) -> HttpRequest {
        let is_same = Url::parse(url).is_ok_and(|url| url.origin() == self.url.origin());
        match &self.token {
            Some(token) if is_same => request.bearer(token),
            _ => request,
        }
    }

    fn request(
        &self,
        interface: &Interface,
        operation: Operation,
        mut params: Value,
    ) -> Result<HttpRequest, A2aClientError> {
        let version = interface.version;
        if let (Some(tenant), Some(members)) = (&interface.tenant, params.as_object_mut()) {
            members.insert("tenant".to_owned(), tenant.as_str().into());
        }
        let method = operation.name(version);
        let body = json!({ "jsonrpc": "2.0", "id": self.new_id(), "method": method, "params": params });
        let body = serde_json::to_vec(&body).map_err(|error| A2aClientError::Protocol {
            reason: format!("the request cannot be written as JSON: {error}"),
        })?;
        let request = HttpRequest::post(interface.url.as_str(), body)
            .header("content-type", "application/json")
            .header("a2a-version", version.as_str());
        Ok(self.with_token(request, &interface.url))
    }

    /// Sends a request whose result is one object.
    pub(crate) async fn invoke(
        &self,
        interface: &Interface,
        operation: Operation,
        params: Value,
    ) -> Result<Value, A2aClientError> {
        let request = self.request(interface, operation, params)?.header("accept", "application/json");
        let policy = retries(operation.is_safe());
        let response = self.http.send(request, &policy, &CancellationToken::new()).await?;
        frames::result_of(&response.body)
    }

    /// Sends a request whose result is a stream of updates.
    pub(crate) async fn open(
        &self,
        interface: &Interface,
        operation: Operation,
        params: Value,
        last_event_id: Option<&str>,
    ) -> Result<BodyStream<Frame, EventsOrDocumentError>, A2aClientError> {
        let mut request = self.request(interface, operation, params)?;
        request = request.header("accept", "text/event-stream, application/json");
        if let Some(id) = last_event_id {
            request = request.header("last-event-id", id);
        }
        let policy = retries(operation.is_safe());
        let opened =
            self.http.stream(request, &policy, &CancellationToken::new(), EventsOrDocument::default());
        Ok(opened.await?)
    }
}
