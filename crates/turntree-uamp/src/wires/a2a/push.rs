//! Webhooks: a POST for each change of a task's state.
//!
//! A webhook is a URL that a client chooses, so the server would send requests for it into its own network. Addresses that
//! are not public are refused when the webhook is created and before each request, unless
//! [`super::A2a::allowing_private_webhooks`] is called. A name that changes its address between the check
//! and the request is not found out: servers whose network must be protected need a proxy.
//!
//! Spec: A2A 1.0

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use serde_json::Value;
use tokio_util::sync::CancellationToken;
use turntree_core::http::{ExponentialBackoff, HttpClient, HttpConfig, HttpRequest, RetryPolicy};
use turntree_core::runtime;
use turntree_core::secret::Secret;

use super::error::A2aError;
use super::model::{PushConfig, StreamEvent};
use super::v03;

/// How long a webhook may take.
const DEADLINE: Duration = Duration::from_secs(30);

/// Checks the URL of a webhook.
pub(super) async fn check_url(url: &str, allow_private: bool) -> Result<(), A2aError> {
    let refused = |reason: &str| A2aError::invalid(format!("pushNotificationConfig.url: {reason}"));
    let uri: http::Uri = url.parse().map_err(|_| refused("it is not a URL"))?;
    let port = match uri.scheme_str() {
        Some("https") => 443,
        Some("http") => 80,
        _ => return Err(refused("it must begin with https: or http:")),
    };
    let host = uri.host().filter(|host| !host.is_empty()).ok_or_else(|| refused("it has no host"))?;
    if allow_private {
        return Ok(());
    }
    let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
    let port = uri.port_u16().unwrap_or(port);
    let addresses: Vec<IpAddr> = if let Ok(address) = host.parse::<IpAddr>() {
        vec![address]
    } else {
        // In a task of the runtime, because an ASGI application is polled on another thread.
        let found = runtime::spawn(async move {
            let list = tokio::net::lookup_host((host, port)).await;
            list.map(|list| list.map(|address| address.ip()).collect::<Vec<IpAddr>>())
        });
        match found.await {
            Ok(Ok(list)) => list,
            _ => return Err(refused("its host has no address")),
        }
    };
    if addresses.is_empty() || !addresses.iter().all(|address| is_public(*address)) {
        return Err(refused("its address is not a public one; the server can allow such webhooks"));
    }
    Ok(())
}

/// True for addresses of the public internet.
pub(super) fn is_public(address: IpAddr) -> bool {
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

/// Sends a change to webhooks, each in a task of its own. Failures are logged: a client can read the task.
pub(super) fn notify(configs: Vec<PushConfig>, event: &StreamEvent, task: &StreamEvent, allow_private: bool) {
    for config in configs {
        let body = if config.is_v03 { v03::event(task) } else { serde_json::json!(event) };
        runtime::spawn(async move {
            if let Err(reason) = send(&config, &body, allow_private).await {
                log::warn!("A2A: the webhook of the task {} failed: {reason}", config.task_id);
            }
        })
        .detach();
    }
}

async fn send(config: &PushConfig, body: &Value, allow_private: bool) -> Result<(), String> {
    check_url(&config.url, allow_private).await.map_err(|error| error.to_string())?;
    let settings = HttpConfig {
        header_timeout: Duration::from_secs(15),
        total_deadline: Some(DEADLINE),
        max_body: 64 * 1024,
        ..HttpConfig::default()
    };
    let client = HttpClient::shared(&settings).map_err(|error| error.to_string())?;
    let mut request = HttpRequest::post(config.url.clone(), body.to_string())
        .header("content-type", if config.is_v03 { "application/json" } else { "application/a2a+json" });
    if let Some(token) = &config.token {
        request = request.secret_header("X-A2A-Notification-Token", &Secret::from(token.as_str()));
    }
    if let Some(authentication) = &config.authentication
        && let Some(credentials) = &authentication.credentials
    {
        let value = format!("{} {credentials}", authentication.scheme);
        request = request.secret_header("Authorization", &Secret::from(value.as_str()));
    }
    let retry = RetryPolicy::new(ExponentialBackoff::default());
    match client.send(request, &retry, &CancellationToken::new()).await {
        Ok(_) => Ok(()),
        Err(error) => Err(error.to_string()),
    }
}
