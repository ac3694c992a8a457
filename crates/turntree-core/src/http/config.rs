//! The configuration of an HTTP client: plain data, so that it can be a key for shared connections.

use std::num::NonZeroUsize;
use std::time::Duration;

use super::tls::CaCertificates;
use crate::secret::Secret;

/// Timeouts, size limits and connection settings.
///
/// Two configurations that differ only in limits share their connections; see
/// [`HttpClient::shared`](super::HttpClient::shared).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct HttpConfig {
    /// Maximum time to connect, including TLS. Default: 10 s.
    pub connect_timeout: Duration,
    /// Maximum time until the response's headers, including the connection: UPP's `timeout`. Default: 120 s.
    pub header_timeout: Duration,
    /// Maximum time between two chunks of a body. Default: 120 s.
    pub idle_timeout: Duration,
    /// Maximum time of the whole operation: attempts, waits between them, and the body. Default: none.
    pub total_deadline: Option<Duration>,
    /// Maximum size in bytes of a body that is read whole, after decompression. Default: 64 MiB.
    pub max_body: usize,
    /// Maximum size in bytes of a streamed body. Default: 1 GiB.
    pub max_stream: usize,
    /// The proxy for connections.
    pub proxy: Proxy,
    /// The protocol versions to offer.
    pub http2: Http2,
    /// The addresses that a host may have.
    pub destinations: Destinations,
    /// Certificate authorities that are trusted in addition to the system's.
    pub ca_certificates: Option<CaCertificates>,
    /// Maximum number of concurrent requests to one host, including their bodies; further requests wait. Shared by all
    /// configurations with the same number. Default: no limit.
    pub max_concurrency: Option<NonZeroUsize>,
    /// Maximum number of connections to one host; further requests wait, which does not count as `header_timeout`.
    /// Default: as many as needed.
    pub max_connections: Option<NonZeroUsize>,
    /// How often an HTTP/2 connection is pinged while it serves requests. A connection whose server does not answer within
    /// 10 s, or within the interval if it is shorter, is closed, and its requests fail with a network error. Connections
    /// without requests are not pinged; they are closed after 90 s. Default: 30 s.
    pub ping_interval: Duration,
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
            destinations: Destinations::Any,
            ca_certificates: None,
            max_concurrency: None,
            max_connections: None,
            ping_interval: Duration::from_secs(30),
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
            destinations: self.destinations,
            ca_certificates: self.ca_certificates.clone(),
            max_connections: self.max_connections,
            ping_interval: self.ping_interval,
            user_agent: self.user_agent.clone(),
        }
    }
}

/// The proxy for connections.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub enum Proxy {
    /// The proxy that `HTTPS_PROXY`, `HTTP_PROXY`, `NO_PROXY` or the system's settings name.
    #[default]
    Environment,
    /// No proxy.
    Direct,
    /// This URL; a secret because it may contain a password.
    Url(Secret),
}

/// The protocol versions to offer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Http2 {
    /// HTTP/2 over TLS if the server supports it, else HTTP/1.1.
    #[default]
    Negotiated,
    /// HTTP/1.1 only, for proxies and servers with a faulty HTTP/2.
    Disabled,
    /// HTTP/2 without negotiation, also without TLS.
    PriorKnowledge,
}

/// The addresses that a host may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Destinations {
    /// Any.
    #[default]
    Any,
    /// Those of the public internet only, for URLs that strangers choose. A name is checked when a connection is made, so
    /// that it cannot change its address after the check. The name of a proxy is not checked, and what is behind a
    /// proxy is the matter of the proxy.
    Public,
}

/// The settings that a connection pool depends on; the key under which pools are shared.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct ConnectionConfig {
    pub(super) connect_timeout: Duration,
    pub(super) proxy: Proxy,
    pub(super) http2: Http2,
    pub(super) destinations: Destinations,
    pub(super) ca_certificates: Option<CaCertificates>,
    pub(super) max_connections: Option<NonZeroUsize>,
    pub(super) ping_interval: Duration,
    pub(super) user_agent: String,
}
