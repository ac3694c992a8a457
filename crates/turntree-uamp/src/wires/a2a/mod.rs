//! A2A, versions 1.0 and 0.3: JSON-RPC at `/` and `/a2a`, REST below both, cards below `/.well-known`.
//!
//! | module | content |
//! |---|---|
//! | [`model`] | tasks and messages, in the JSON of 1.0 |
//! | [`v03`] | the JSON of 0.3 |
//! | [`machine`] | a task as a state machine without I/O |
//! | [`version`], [`error`] | the version of a request; errors with their codes |
//! | [`card`] | agent cards |
//! | `requests`, `operations` | the parameters of requests; what they do |
//! | `live`, `work` | the tasks that the server works on: their readers, and the work |
//! | `remote` | the tasks that another server works on |
//! | `store`, `push` | tasks as records; webhooks |
//! | `json_rpc`, `rest` | the bindings |
//!
//! A `contextId` is a conversation: the session `<principal>/<contextId>` of the store. A task is one answer in it. Tasks
//! belong to the principal. Each has one work at a time, and tasks of one conversation wait for each other.
//!
//! Spec: A2A 1.0

pub mod card;
pub mod error;
mod json_rpc;
mod live;
pub mod machine;
pub mod model;
mod operations;
mod push;
mod remote;
mod requests;
mod rest;
mod store;
pub mod v03;
pub mod version;
mod work;

use std::sync::Arc;

use futures_util::future::BoxFuture;
use http::request::Parts;
use http::{Method, StatusCode, header};
use serde_json::Value;
use turntree_server::{Access, Body, RequestContext, Response, ServerError};

use self::error::{A2aError, ErrorKind};
use self::json_rpc::RpcRequest;
use self::operations::Operations;
use self::rest::RestRequest;
use self::store::TaskStore;
use self::version::Version;
use self::work::{Job, Workshop};
use crate::service::{Exchange, Route, Site, Wire};
use crate::wires::openai::payment;

/// The path of the card of 1.0.
const CARD: &str = "/.well-known/agent-card.json";

/// The path of the card of 0.3.
const CARD_V03: &str = "/.well-known/agent.json";

/// The wire of A2A.
#[derive(Debug, Default)]
pub struct A2a {
    workshop: Arc<Workshop>,
    allow_private_webhooks: bool,
}

impl A2a {
    /// Allows webhooks with addresses that are not public. Without it they are refused, because clients choose them.
    #[must_use]
    pub fn allowing_private_webhooks(self) -> Self {
        Self { allow_private_webhooks: true, ..self }
    }

    /// Sets how many tasks the server works on at the same time: 10 000. More are refused.
    #[must_use]
    pub fn with_max_tasks(self, max_tasks: usize) -> Self {
        Self { workshop: Arc::new(Workshop::new(max_tasks)), ..self }
    }
}

impl Wire for A2a {
    fn serves(&self, method: &Method, path: &str) -> bool {
        let path = path.strip_prefix("/a2a").unwrap_or(path);
        match path {
            "" => method == Method::POST,
            CARD | CARD_V03 => method == Method::GET || method == Method::HEAD,
            path => rest::is_path(path),
        }
    }

    fn call(&self, exchange: Exchange) -> BoxFuture<'static, Response> {
        Box::pin(answer(Arc::clone(&self.workshop), self.allow_private_webhooks, exchange))
    }

    fn access(&self, path: &str) -> Access {
        if matches!(path, CARD | CARD_V03) { Access::Public } else { Access::Authenticated }
    }

    fn refuse(&self, error: &ServerError) -> Response {
        let refusal = refusal(error);
        Body::json(&refusal.json_rpc(&Value::Null)).into_response(error.status())
    }

    fn shutdown(&self) {
        self.workshop.shutdown();
    }
}

fn refusal(error: &ServerError) -> A2aError {
    let kind = match error.status() {
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => ErrorKind::Unauthenticated,
        status if status.is_server_error() => ErrorKind::Internal,
        _ => ErrorKind::InvalidRequest,
    };
    A2aError::new(kind, error.public_message())
}

async fn answer(workshop: Arc<Workshop>, allow_private_webhooks: bool, exchange: Exchange) -> Response {
    let Exchange { site, route, request, context } = exchange;
    let (parts, body) = request.into_parts();
    let path = route.path.strip_prefix("/a2a").unwrap_or(&route.path);
    let is_rpc = path.is_empty();
    let fail = |error: &A2aError, id: &Value| {
        if is_rpc {
            Body::json(&error.json_rpc(id)).into_response(StatusCode::OK)
        } else {
            error.rest_response()
        }
    };
    let agent = match route.agent(&site, None) {
        Ok(agent) => Arc::clone(agent),
        Err(error) => {
            return fail(&A2aError::new(ErrorKind::InvalidRequest, error.to_string()), &Value::Null);
        }
    };
    if matches!(path, CARD | CARD_V03) {
        let url = url_of(&site, &route, &parts, &context);
        let is_protected = site.authenticator.is_some();
        let card = if path == CARD { card::card } else { card::card_v03 };
        return Body::json(&card(&agent, &url, is_protected)).into_response(StatusCode::OK);
    }
    let body = match body.bytes().await {
        Ok(body) => body,
        Err(error) => return fail(&refusal(&error), &Value::Null),
    };
    let named = match Version::of_request(&parts) {
        Ok(named) => named,
        Err(error) => {
            let id = RpcRequest::read(&body).map_or_else(|(_, id)| id, |request| request.id);
            return fail(&error, &id);
        }
    };
    let principal = context.principal.clone();
    let store =
        TaskStore::new(Arc::clone(site.conversations.engine()), Arc::clone(agent.name()), principal.as_ref());
    let payment_token = payment::token_of(&parts);
    let job = Job { site, agent, principal, store, allow_private_webhooks, payment_token };
    let operations = Operations { workshop, job };
    let last_event_id =
        parts.headers.get("last-event-id").and_then(|value| value.to_str().ok()?.parse().ok());
    if !is_rpc {
        if named == Some(Version::V03) {
            let message = "version 0.3 is served over JSON-RPC only; POST to this agent's URL";
            return A2aError::new(ErrorKind::VersionNotSupported, message).rest_response();
        }
        let query = parts.uri.query().unwrap_or_default();
        let request = RestRequest { method: &parts.method, path, query, body: &body, last_event_id };
        return rest::answer(&operations, request).await;
    }
    match RpcRequest::read(&body) {
        Ok(request) => {
            let version = Version::of_method(named, &request.method);
            json_rpc::answer(&operations, request, version, last_event_id).await
        }
        Err((error, id)) => fail(&error, &id),
    }
}

/// The URL of the agent, as clients see it.
fn url_of(site: &Site, route: &Route, parts: &Parts, context: &RequestContext) -> String {
    let base = if let Some(url) = &site.options.public_url {
        url.to_string()
    } else {
        let scheme = if context.connection.secure { "https" } else { "http" };
        let of_header = parts.headers.get(header::HOST).and_then(|host| host.to_str().ok());
        let host = of_header.or_else(|| parts.uri.authority().map(http::uri::Authority::as_str));
        format!("{scheme}://{}{}", host.unwrap_or("localhost"), context.connection.root_path)
    };
    format!("{base}{}", route.base)
}
