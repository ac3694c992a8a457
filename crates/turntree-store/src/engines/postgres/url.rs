//! URLs of databases: `postgresql://user:password@host:port/database?sslmode=verify-full&schema=agents`.

use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};
use turntree_core::http::{CaCertificates, ServerTrust};

use crate::engine::TIMEOUT;
use crate::error::StoreError;

/// The longest name of a schema, in bytes. PostgreSQL cuts longer ones without an error.
const MAX_SCHEMA: usize = 63;

/// A packet that is not acknowledged within this time ends the connection.
const UNACKNOWLEDGED: Duration = Duration::from_secs(30);

/// What a URL says.
#[derive(Debug)]
pub(super) struct Target {
    /// Host and database, for messages.
    pub(super) name: Arc<str>,
    /// How to connect. Its `Debug` output does not contain the password.
    pub(super) config: Config,
    /// Which servers are trusted; None without TLS.
    pub(super) trust: Option<ServerTrust>,
    /// The schema of the tables; None for the first one of the search path.
    pub(super) schema: Option<String>,
    /// What is between this process and the server; None to find it out.
    pub(super) pooler: Option<Pooler>,
}

/// How a pooler gives connections to its clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pooler {
    /// A process of the server for each connection.
    Session,
    /// A process of the server for each transaction.
    Transaction,
}

/// Reads a URL. Errors contain no part of it but names of options, because an unescaped character of a password moves the
/// rest of the password to another part.
pub(super) fn parse(url: &str) -> Result<Target, StoreError> {
    let rest = url.strip_prefix("postgresql://").or_else(|| url.strip_prefix("postgres://"));
    let Some(rest) = rest else {
        return Err(invalid("expected postgresql://user:password@host:port/database"));
    };
    let (address, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (authority, path) = address.split_once('/').unwrap_or((address, ""));
    let is_split = authority.matches('@').count() > 1 || path.contains('@') || query.contains('@');
    if is_split || rest.contains('#') {
        return Err(invalid("percent-encode the characters @ / ? # : of the user name and the password"));
    }
    let mut options = Options::default();
    let mut kept = format!("postgresql://{address}");
    let mut separator = '?';
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (key, value) = pair.split_once('=').ok_or_else(|| invalid("an option has no value"))?;
        match key {
            "sslmode" => options.ssl_mode = Some(decode(value)?),
            "sslrootcert" => options.root_certificates = Some(decode(value)?),
            "schema" => options.schema = Some(decode(value)?),
            "pooler" => options.pooler = Some(pooler(value)?),
            _ => {
                let _ = write!(kept, "{separator}{pair}");
                separator = '&';
            }
        }
    }
    let mut config: Config = kept.parse().map_err(|error| invalid(&super::error::describe(&error)))?;
    if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
        return Err(invalid("it names no host"));
    }
    let (ssl_mode, trust) = options.trust()?;
    config.ssl_mode(ssl_mode);
    config.tcp_user_timeout(UNACKNOWLEDGED);
    if config.get_application_name().is_none() {
        config.application_name("turntree");
    }
    if config.get_connect_timeout().is_some_and(|timeout| *timeout > TIMEOUT) {
        config.connect_timeout(TIMEOUT);
    }
    if let Some(schema) = &options.schema {
        check_schema(schema)?;
    }
    Ok(Target { name: name(&config), config, trust, schema: options.schema, pooler: options.pooler })
}

/// Checks the name of a schema.
pub(super) fn check_schema(schema: &str) -> Result<(), StoreError> {
    if schema.is_empty() || schema.len() > MAX_SCHEMA || schema.contains('\0') {
        return Err(StoreError::Invalid(format!("schema: expected a name of 1 to {MAX_SCHEMA} bytes")));
    }
    Ok(())
}

#[derive(Default)]
struct Options {
    ssl_mode: Option<String>,
    root_certificates: Option<String>,
    schema: Option<String>,
    pooler: Option<Pooler>,
}

impl Options {
    /// The modes mean what they mean for libpq.
    fn trust(&self) -> Result<(SslMode, Option<ServerTrust>), StoreError> {
        let certificates = match self.root_certificates.as_deref() {
            None | Some("system") => None,
            Some(path) => {
                let read = CaCertificates::from_file(Path::new(path));
                Some(read.map_err(|error| invalid(&format!("sslrootcert: {error}")))?)
            }
        };
        Ok(match (self.ssl_mode.as_deref().unwrap_or("prefer"), certificates) {
            ("disable", _) => (SslMode::Disable, None),
            ("allow" | "prefer", _) => (SslMode::Prefer, Some(ServerTrust::Any)),
            ("require", None) if self.root_certificates.is_none() => {
                (SslMode::Require, Some(ServerTrust::Any))
            }
            ("require" | "verify-ca", Some(certificates)) => {
                (SslMode::Require, Some(ServerTrust::Authority(certificates)))
            }
            ("verify-full", certificates) => {
                (SslMode::Require, Some(ServerTrust::AuthorityAndName(certificates)))
            }
            ("require" | "verify-ca", None) => {
                return Err(invalid(
                    "this sslmode needs sslrootcert=FILE; sslmode=verify-full trusts the system's certificates",
                ));
            }
            _ => {
                return Err(invalid("sslmode: expected disable, prefer, require, verify-ca or verify-full"));
            }
        })
    }
}

fn pooler(value: &str) -> Result<Pooler, StoreError> {
    match value {
        "session" => Ok(Pooler::Session),
        "transaction" => Ok(Pooler::Transaction),
        _ => Err(invalid("pooler: expected session or transaction")),
    }
}

/// Host and database.
fn name(config: &Config) -> Arc<str> {
    let ports = config.get_ports();
    let hosts = config.get_hosts().iter().map(|host| match host {
        Host::Tcp(host) => host.clone(),
        #[cfg(unix)]
        Host::Unix(path) => path.display().to_string(),
    });
    let addresses = config.get_hostaddrs().iter().map(ToString::to_string);
    let hosts: Vec<String> =
        if config.get_hosts().is_empty() { addresses.collect() } else { hosts.collect() };
    let mut text = String::new();
    for (index, host) in hosts.iter().enumerate() {
        let separator = if index == 0 { "" } else { "," };
        let _ = write!(text, "{separator}{host}");
        match ports.get(index).or(ports.first()) {
            None | Some(5432) => {}
            Some(port) => {
                let _ = write!(text, ":{port}");
            }
        }
    }
    let database = config.get_dbname().or(config.get_user()).unwrap_or_default();
    format!("PostgreSQL store \"{text}/{database}\"").into()
}

/// Decodes the percent-encoding of a value.
fn decode(value: &str) -> Result<String, StoreError> {
    let mut bytes = Vec::with_capacity(value.len());
    let mut rest = value.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let mut digit = || rest.next().and_then(|digit| char::from(digit).to_digit(16));
        let code = digit().zip(digit()).and_then(|(high, low)| u8::try_from(high * 16 + low).ok());
        bytes.push(code.ok_or_else(|| invalid("an option is not percent-encoded"))?);
    }
    String::from_utf8(bytes).map_err(|_| invalid("an option is not UTF-8"))
}

fn invalid(why: &str) -> StoreError {
    StoreError::Invalid(format!("the URL of the PostgreSQL database is invalid: {why}"))
}
