//! Gives each request to the wire of its path.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use http::Method;
use http::request::Parts;
use turntree_server::{
    Access, Application, Request, RequestContext, Response, ServerError, WebSocketUpgrade,
};

use super::route::{Route, UnknownAgent};
use super::site::Site;
use super::wire::{Exchange, Wire, not_found, unknown_agent};

/// Agents as an HTTP application. Cloning shares it.
#[derive(Debug, Clone)]
pub struct AgentService {
    site: Arc<Site>,
    wires: Arc<[Box<dyn Wire>]>,
}

impl AgentService {
    /// A service of the agents of a site on these wires; the first wire that serves a path answers.
    pub fn new(site: Site, wires: Vec<Box<dyn Wire>>) -> Self {
        Self { site: Arc::new(site), wires: wires.into() }
    }

    /// What the wires share.
    pub const fn site(&self) -> &Arc<Site> {
        &self.site
    }

    fn route(&self, method: &Method, path: &str) -> Result<(Route, Option<&dyn Wire>), UnknownAgent> {
        let route = Route::of_path(&self.site, path)?;
        let wire = self.wires.iter().find(|wire| wire.serves(method, &route.path)).map(AsRef::as_ref);
        Ok((route, wire))
    }
}

impl Application for AgentService {
    fn call(&self, request: Request, context: RequestContext) -> BoxFuture<'_, Response> {
        match self.route(request.method(), request.uri().path()) {
            Err(error) => ready(unknown_agent(&error)),
            Ok((_, None)) => ready(not_found()),
            Ok((route, Some(wire))) => {
                wire.call(Exchange { site: Arc::clone(&self.site), route, request, context })
            }
        }
    }

    fn websocket(
        &self,
        request: http::Request<()>,
        context: RequestContext,
        upgrade: WebSocketUpgrade,
    ) -> BoxFuture<'_, ()> {
        let refusal = match self.route(&Method::GET, request.uri().path()) {
            Err(error) => {
                let route = Route::without_agent(request.uri().path());
                match self.wires.iter().find(|wire| wire.serves(&Method::GET, &route.path)) {
                    None => unknown_agent(&error),
                    Some(wire) => {
                        let exchange = Exchange { site: Arc::clone(&self.site), route, request, context };
                        return wire.websocket_of_unknown_agent(exchange, error, upgrade);
                    }
                }
            }
            Ok((_, None)) => not_found(),
            Ok((route, Some(wire))) => {
                let exchange = Exchange { site: Arc::clone(&self.site), route, request, context };
                return wire.websocket(exchange, upgrade);
            }
        };
        upgrade.reject(refusal);
        Box::pin(std::future::ready(()))
    }

    fn access(&self, request: &Parts) -> Access {
        match self.route(&request.method, request.uri.path()) {
            Ok((route, Some(wire))) => match wire.access(&route.path) {
                // A wire that checks tokens itself needs the authenticator.
                Access::Public if wire.checks_tokens() && self.site.authenticator.is_none() => {
                    Access::Authenticated
                }
                access => access,
            },
            _ => Access::Authenticated,
        }
    }

    fn refuse(&self, request: &Parts, error: &ServerError) -> Response {
        match self.route(&request.method, request.uri.path()) {
            Ok((_, Some(wire))) => wire.refuse(error),
            _ => error.response(),
        }
    }

    fn shutdown(&self) {
        for wire in &*self.wires {
            wire.shutdown();
        }
    }
}

fn ready(response: Response) -> BoxFuture<'static, Response> {
    Box::pin(std::future::ready(response))
}
