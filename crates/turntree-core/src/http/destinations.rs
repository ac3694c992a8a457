//! Which addresses belong to the public internet, and the addresses of names that have no others.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use url::{Host, Url};

use super::config::Proxy;

/// The variables of the environment that name a proxy.
const PROXY_VARIABLES: [&str; 6] =
    ["http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"];

/// A host has an address that is not public.
#[derive(Debug, thiserror::Error)]
#[error("the host {host} has an address of a private network; only public addresses are allowed")]
pub(super) struct NotPublic {
    host: String,
}

/// True for addresses of the public internet.
pub fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => match address.to_ipv4_mapped() {
            Some(mapped) => is_public_v4(mapped),
            None => is_public_v6(address),
        },
    }
}

const fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    let is_special = address.is_private()
        || address.is_loopback()
        || address.is_link_local()
        || address.is_documentation()
        || a == 0
        || a >= 224
        // Carrier networks, benchmarks, protocol assignments.
        || (a == 100 && b >= 64 && b < 128)
        || (a == 198 && (b == 18 || b == 19))
        || (a == 192 && b == 0 && c == 0);
    !is_special
}

const fn is_public_v6(address: Ipv6Addr) -> bool {
    // Global unicast without documentation, Teredo and 6to4, which contain other addresses.
    let [a, b, ..] = address.segments();
    (a & 0xe000) == 0x2000 && !(a == 0x2001 && (b == 0xdb8 || b < 0x200)) && a != 0x2002
}

/// Checks the host of a URL that is an address; names are checked by [`PublicNames`].
pub(super) fn check_host(url: &Url) -> Result<(), NotPublic> {
    let address: IpAddr = match url.host() {
        Some(Host::Ipv4(address)) => address.into(),
        Some(Host::Ipv6(address)) => address.into(),
        Some(Host::Domain(_)) | None => return Ok(()),
    };
    if is_public(address) { Ok(()) } else { Err(NotPublic { host: address.to_string() }) }
}

/// Finds the addresses of names, and refuses names with an address that is not public.
#[derive(Debug, Clone)]
pub(super) struct PublicNames {
    /// Names of proxies, which the operator has chosen.
    trusted: Vec<String>,
}

impl PublicNames {
    /// The names for connections through this proxy.
    pub(super) fn new(proxy: &Proxy) -> Self {
        let urls: Vec<String> = match proxy {
            Proxy::Direct => Vec::new(),
            Proxy::Url(url) => vec![url.expose().to_owned()],
            Proxy::Environment => {
                PROXY_VARIABLES.iter().filter_map(|name| std::env::var(name).ok()).collect()
            }
        };
        let host_of = |url: &String| {
            let url = if url.contains("://") { url.clone() } else { format!("http://{url}") };
            Url::parse(&url).ok()?.host_str().map(str::to_owned)
        };
        Self { trusted: urls.iter().filter_map(host_of).collect() }
    }

    /// The addresses of a name, with the port 0.
    ///
    /// # Errors
    /// The name has no address, or one that is not public.
    pub(super) async fn find(&self, name: &str) -> io::Result<Vec<SocketAddr>> {
        let is_trusted = self.trusted.iter().any(|host| host.eq_ignore_ascii_case(name));
        let found: Vec<SocketAddr> = tokio::net::lookup_host((name, 0)).await?.collect();
        if is_trusted || found.iter().all(|address| is_public(address.ip())) {
            return Ok(found);
        }
        Err(io::Error::other(NotPublic { host: name.to_owned() }))
    }
}
