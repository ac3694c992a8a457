//! Requests that web pages of other sites send to a server of this machine.
//!
//! A server without an authenticator listens on the loopback interface. Web pages in a browser of the machine reach it too:
//! with requests and WebSocket connections of their own origin, or by a name of theirs that leads to 127.0.0.1 (DNS
//! rebinding). Other programs send no `Origin`, and know the server by a name of the machine.

use std::net::IpAddr;

use http::uri::Authority;
use http::{HeaderMap, Uri, header};

use crate::error::ServerError;

/// Refuses a request of a web page of another site. `public_host` is the name by which clients know the server behind a
/// proxy.
///
/// # Errors
/// [`ServerError::ForeignPage`].
pub(super) fn check(uri: &Uri, headers: &HeaderMap, public_host: Option<&str>) -> Result<(), ServerError> {
    let named = headers.get(header::HOST).map_or_else(
        || uri.authority().map(|authority| authority.as_str().to_owned()),
        |host| Some(String::from_utf8_lossy(host.as_bytes()).into_owned()),
    );
    let host = named.as_deref().map(|named| host_of(named).unwrap_or_default());
    let is_known = |host: &str| is_of_this_machine(host) || public_host.is_some_and(|public| public == host);
    // An address leads to no other place than it says, and a name without a dot belongs to the network of the machine.
    if let (Some(host), Some(named)) = (&host, &named)
        && host.contains('.')
        && !is_known(host)
        && host.parse::<IpAddr>().is_err()
    {
        return Err(ServerError::ForeignPage { what: format!("the name {}", shown(named)) });
    }
    let Some(origin) = headers.get(header::ORIGIN) else { return Ok(()) };
    let origin = String::from_utf8_lossy(origin.as_bytes());
    let is_allowed = match origin.split_once("://") {
        Some(("http" | "https", rest)) => {
            host_of(rest).is_some_and(|page| is_known(&page) || Some(&page) == host.as_ref())
        }
        // A file, an extension, or an application: not a page of a site.
        Some(_) => true,
        // `null`, which a page of a site can choose.
        None => false,
    };
    if is_allowed {
        Ok(())
    } else {
        Err(ServerError::ForeignPage { what: format!("pages of {}", shown(&origin)) })
    }
}

/// The host of `host:port` in lower case, without the brackets of IPv6.
fn host_of(authority: &str) -> Option<String> {
    let authority: Authority = authority.parse().ok()?;
    let host = authority.host().trim_start_matches('[').trim_end_matches(']');
    Some(host.to_ascii_lowercase())
}

fn is_of_this_machine(host: &str) -> bool {
    host == "localhost"
        || host.ends_with(".localhost")
        || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// The beginning of what a client has sent.
fn shown(text: &str) -> String {
    text.chars().take(100).collect()
}
