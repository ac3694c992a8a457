//! Refuses requests to hosts on the network, for tests: `turntree.testing.guard_requests`.

use std::sync::{Arc, Mutex};

use crate::prelude::*;

use crate::bridge::gil::lock;
use turntree_core::http::{
    Credentials, HttpRequest, PreparedRequest, Transport, TransportError, TransportFuture,
};

/// The hosts that requests may reach beside this machine; `None`: all hosts.
static ALLOWED: Mutex<Option<Arc<[String]>>> = Mutex::new(None);

/// Refuse the requests of all models of this process, except those to this machine and to these hosts; None ends it.
///
/// Returns the hosts that were allowed before.
#[pyfunction]
pub(crate) fn guard_requests(hosts: Option<Vec<String>>) -> Option<Vec<String>> {
    let hosts = hosts.map(Arc::from);
    std::mem::replace(&mut *lock(&ALLOWED), hosts).map(|hosts| hosts.to_vec())
}

/// Whether requests are refused.
pub(super) fn is_guarded() -> bool {
    lock(&ALLOWED).is_some()
}

/// The transport with the guard, if there is one.
pub(super) fn guarded(inner: Arc<dyn Transport>) -> Arc<dyn Transport> {
    let hosts = lock(&ALLOWED).clone();
    match hosts {
        Some(hosts) => Arc::new(GuardedTransport { inner, hosts }),
        None => inner,
    }
}

/// A transport that refuses requests to other hosts.
#[derive(Debug)]
struct GuardedTransport {
    inner: Arc<dyn Transport>,
    hosts: Arc<[String]>,
}

impl GuardedTransport {
    fn allows(&self, host: &str) -> bool {
        let address = host.trim_start_matches('[').trim_end_matches(']');
        let is_loopback = address.parse().is_ok_and(|address: std::net::IpAddr| address.is_loopback());
        is_loopback || host == "localhost" || self.hosts.iter().any(|allowed| allowed == host)
    }
}

impl Transport for GuardedTransport {
    fn send(&self, request: PreparedRequest) -> TransportFuture {
        let host = request.url.host_str().unwrap_or_default();
        if self.allows(host) {
            return self.inner.send(request);
        }
        let message = format!(
            "a test tried to send a request to {host}; use a scripted model, turntree.testing.serve or replay, or allow \
             the host with @pytest.mark.turntree_requests(\"{host}\")"
        );
        Box::pin(std::future::ready(Err(TransportError::Rejected { message })))
    }

    /// A request that will be refused needs no key: the error is about the request, not about the key.
    fn credentials(&self, request: &HttpRequest) -> Credentials {
        let url: Option<http::Uri> = request.url().parse().ok();
        let host = url.as_ref().and_then(http::Uri::host).unwrap_or_default();
        if self.allows(host) { self.inner.credentials(request) } else { Credentials::Optional }
    }
}
