//! Requests to APIs of a vendor other than the model call: token counts, files, batches.

use bytes::Bytes;

use super::{ApiRequest, HttpModel, MAX_VECTORS_OR_PICTURES};
use crate::dialect::Sources;
use crate::dialects::common::without_byte_order_mark;
use crate::error::UppError;
use crate::raw_response;
use crate::reported_error;
use crate::request::{ModelRequest, ModelResponse};
use tokio_util::sync::CancellationToken;
use turntree_core::http::{Method, ResponseType};

/// A request to any API of a vendor.
#[derive(Debug)]
pub struct ApiCall {
    /// The method.
    pub method: Method,
    /// The path under the prefix, with its leading slash, and a query.
    pub path: String,
    /// The body; empty for none.
    pub body: Bytes,
    /// The media type of the body.
    pub content_type: String,
    /// Further headers.
    pub headers: Vec<(String, String)>,
    /// A path before that of the prefix, such as `/upload`.
    pub root: String,
}

impl HttpModel {
    /// Sends a request to any API of the vendor and returns the body of the response.
    ///
    /// # Errors
    /// As those of a model call.
    pub async fn call_api(&self, call: ApiCall) -> Result<Bytes, UppError> {
        let ApiCall { method, path, body, content_type, headers, root } = call;
        let request = ApiRequest { path, content_type, body };
        let (http, keys) = self.address(request, ResponseType::Any).await?;
        let url = match http.url().split_once("://") {
            Some((scheme, rest)) => {
                let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
                format!("{scheme}://{host}{root}{path}")
            }
            None => http.url().to_owned(),
        };
        let mut http = http.with_address(method, url);
        for (name, value) in headers {
            http = http.header(name, value);
        }
        let client = self.client(Some(MAX_VECTORS_OR_PICTURES))?;
        let sent = client.send(http, &self.retries(&keys), &CancellationToken::new()).await;
        sent.map(|response| response.body).map_err(|error| keys.hide(self.http_error(error)))
    }

    /// The path of model calls, under the prefix.
    pub fn path(&self) -> String {
        self.dialect.path(&self.model_id, false)
    }

    /// The body that is sent for a request.
    ///
    /// # Errors
    /// [`ErrorCode::InvalidRequest`] for content that the API does not support.
    pub fn body(&self, request: &ModelRequest) -> Result<Vec<u8>, UppError> {
        let settled = self.settled(request)?;
        self.dialect.encode(&self.model_id, &settled, false)
    }

    /// Reads the body of a response that has arrived in another way, such as a line of a batch.
    ///
    /// # Errors
    /// As those of a model call.
    pub fn read(&self, request: &ModelRequest, body: &str) -> Result<ModelResponse, UppError> {
        let settled = self.settled(request)?;
        let sources = Sources { ids: &*self.ids, clock: &*self.clock };
        let body = without_byte_order_mark(body);
        let mut response = self
            .dialect
            .decode(body, &settled, sources)
            .map_err(|error| reported_error::of_body(error, body))?;
        raw_response::keep(&request.params, body, &mut response);
        self.complete_response(request, &mut response);
        Ok(response)
    }
}
