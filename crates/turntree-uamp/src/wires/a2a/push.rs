//! Webhooks: a POST for each change of a task's state.
//!
//! A webhook is a URL that a client chooses, so the server would send requests for it into its own network. Addresses that
//! are not public are refused when the webhook is created, and again when a connection for it is made, so that a name
//! cannot change its address meanwhile; [`super::A2a::allowing_private_webhooks`] allows them.
//!
//! Spec: A2A 1.0

use std::net::IpAddr;
use std::num::NonZeroUsize;
use std::time::Duration;

use futures_util::future::join_all;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use turntree_core::http::{
    Destinations, ExponentialBackoff, HttpClient, HttpConfig, HttpRequest, RetryPolicy, is_public,
};
use turntree_core::runtime;
use turntree_core::secret::Secret;

use super::error::A2aError;
use super::model::{PushConfig, StreamEvent};
use super::v03;

/// How long a webhook may take.
const DEADLINE: Duration = Duration::from_secs(30);

/// Requests to one host at the same time: webhooks of many tasks must not flood a host that a client has named.
const MAX_CONCURRENCY: usize = 16;

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

/// A change of a task, and who is told.
struct Notice {
    configs: Vec<PushConfig>,
    event: StreamEvent,
    task: StreamEvent,
}

/// Tells webhooks the changes of one task, one change after the other: none arrives before an earlier one. Failures are
/// logged, because a client can read the task. What was told before it is dropped is still sent.
#[derive(Debug)]
pub(super) struct Notifier {
    /// A task changes its state a few times.
    notices: Option<mpsc::UnboundedSender<Notice>>,
    allow_private: bool,
}

impl Notifier {
    pub(super) const fn new(allow_private: bool) -> Self {
        Self { notices: None, allow_private }
    }

    /// Tells a change. The event is that of 1.0; webhooks of 0.3 receive the task.
    pub(super) fn tell(&mut self, configs: Vec<PushConfig>, event: StreamEvent, task: StreamEvent) {
        let allow_private = self.allow_private;
        let notices = self.notices.get_or_insert_with(|| {
            let (sender, waiting) = mpsc::unbounded_channel();
            runtime::spawn(send_all(waiting, allow_private)).detach();
            sender
        });
        // The receiver lives as long as the sender.
        let _ = notices.send(Notice { configs, event, task });
    }
}

async fn send_all(mut notices: mpsc::UnboundedReceiver<Notice>, allow_private: bool) {
    while let Some(Notice { configs, event, task }) = notices.recv().await {
        let sending = configs.iter().map(async |config| {
            let body = if config.is_v03 { v03::event(&task) } else { serde_json::json!(event) };
            if let Err(reason) = send(config, &body, allow_private).await {
                log::warn!("A2A: the webhook of the task {} failed: {reason}", config.task_id);
            }
        });
        join_all(sending).await;
    }
}

async fn send(config: &PushConfig, body: &Value, allow_private: bool) -> Result<(), String> {
    let destinations = if allow_private { Destinations::Any } else { Destinations::Public };
    let settings = HttpConfig {
        destinations,
        header_timeout: Duration::from_secs(15),
        total_deadline: Some(DEADLINE),
        max_body: 64 * 1024,
        max_concurrency: NonZeroUsize::new(MAX_CONCURRENCY),
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
