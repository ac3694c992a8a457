//! Configuration of the HTTP client: data only, so that clients can be shared by it.

use std::num::NonZeroUsize;
use std::time::Duration;

use super::tls::CaCertificates;
use crate::secret::Secret;

/// Time limits, size limits and transport of requests.
///
/// Two configurations that differ only in limits share their connections; see
/// [`HttpClient::shared`](super::HttpClient::shared).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct HttpConfig {
    /// Longest wait for a connection, TLS included. Default 10 s.
    pub connect_timeout: Duration,
    /// Longest wait for the response's headers, connecting included: UPP's `timeout`. Default 120 s.
    pub header_timeout: Duration,
    /// Longest silence between two chunks of a body. Default 120 s.
    pub idle_timeout: Duration,
    /// Longest duration of everything: attempts, waits between them, body. Default none.
    pub total_deadline: Option<Duration>,
    /// Largest body that is read whole, after decompression. Default 64 MiB.
    pub max_body: usize,
    /// Largest streamed body. Default 1 GiB.
    pub max_stream: usize,
    /// Where connections go through.
    pub proxy: Proxy,
    /// Which protocol versions are offered.
    pub http2: Http2,
    /// Authorities that are trusted beside the system's.
    pub ca_certificates: Option<CaCertificates>,
    /// Requests to one host that are under way at once, their bodies included; the others wait in line. Shared by all
    /// configurations with the same number. Default: no limit.
    pub max_concurrency: Option<NonZeroUsize>,
    /// The `User-Agent` header.
    pub user_agent: String,
}

impl Default for HttpConfig {
    fn default() -> Self {
        Self {
            connect_timeout: Duration::from_secs(10),
            header_timeout: Duration::from_secs(120),
            idle_timeout: Duration::from_secs(120),
            total_deadline: None,
            max_body: 64 * 1024 * 1024,
            max_stream: 1024 * 1024 * 1024,
            proxy: Proxy::Environment,
            http2: Http2::Negotiated,
            ca_certificates: None,
            max_concurrency: None,
            user_agent: concat!("turntree/", env!("CARGO_PKG_VERSION")).to_owned(),
        }
    }
}

impl HttpConfig {
    /// The settings that a connection pool depends on.
    pub(super) fn connection(&self) -> ConnectionConfig {
        ConnectionConfig {
            connect_timeout: self.connect_timeout,
            proxy: self.proxy.clone(),
            http2: self.http2,
            ca_certificates: self.ca_certificates.clone(),
            user_agent: self.user_agent.clone(),
        }
    }
}

/// Where connections go through.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub enum Proxy {
    /// What `HTTPS_PROXY`, `HTTP_PROXY`, `NO_PROXY` and the system say.
    #[default]
    Environment,
    /// Straight to the server.
    Direct,
    /// Through this proxy; a secret because its URL may hold a password.
    Url(Secret),
}

/// Which protocol versions are offered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Http2 {
    /// HTTP/2 over TLS when the server knows it, else HTTP/1.1.
    #[default]
    Negotiated,
    /// HTTP/1.1 only, for a peer that is broken in between.
    Disabled,
    /// HTTP/2 without asking, also without TLS.
    PriorKnowledge,
}

/// The settings that a connection pool depends on; the key under which pools are shared.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct ConnectionConfig {
    pub(super) connect_timeout: Duration,
    pub(super) proxy: Proxy,
    pub(super) http2: Http2,
    pub(super) ca_certificates: Option<CaCertificates>,
    pub(super) user_agent: String,
}
