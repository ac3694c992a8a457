//! `GET /models` and `GET /models/{id}`: the agents as models.

use http::{Method, StatusCode};
use percent_encoding::percent_decode_str;
use serde_json::{Value, json};
use turntree_core::time::Timestamp;
use turntree_server::{Body, Response};

use super::common::{method_not_allowed, seconds};
use super::error::ApiError;
use crate::agent::ServedAgent;
use crate::service::Exchange;

const PATH: &str = "/models";

/// Whether a path is one of models.
pub(super) fn serves(path: &str) -> bool {
    path.strip_prefix(PATH).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Answers a request.
///
/// # Errors
/// No agent has the name.
pub(super) fn answer(exchange: &Exchange, since: Timestamp) -> Result<Response, ApiError> {
    let Exchange { site, route, request, .. } = exchange;
    if request.method() != Method::GET && request.method() != Method::HEAD {
        return Ok(method_not_allowed(request.method(), "GET"));
    }
    let body = match route.path.strip_prefix("/models/") {
        None => {
            let models: Vec<Value> = route.agents(site).iter().map(|agent| model(agent, since)).collect();
            json!({ "object": "list", "data": models })
        }
        Some(name) => {
            let name = percent_decode_str(name).decode_utf8_lossy();
            let agent = route.agent(site, Some(&name));
            model(agent.map_err(|error| ApiError::model_not_found(&error))?, since)
        }
    };
    Ok(Body::json(&body).into_response(StatusCode::OK))
}

fn model(agent: &ServedAgent, since: Timestamp) -> Value {
    json!({ "id": &**agent.name(), "object": "model", "created": seconds(since), "owned_by": "turntree" })
}
