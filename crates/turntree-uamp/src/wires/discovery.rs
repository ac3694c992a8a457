//! What a server offers: `/info`, `/capabilities`, `/agents`.
//!
//! Spec: UAMP-1.0 §9

use futures_util::future::BoxFuture;
use http::{Method, StatusCode};
use serde_json::{Value, json};
use turntree_server::{Body, Response};

use crate::agent::ServedAgent;
use crate::service::{Exchange, Wire};

/// The wire of discovery.
#[derive(Debug, Clone, Copy, Default)]
pub struct Discovery;

impl Wire for Discovery {
    fn serves(&self, method: &Method, path: &str) -> bool {
        let is_read = method == Method::GET || method == Method::HEAD;
        is_read && matches!(path, "/info" | "/capabilities" | "/agents")
    }

    fn call(&self, exchange: Exchange) -> BoxFuture<'static, Response> {
        let Exchange { site, route, .. } = exchange;
        let body = match &*route.path {
            "/capabilities" => route.agent(&site, None).map_or_else(
                |_| {
                    let list: Vec<_> = site.agents.iter().map(|agent| agent.capabilities()).collect();
                    json!({ "agents": list })
                },
                |agent| json!(agent.capabilities()),
            ),
            "/info" => {
                route.agent(&site, None).map_or_else(|_| agents(&route.agents(&site)), |agent| info(agent))
            }
            _ => agents(&route.agents(&site)),
        };
        Box::pin(std::future::ready(Body::json(&body).into_response(StatusCode::OK)))
    }
}

fn info(agent: &ServedAgent) -> Value {
    json!({
        "name": &**agent.name(),
        "description": agent.description(),
        "capabilities": agent.capabilities(),
        "protocol": "UAMP",
        "uamp_version": "1.0",
        "version": env!("CARGO_PKG_VERSION"),
    })
}

fn agents(agents: &[std::sync::Arc<ServedAgent>]) -> Value {
    json!({ "agents": agents.iter().map(|agent| info(agent)).collect::<Vec<_>>() })
}
