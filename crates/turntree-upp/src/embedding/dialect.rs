//! Vendors' embedding formats without I/O, and the model that uses one over HTTP.

use std::fmt;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde::Deserialize;

use super::{EmbeddingLimits, EmbeddingModel, EmbeddingRequest, EmbeddingResult};
use crate::config::ProviderConfig;
use crate::dialect::Dialect;
use crate::error::{Modality, UppError};
use crate::http_model::{ApiRequest, HttpModel};
use turntree_core::http::TransportLayer;
use turntree_core::limits::Limits;

/// Embeddings are many small values: 2048 vectors of 3072 numbers are 6 million, more than in any other response.
const LIMITS: Limits = Limits { bytes: 1 << 30, depth: 160, values: 50_000_000 };

/// A vendor's format of embeddings. Name, URL, key and errors are those of its [`Dialect`].
pub trait EmbeddingDialect: Send + Sync + fmt::Debug + 'static {
    /// The limits of a model.
    fn limits(&self, model_id: &str) -> EmbeddingLimits;

    /// The path under the vendor's prefix, with its leading slash.
    fn path(&self, model_id: &str) -> String;

    /// Writes the body of a request.
    ///
    /// # Errors
    /// [`ErrorCode::InvalidRequest`](crate::ErrorCode::InvalidRequest) for inputs that the vendor does not support.
    fn encode(&self, model_id: &str, request: &EmbeddingRequest) -> Result<Vec<u8>, UppError>;

    /// Reads the body of a response.
    ///
    /// # Errors
    /// [`ErrorCode::InvalidResponse`](crate::ErrorCode::InvalidResponse) if the body does not follow the vendor's
    /// format; the vendor's own error if the body reports one.
    fn decode(&self, body: &str) -> Result<EmbeddingResult, UppError>;
}

/// An embedding model behind a vendor's HTTP API. Clones share everything.
#[derive(Debug, Clone)]
pub struct HttpEmbeddingModel {
    vendor: HttpModel,
    wire: Arc<dyn EmbeddingDialect>,
}

impl HttpEmbeddingModel {
    /// Creates a model of a vendor.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use turntree_upp::ProviderConfig;
    /// use turntree_upp::embedding::{EmbeddingModel as _, HttpEmbeddingModel};
    /// use turntree_upp::providers::openai;
    ///
    /// let config = ProviderConfig::default().with_key("sk-…");
    /// let (vendor, wire) = (Arc::new(openai::openai()), Arc::new(openai::openai_embedding()));
    /// let model = HttpEmbeddingModel::new(vendor, wire, "text-embedding-3-small", config);
    /// assert_eq!(model.limits().batch_size, Some(2048));
    /// ```
    pub fn new(
        vendor: Arc<dyn Dialect>,
        wire: Arc<dyn EmbeddingDialect>,
        model_id: impl Into<Arc<str>>,
        config: ProviderConfig,
    ) -> Self {
        Self { vendor: HttpModel::new(vendor, model_id, config), wire }
    }

    /// Wraps or replaces the HTTP transport.
    #[must_use]
    pub fn with_transport(self, transport: Arc<dyn TransportLayer>) -> Self {
        Self { vendor: self.vendor.with_transport(transport), ..self }
    }

    /// The configuration.
    pub fn config(&self) -> &ProviderConfig {
        self.vendor.config()
    }

    async fn call(self, request: EmbeddingRequest) -> Result<EmbeddingResult, UppError> {
        use crate::provider::Model as _;
        let model_id = self.vendor.model_id();
        let ask = ApiRequest::json(self.wire.path(model_id), self.wire.encode(model_id, &request)?);
        self.vendor.exchange(ask, |body| self.wire.decode(body)).await
    }
}

impl EmbeddingModel for HttpEmbeddingModel {
    fn model_id(&self) -> &str {
        crate::provider::Model::model_id(&self.vendor)
    }

    fn provider(&self) -> &str {
        crate::provider::Model::provider(&self.vendor)
    }

    fn limits(&self) -> EmbeddingLimits {
        self.wire.limits(self.model_id())
    }

    fn embed(&self, request: EmbeddingRequest) -> BoxFuture<'static, Result<EmbeddingResult, UppError>> {
        let call = self.clone().call(request);
        Box::pin(async move { call.await.map_err(|error| error.with_modality(Modality::Embedding)) })
    }
}

/// Reads the body of a response with embeddings.
///
/// # Errors
/// [`ErrorCode::InvalidResponse`](crate::ErrorCode::InvalidResponse) if the body is empty, invalid JSON, of another
/// shape or too large.
pub(crate) fn read_vectors<'de, T: Deserialize<'de>>(provider: &str, body: &'de str) -> Result<T, UppError> {
    if body.trim().is_empty() {
        return Err(UppError::invalid_response(provider, "Empty response body"));
    }
    let failed = |error: &dyn fmt::Display| {
        UppError::invalid_response(provider, format!("Failed to parse the embeddings: {error}"))
    };
    LIMITS.check(body).map_err(|error| failed(&error).with_cause(error))?;
    serde_json::from_str(body).map_err(|error| failed(&error).with_cause(error))
}
