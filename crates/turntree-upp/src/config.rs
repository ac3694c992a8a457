//! Provider configuration: API key, URL, timeouts, retries, headers.
//!
//! Spec: UPP-1.2 §9

use std::fmt;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use turntree_core::http::{
    CaCertificates, Http2, HttpConfig, KeyStrategy, Proxy, RetryPolicy, RetryStrategy, StandardRetry,
    StaticKey, TransportLayer,
};
use turntree_core::runtime::environment;
use turntree_core::secret::Secret;

/// The default timeout for the response's headers.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(120);

/// The default number of retries.
const DEFAULT_RETRIES: u32 = 2;

/// The environment variable with another default number of retries.
const RETRIES_VARIABLE: &str = "TURNTREE_MAX_RETRIES";

/// How to reach a provider: everything but the model's own parameters. Fields that are `None` use the default.
///
/// `Debug` shows neither keys nor values of headers.
///
/// ```
/// use turntree_upp::ProviderConfig;
///
/// let factory = ProviderConfig::default().with_key("sk-of-the-factory").with_header("X-Team", "blue");
/// let caller = ProviderConfig::default().with_header("x-team", "red");
/// let effective = caller.over(&factory);
/// assert!(effective.api_key.is_some());
/// assert_eq!(effective.headers.len(), 1);
/// assert!(!format!("{effective:?}").contains("sk-of"));
/// ```
#[derive(Clone, Default)]
pub struct ProviderConfig {
    /// The source of the API key: a fixed key, a function, or a strategy over many keys. Default: the environment.
    pub api_key: Option<Arc<dyn KeyStrategy>>,
    /// The prefix of URLs, as `https://api.openai.com/v1`, or the URL of one request; see [`request_url`].
    pub base_url: Option<String>,
    /// Timeout for the response's headers. Default: 120 s.
    pub timeout: Option<Duration>,
    /// Timeout for a connection. Default: 10 s, or `timeout` if that is shorter.
    pub connect_timeout: Option<Duration>,
    /// Timeout between two chunks of a body. Default: `timeout`.
    pub idle_timeout: Option<Duration>,
    /// Headers that replace or extend the provider's own; names are case-insensitive. `None` removes a header that the
    /// factory has set.
    pub headers: Vec<(String, Option<Secret>)>,
    /// The version of the vendor's API, if it has versions.
    pub api_version: Option<String>,
    /// The source of a token that is sent as `Authorization: Bearer` instead of the API key.
    pub auth: Option<Arc<dyn KeyStrategy>>,
    /// Signs each request, instead of the API key.
    pub signer: Option<Arc<dyn TransportLayer>>,
    /// Retries after connection errors and the statuses 408, 409, 429 and 5xx. Default: 2, or `TURNTREE_MAX_RETRIES`.
    pub max_retries: Option<u32>,
    /// Retry strategy for failed requests, instead of `max_retries`.
    pub retry_strategy: Option<Arc<dyn RetryStrategy>>,
    /// The longest `Retry-After` that a retry waits for. Default: one hour.
    pub retry_after_max: Option<Duration>,
    /// Certificate authorities to trust besides the system's.
    pub ca_certificates: Option<CaCertificates>,
    /// Timeout for the whole call: attempts, waits between them, and the body. Default: none.
    pub total_timeout: Option<Duration>,
    /// Maximum concurrent requests to one host, streams included; further requests wait. Default: no limit.
    pub max_concurrency: Option<NonZeroUsize>,
    /// Maximum number of connections to one host; further requests wait, which does not count as `timeout`. Default: as
    /// many as needed.
    pub max_connections: Option<NonZeroUsize>,
    /// The versions of HTTP to use. Default: HTTP/2 where the server offers it over TLS.
    pub http2: Option<Http2>,
    /// The proxy. Default: the one from the environment.
    pub proxy: Option<Proxy>,
    /// Whether the vendor enforces the schema of structured output. Default: if the schema can be closed. `Some(true)`
    /// refuses other schemas, `Some(false)` sends every schema unchanged.
    pub strict_schemas: Option<bool>,
    /// Wraps or replaces the HTTP transport, for example with a cassette.
    pub transport: Option<Arc<dyn TransportLayer>>,
}

impl ProviderConfig {
    /// Sets a fixed API key.
    #[must_use]
    pub fn with_key(self, key: impl Into<Secret>) -> Self {
        self.with_key_strategy(StaticKey(key.into()))
    }

    /// Sets a key strategy, which provides a key for each request.
    #[must_use]
    pub fn with_key_strategy(self, keys: impl KeyStrategy + 'static) -> Self {
        Self { api_key: Some(Arc::new(keys)), ..self }
    }

    /// Sets the prefix of URLs, or the URL of one request.
    #[must_use]
    pub fn with_base_url(self, url: impl Into<String>) -> Self {
        Self { base_url: Some(url.into()), ..self }
    }

    /// Sets the timeout for the response's headers.
    #[must_use]
    pub fn with_timeout(self, timeout: Duration) -> Self {
        Self { timeout: Some(timeout), ..self }
    }

    /// Sets the retry strategy.
    #[must_use]
    pub fn with_retries(self, strategy: impl RetryStrategy + 'static) -> Self {
        Self { retry_strategy: Some(Arc::new(strategy)), ..self }
    }

    /// Sets a header. Replaces a header of the same name, whatever its case.
    #[must_use]
    pub fn with_header(mut self, name: impl Into<String>, value: impl Into<Secret>) -> Self {
        self.set_header(name.into(), Some(value.into()));
        self
    }

    /// Merges two configurations: this one's fields win, headers are merged by name.
    #[must_use]
    pub fn over(&self, base: &Self) -> Self {
        let mut merged = Self {
            api_key: self.api_key.clone().or_else(|| base.api_key.clone()),
            base_url: self.base_url.clone().or_else(|| base.base_url.clone()),
            timeout: self.timeout.or(base.timeout),
            connect_timeout: self.connect_timeout.or(base.connect_timeout),
            idle_timeout: self.idle_timeout.or(base.idle_timeout),
            headers: base.headers.clone(),
            api_version: self.api_version.clone().or_else(|| base.api_version.clone()),
            auth: self.auth.clone().or_else(|| base.auth.clone()),
            signer: self.signer.clone().or_else(|| base.signer.clone()),
            // A number of retries replaces a strategy of the base.
            max_retries: self.max_retries.or(base.max_retries),
            retry_strategy: match self.max_retries {
                Some(_) => self.retry_strategy.clone(),
                None => self.retry_strategy.clone().or_else(|| base.retry_strategy.clone()),
            },
            retry_after_max: self.retry_after_max.or(base.retry_after_max),
            ca_certificates: self.ca_certificates.clone().or_else(|| base.ca_certificates.clone()),
            total_timeout: self.total_timeout.or(base.total_timeout),
            max_concurrency: self.max_concurrency.or(base.max_concurrency),
            max_connections: self.max_connections.or(base.max_connections),
            http2: self.http2.or(base.http2),
            proxy: self.proxy.clone().or_else(|| base.proxy.clone()),
            strict_schemas: self.strict_schemas.or(base.strict_schemas),
            transport: self.transport.clone().or_else(|| base.transport.clone()),
        };
        for (name, value) in &self.headers {
            merged.set_header(name.clone(), value.clone());
        }
        merged
    }

    /// The settings of the HTTP client.
    pub fn http(&self) -> HttpConfig {
        let defaults = HttpConfig::default();
        let timeout = self.timeout.unwrap_or(DEFAULT_TIMEOUT);
        HttpConfig {
            connect_timeout: self.connect_timeout.unwrap_or_else(|| defaults.connect_timeout.min(timeout)),
            header_timeout: timeout,
            idle_timeout: self.idle_timeout.unwrap_or(timeout),
            ca_certificates: self.ca_certificates.clone(),
            total_deadline: self.total_timeout,
            max_concurrency: self.max_concurrency,
            max_connections: self.max_connections,
            http2: self.http2.unwrap_or_default(),
            proxy: self.proxy.clone().unwrap_or(Proxy::Environment),
            ..defaults
        }
    }

    /// The retry policy. Without a strategy and a number of retries it is that of [`StandardRetry`].
    pub fn retries(&self) -> RetryPolicy {
        let defaults = RetryPolicy::default();
        let standard = || {
            let configured = || environment(RETRIES_VARIABLE)?.trim().parse().ok();
            let max_retries = self.max_retries.or_else(configured).unwrap_or(DEFAULT_RETRIES);
            (max_retries > 0).then(|| Arc::new(StandardRetry { max_retries }) as Arc<dyn RetryStrategy>)
        };
        RetryPolicy {
            strategy: self.retry_strategy.clone().or_else(standard),
            retry_after_max: self.retry_after_max.unwrap_or(defaults.retry_after_max),
            ..defaults
        }
    }

    /// True if the configuration sets this header. Names are case-insensitive.
    pub fn has_header(&self, name: &str) -> bool {
        self.headers.iter().any(|(known, value)| value.is_some() && known.eq_ignore_ascii_case(name))
    }

    fn set_header(&mut self, name: String, value: Option<Secret>) {
        match self.headers.iter_mut().find(|(known, _)| known.eq_ignore_ascii_case(&name)) {
            Some(known) => *known = (name, value),
            None => self.headers.push((name, value)),
        }
    }
}

impl ProviderConfig {
    /// The base URL without its query, user and password.
    pub fn shown_base_url(&self) -> Option<String> {
        self.base_url.as_deref().map(without_secrets)
    }
}

impl fmt::Debug for ProviderConfig {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let headers: Vec<&str> = self.headers.iter().map(|(name, _)| name.as_str()).collect();
        let base_url = self.shown_base_url();
        formatter
            .debug_struct("ProviderConfig")
            // A custom strategy may print its keys.
            .field("api_key", &self.api_key.as_ref().map(|_| "***"))
            .field("base_url", &base_url)
            .field("timeout", &self.timeout)
            .field("connect_timeout", &self.connect_timeout)
            .field("idle_timeout", &self.idle_timeout)
            .field("headers", &headers)
            .field("api_version", &self.api_version)
            .field("auth", &self.auth.as_ref().map(|_| "***"))
            .field("signer", &self.signer)
            .field("max_retries", &self.max_retries)
            .field("retry_strategy", &self.retry_strategy)
            .field("retry_after_max", &self.retry_after_max)
            .field("ca_certificates", &self.ca_certificates)
            .field("total_timeout", &self.total_timeout)
            .field("max_concurrency", &self.max_concurrency)
            .field("max_connections", &self.max_connections)
            .field("http2", &self.http2)
            .field("proxy", &self.proxy)
            .field("strict_schemas", &self.strict_schemas)
            .field("transport", &self.transport)
            .finish()
    }
}

/// Removes query, user and password from a URL.
fn without_secrets(url: &str) -> String {
    let url = url.split(['?', '#']).next().unwrap_or_default();
    match url.split_once("://") {
        Some((scheme, rest)) => {
            let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
            let host = authority.rsplit('@').next().unwrap_or_default();
            format!("{scheme}://{host}{path}")
        }
        None => url.to_owned(),
    }
}

/// Joins prefix and path into the URL of a request. A prefix that already ends with the path is used as it is; its
/// query moves to the end.
///
/// ```
/// use turntree_upp::config::request_url;
///
/// let path = "/chat/completions";
/// assert_eq!(request_url("https://host/v1/", path), "https://host/v1/chat/completions");
/// assert_eq!(request_url("https://host/v1/chat/completions", path), "https://host/v1/chat/completions");
/// assert_eq!(request_url("https://host/v1?version=2", path), "https://host/v1/chat/completions?version=2");
/// ```
pub fn request_url(base_url: &str, path: &str) -> String {
    let (prefix, query) =
        base_url.trim().split_at(base_url.trim().find('?').unwrap_or(base_url.trim().len()));
    let prefix = prefix.trim_end_matches('/');
    // A path may have a query of its own, as `?alt=sse`.
    let (path, path_query) = path.split_at(path.find('?').unwrap_or(path.len()));
    let path = if prefix.ends_with(path) { "" } else { path };
    match (path_query, query) {
        ("", query) => format!("{prefix}{path}{query}"),
        (own, "") => format!("{prefix}{path}{own}"),
        (own, theirs) => format!("{prefix}{path}{own}&{}", theirs.trim_start_matches('?')),
    }
}
