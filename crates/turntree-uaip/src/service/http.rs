//! The paths of the service.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use percent_encoding::percent_decode_str;
use serde_json::{Value, json};
use turntree_server::{Application, Body, Request, RequestContext, Response, ServerError};

use super::runner::ProgressSender;
use super::sessions::{RequestInfo, Requested};
use super::{Inner, WorkflowService, headers, stream};
use crate::engine::Action;
use crate::store::digest_of;
use crate::wire::view::{server_view, workflow_view, workflows_view};
use crate::wire::{Envelope, Profile, WireError, WireResponse};

/// Which resource a path names.
#[derive(Debug, PartialEq, Eq)]
enum Resource {
    Server,
    Initialize,
    Execute,
    Workflows,
    Workflow(String),
    OnlyWorkflow,
    Session(String),
    OpenApi,
}

impl Resource {
    fn of_path(path: &str) -> Option<Self> {
        let path = path.strip_suffix('/').unwrap_or(path);
        match path {
            "" => Some(Self::Server),
            "/initialize" => Some(Self::Initialize),
            "/execute" => Some(Self::Execute),
            "/api/workflows" => Some(Self::Workflows),
            "/schema" => Some(Self::OnlyWorkflow),
            "/openapi.json" => Some(Self::OpenApi),
            _ => match path.strip_prefix("/api/workflows/") {
                Some(name) => Some(Self::Workflow(decoded(name)?)),
                None => Some(Self::Session(decoded(path.strip_prefix("/sessions/")?)?)),
            },
        }
    }

    const fn methods(&self) -> &'static str {
        match self {
            Self::Initialize | Self::Execute => "POST",
            Self::Session(_) => "GET, HEAD, DELETE",
            _ => "GET, HEAD",
        }
    }
}

/// One segment of a path.
fn decoded(segment: &str) -> Option<String> {
    if segment.is_empty() || segment.contains('/') {
        return None;
    }
    percent_decode_str(segment).decode_utf8().ok().map(std::borrow::Cow::into_owned)
}

impl Application for WorkflowService {
    fn call(&self, request: Request, context: RequestContext) -> BoxFuture<'_, Response> {
        self.start_sweeper();
        let inner = Arc::clone(&self.inner);
        Box::pin(async move {
            let (parts, body) = request.into_parts();
            let principal = context.principal.map(|principal| principal.id().to_owned());
            match inner.route(&parts, body, principal).await {
                Ok(response) => response,
                Err(error) => {
                    let profile = headers::profile(&parts.headers, inner.options.profile);
                    let profile = profile.unwrap_or(inner.options.profile);
                    response_of(&WireResponse::of_error(profile, &error, None))
                }
            }
        })
    }

    fn refuse(&self, _request: &Parts, error: &ServerError) -> Response {
        Body::json(&json!({"detail": error.public_message(), "code": error.code()}))
            .into_response(error.status())
    }

    fn ready(&self) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(async move { self.inner.store.check().await.map_err(|error| error.to_string()) })
    }
}

/// A response as HTTP.
pub(super) fn response_of(wire: &WireResponse) -> Response {
    let status = StatusCode::from_u16(wire.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = Body::json(&wire.body).into_response(status);
    if let Some((name, value)) = wire.header {
        response.headers_mut().insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    response
}

/// Adds the id of a new session.
fn with_session_id(wire: &WireResponse) -> Response {
    let id = wire.body.get("session_id").and_then(Value::as_str);
    let id = id.and_then(|id| HeaderValue::from_str(id).ok());
    let mut response = response_of(wire);
    if let Some(id) = id {
        response.headers_mut().insert(HeaderName::from_static(headers::SESSION_ID), id);
    }
    response
}

impl Inner {
    async fn route(
        self: &Arc<Self>,
        parts: &Parts,
        body: Body,
        principal: Option<String>,
    ) -> Result<Response, WireError> {
        let path = parts.uri.path();
        let not_found = || WireError::PathNotFound { path: path.to_owned() };
        let resource = Resource::of_path(path).ok_or_else(not_found)?;
        let is_read = parts.method == Method::GET || parts.method == Method::HEAD;
        let is_write = parts.method == Method::POST;
        let view = match resource {
            Resource::Initialize if is_write => {
                return self.initialize_over_http(parts, body, principal).await;
            }
            Resource::Execute if is_write => return self.execute_over_http(parts, body, principal).await,
            Resource::Session(id) if is_read => {
                let info = RequestInfo { principal, ..RequestInfo::default() };
                return self.view(&id, &info).await.map(|view| response_of(&view));
            }
            Resource::Session(id) if parts.method == Method::DELETE => {
                return self.delete_over_http(&parts.headers, id, principal).await;
            }
            Resource::Server if is_read => server_view(),
            Resource::Workflows if is_read => {
                workflows_view(self.workflows.iter().map(|workflow| &**workflow))
            }
            Resource::Workflow(name) if is_read => workflow_view(self.workflow(&name)?),
            Resource::OnlyWorkflow if is_read => workflow_view(self.only().ok_or_else(not_found)?),
            Resource::OpenApi if is_read => self.openapi.clone(),
            other => return Err(WireError::MethodNotAllowed { allowed: other.methods() }),
        };
        Ok(response_of(&WireResponse::ok(view)))
    }

    /// The checks of the head that come before the body is read.
    fn info(&self, headers: &HeaderMap, principal: Option<String>) -> Result<RequestInfo, WireError> {
        Ok(RequestInfo {
            principal,
            profile: headers::profile(headers, self.options.profile)?,
            idempotency_key: headers::idempotency_key(headers)?,
            body_digest: String::new(),
            if_match: headers::if_match(headers)?,
        })
    }

    async fn initialize_over_http(
        &self,
        parts: &Parts,
        body: Body,
        principal: Option<String>,
    ) -> Result<Response, WireError> {
        headers::check_content_type(&parts.headers)?;
        let mut info = self.info(&parts.headers, principal)?;
        let body = headers::read_body(body, self.options.body_limit).await?;
        let envelope = Envelope::parse(&body)?;
        let only = self.only().map(|workflow| workflow.name());
        let workflow = self.workflow(envelope.workflow_name(only)?)?;
        // Bodies that ask for the same workflow are the same request, with or without its name.
        info.body_digest = digest_of(workflow.name().as_bytes());
        Ok(with_session_id(&self.initialize(workflow, &info).await))
    }

    async fn execute_over_http(
        self: &Arc<Self>,
        parts: &Parts,
        body: Body,
        principal: Option<String>,
    ) -> Result<Response, WireError> {
        headers::check_content_type(&parts.headers)?;
        let session_id = headers::session_id(&parts.headers)?;
        let mut info = self.info(&parts.headers, principal)?;
        let body = headers::read_body(body, self.options.body_limit).await?;
        let envelope = Envelope::parse(&body)?;
        let only = self.only().map(|workflow| workflow.name());
        self.workflow(envelope.workflow_name(only)?)?;
        info.body_digest = digest_of(&body);
        let begun = match self.begin(session_id, Requested::Body(envelope), info).await {
            Ok(begun) => begun,
            Err(response) => return Ok(response_of(&response)),
        };
        if begun.waits_for_task() && headers::accepts_events(&parts.headers) {
            let inner = Arc::clone(self);
            return Ok(stream::events(move |progress| async move { inner.finish(begun, progress).await }));
        }
        Ok(response_of(&self.finish(begun, ProgressSender::default()).await))
    }

    async fn delete_over_http(
        &self,
        headers: &HeaderMap,
        session_id: String,
        principal: Option<String>,
    ) -> Result<Response, WireError> {
        let mut info = self.info(headers, principal)?;
        info.profile = Profile::Strict;
        info.body_digest = digest_of(b"DELETE");
        let action = Requested::Action(Action::TerminateSession { reason: None });
        Ok(response_of(&match self.begin(session_id, action, info).await {
            Ok(begun) => self.finish(begun, ProgressSender::default()).await,
            Err(response) => response,
        }))
    }
}
