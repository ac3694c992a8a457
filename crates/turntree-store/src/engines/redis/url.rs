//! URLs of servers: `rediss://user:password@host:port/database?prefix=agents`.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use redis::io::tcp::TcpSettings;
use redis::{Client, ConnectionAddr, ConnectionInfo, IntoConnectionInfo as _, TlsCertificates};
use turntree_core::http::{CaCertificates, install_provider};

use crate::error::StoreError;

/// What all keys start with, unless the URL or the options say otherwise.
pub(super) const DEFAULT_PREFIX: &str = "turntree";

/// The longest prefix, in bytes.
const MAX_PREFIX: usize = 100;

/// Data that is not acknowledged within this time ends the connection.
const UNACKNOWLEDGED: Duration = Duration::from_secs(30);

/// What a URL says.
pub(super) struct Target {
    /// Host and database, for messages.
    pub(super) name: Arc<str>,
    /// How to connect. It contains the password.
    pub(super) client: Client,
    /// What all keys start with.
    pub(super) prefix: String,
}

/// Reads a URL. Errors contain no part of it, because an unescaped character of a password moves the rest of the password
/// to another part.
pub(super) fn parse(url: &str) -> Result<Target, StoreError> {
    let url = url.trim();
    if !url.starts_with("redis://") && !url.starts_with("rediss://") {
        return Err(invalid("expected redis://user:password@host:port/database, or rediss:// for TLS"));
    }
    let parsed = redis::parse_redis_url(url).ok_or_else(|| invalid("check host and port"))?;
    let is_split = parsed.path().contains('@') || parsed.query().is_some_and(|query| query.contains('@'));
    if is_split || parsed.fragment().is_some() {
        return Err(invalid("percent-encode the characters @ / ? # : of the user name and the password"));
    }
    let mut prefix = DEFAULT_PREFIX.to_owned();
    let mut certificates = None;
    for (key, value) in parsed.query_pairs() {
        match &*key {
            "prefix" => prefix = value.into_owned(),
            "ssl_ca_certs" => {
                let read = CaCertificates::from_file(Path::new(&*value));
                certificates = Some(read.map_err(|error| invalid(&format!("ssl_ca_certs: {error}")))?);
            }
            "protocol" => {}
            _ => return Err(invalid("unknown option; expected prefix, ssl_ca_certs or protocol")),
        }
    }
    check_prefix(&prefix)?;
    // The crate's messages quote parts of the URL.
    let info = parsed.into_connection_info();
    let info = info.map_err(|_| invalid("check the host, the number of the database and the protocol"))?;
    let settings = TcpSettings::default().set_nodelay(true);
    #[cfg(any(target_os = "linux", target_os = "android"))]
    let settings = settings.set_user_timeout(UNACKNOWLEDGED);
    let info = info.set_tcp_settings(settings);
    let name = name(&info);
    let client = match certificates {
        Some(certificates) => {
            let root_cert = Some(certificates.pem().to_vec());
            Client::build_with_tls(info, TlsCertificates { client_tls: None, root_cert })
        }
        None => Client::open(info),
    };
    install_provider();
    Ok(Target { name, client: client.map_err(|_| invalid("certificates need rediss://"))?, prefix })
}

/// Checks a prefix. Braces would change which part of a key selects the node of a cluster.
pub(super) fn check_prefix(prefix: &str) -> Result<(), StoreError> {
    if prefix.is_empty() || prefix.len() > MAX_PREFIX || prefix.contains(['{', '}']) {
        return Err(StoreError::Invalid(format!("prefix: expected 1 to {MAX_PREFIX} bytes without braces")));
    }
    Ok(())
}

/// Host and database.
fn name(info: &ConnectionInfo) -> Arc<str> {
    let (host, port) = match info.addr() {
        ConnectionAddr::Tcp(host, port) | ConnectionAddr::TcpTls { host, port, .. } => (host.as_str(), *port),
        _ => ("", 0),
    };
    let port = if port == 6379 { String::new() } else { format!(":{port}") };
    format!("Redis store \"{host}{port}/{}\"", info.redis_settings().db()).into()
}

fn invalid(why: &str) -> StoreError {
    StoreError::Invalid(format!("the URL of the Redis server is invalid: {why}"))
}
