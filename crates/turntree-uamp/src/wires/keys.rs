//! The public keys of signatures: `/.well-known/jwks.json`.

use futures_util::future::BoxFuture;
use http::{Method, StatusCode};
use serde_json::{Value, json};
use turntree_server::{Access, Body, Response};

use crate::service::{Exchange, Wire};

/// The path of the keys.
const PATH: &str = "/.well-known/jwks.json";

/// The wire of the public keys. Everyone may read them.
#[derive(Debug, Clone, Copy, Default)]
pub struct Keys;

impl Wire for Keys {
    fn serves(&self, method: &Method, path: &str) -> bool {
        (method == Method::GET || method == Method::HEAD) && path == PATH
    }

    fn call(&self, exchange: Exchange) -> BoxFuture<'static, Response> {
        let keys: Vec<Value> = exchange.site.signing_key.iter().map(|key| key.public_jwk()).collect();
        Box::pin(std::future::ready(Body::json(&json!({ "keys": keys })).into_response(StatusCode::OK)))
    }

    fn access(&self, _path: &str) -> Access {
        Access::Public
    }
}
