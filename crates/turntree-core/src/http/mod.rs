//! HTTP for providers: requests out, whole bodies or decoded streams back. UPP-1.2 §13.
//!
//! The only room that names `reqwest`. Socket work runs on [`runtime`](crate::runtime); what is returned
//! may be polled on any thread, also one without a tokio context such as that of an asyncio event loop.
//! Retry strategies and keys are asked on the polling thread, so they may belong to the host language.
//!
//! | file | what |
//! |---|---|
//! | `config` | time limits, sizes, proxy: data, hashable |
//! | `request` | what is sent, with secret headers marked |
//! | `multipart` | forms with files, as bodies |
//! | `client` | one client per configuration; `send` and `stream` |
//! | `exchange` | one attempt, in the background task |
//! | `body` | decoding a stream where it is read, and handing its items over |
//! | `retry` | when to try again |
//! | `keys` | where an API key comes from |
//! | `limit` | how many at once |
//! | `replay` | exchanges that are recorded, and played instead of the network |
//! | `tls` | certificates beside those of the system |
//! | `error` | what can go wrong |

mod body;
mod client;
mod config;
mod error;
mod exchange;
mod keys;
mod limit;
mod multipart;
pub mod replay;
mod request;
mod retry;
mod tls;

pub use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
pub use reqwest::{Method, StatusCode};

pub use self::body::{BodySink, BodyStream, Flow};
pub use self::client::{HttpClient, HttpResponse};
pub use self::config::{Http2, HttpConfig, Proxy};
pub use self::error::{HostFailure, HttpError, StatusError, TimeoutPhase};
pub use self::keys::{
    DynamicKey, Environment, Fixed, KeyError, KeyFuture, KeyStrategy, RoundRobinKeys, WeightedKeys,
};
pub use self::multipart::Multipart;
pub use self::replay::Replay;
pub use self::request::{Expect, HttpRequest};
pub use self::retry::{
    Answer, Attempts, ExponentialBackoff, Failure, LinearBackoff, NoRetry, RetryAfterStrategy, RetryPolicy,
    RetryStrategy, TokenBucket, parse_retry_after,
};
pub use self::tls::CaCertificates;
