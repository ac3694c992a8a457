//! HTTP for providers: requests out, whole bodies or decoded streams back.
//!
//! Socket work runs on [`runtime`](crate::runtime). The futures and streams returned here may be polled on any thread,
//! including threads without a tokio context such as that of an asyncio event loop. Retry strategies, key strategies
//! and [`Transport::send`] are called on the polling thread, so they may belong to the host language.
//!
//! | file | contents, from the lowest layer to the highest |
//! |---|---|
//! | `retry_after` | parses how long a server asks to wait |
//! | `error` | the error types |
//! | `request` | requests, with secret headers marked |
//! | `multipart` | `multipart/form-data` bodies |
//! | `tls` | certificate authorities; TLS for other protocols |
//! | `config` | timeouts, size limits, proxy: plain data |
//! | `admission` | the time that a request waits for a connection |
//! | `transport` | the port [`Transport`], and its implementation with reqwest |
//! | `cassette` | transports that record and play exchanges |
//! | `retry` | retry strategies |
//! | `keys` | API keys |
//! | `concurrency` | limits concurrent requests per host |
//! | `attempt` | one attempt: send, check status and media type, read the body |
//! | `body` | decodes streamed bodies in the background task |
//! | `events_or_document` | decodes bodies that are events or one document |
//! | `client` | sends requests with retries and deadlines |
//!
//! Spec: UPP-1.2 §13

mod admission;
mod attempt;
mod body;
pub mod cassette;
mod client;
mod concurrency;
mod config;
mod destinations;
mod error;
mod events_or_document;
mod keys;
mod multipart;
mod request;
mod retry;
mod retry_after;
mod tls;
mod transport;

pub use ::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};

pub use self::attempt::HttpResponse;
pub use self::body::{BodyDecoder, BodyStream, Flow};
pub use self::client::HttpClient;
pub use self::config::{Destinations, Http2, HttpConfig, Proxy};
pub use self::destinations::is_public;
pub use self::error::{HostFailure, HttpError, StatusError, TimeoutPhase};
pub use self::events_or_document::{EventOrDocument, EventsOrDocument, EventsOrDocumentError};
pub use self::keys::{
    DynamicKey, EnvironmentKey, KeyError, KeyFuture, KeyStrategy, RoundRobinKeys, StaticKey, WeightedKeys,
};
pub use self::multipart::Multipart;
pub use self::request::{HttpRequest, PreparedRequest, ResponseType};
pub use self::retry::{
    Attempts, ExponentialBackoff, FailedAttempt, LinearBackoff, NoRetry, RetryAfterStrategy, RetryFuture,
    RetryLog, RetryPolicy, RetryStrategy, StandardRetry, TokenBucket,
};
pub use self::retry_after::parse_retry_after;
pub use self::tls::{CaCertificates, ServerTrust, client_config, install_provider};
pub use self::transport::{
    Credentials, ReplaceTransport, ReqwestTransport, ResponseBody, Transport, TransportError,
    TransportFuture, TransportLayer, TransportResponse,
};
