//! What all paths of the HTTP API share.

use std::sync::Arc;

use http::{HeaderValue, Method, StatusCode, header};
use turntree_core::ids::IdSource;
use turntree_core::time::Timestamp;
use turntree_server::Response;

use super::error::ApiError;
use crate::agent::ServedAgent;
use crate::service::{Route, Site};

/// The agent of a request.
///
/// # Errors
/// No agent has the name; the request names none and must.
pub(super) fn agent_of<'a>(
    route: &'a Route,
    site: &'a Site,
    model: Option<&str>,
) -> Result<&'a Arc<ServedAgent>, ApiError> {
    if model.is_none_or(str::is_empty) && site.options.strict_openai {
        return Err(ApiError::missing("model", "you must provide a model parameter"));
    }
    route.agent(site, model.filter(|model| !model.is_empty())).map_err(|error| match model {
        Some(_) => ApiError::model_not_found(&error),
        None => ApiError::missing("model", format!("you must provide a model parameter: {}", error.known)),
    })
}

/// Refuses a method.
pub(super) fn method_not_allowed(method: &Method, allowed: &'static str) -> Response {
    let message = format!("{method} is not allowed here; use {allowed}");
    let error = ApiError::new(StatusCode::METHOD_NOT_ALLOWED, message);
    let mut response = error.with_code("method_not_allowed").response();
    response.headers_mut().insert(header::ALLOW, HeaderValue::from_static(allowed));
    response
}

/// A time in seconds since 1970.
pub(super) const fn seconds(time: Timestamp) -> i64 {
    time.milliseconds().div_euclid(1000)
}

/// A new id with a prefix.
pub(super) fn new_id(prefix: &str, ids: &dyn IdSource) -> String {
    format!("{prefix}_{}", ids.uuid().simple())
}
