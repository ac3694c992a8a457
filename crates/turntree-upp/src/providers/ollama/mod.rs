//! Ollama's own API: `/api/chat`, one JSON document a line.
//!
//! | file | content |
//! |---|---|
//! | `encode` | writes requests |
//! | `decode` | reads whole responses |
//! | `stream` | reads streamed responses |
//! | `metadata` | collects provider metadata |
//! | `embedding` | embeddings |
//!
//! Spec: UPP-1.2 §19.5

mod decode;
pub mod embedding;
mod encode;
mod metadata;
mod stream;

use std::sync::Arc;

use crate::dialect::{Dialect, Framing, Sources, StreamDecoder};
use crate::dialects::common::VendorError;
use crate::endpoint::Endpoint;
use crate::error::{ErrorCode, UppError};
use crate::provider::Capabilities;
use crate::request::{ModelRequest, ModelResponse};
use crate::settings::SettingsTable;
use turntree_core::ids::{IdSource, RandomIds};

/// The provider's name; also the namespace of its metadata.
pub const PROVIDER: &str = "ollama";

/// A model on the user's own machine: `http://localhost:11434/api/chat`, usually without a key.
#[derive(Debug, Clone)]
pub struct OllamaDialect {
    endpoint: Endpoint,
    ids: Arc<dyn IdSource>,
}

/// `ollama(model)`.
pub fn ollama() -> OllamaDialect {
    let endpoint = Endpoint {
        key_is_optional: true,
        ..Endpoint::vendor(PROVIDER, "http://localhost:11434", &["OLLAMA_API_KEY"])
    };
    OllamaDialect { endpoint, ids: Arc::new(RandomIds) }
}

impl OllamaDialect {
    /// Sets the source of ids for tool calls, which Ollama does not send.
    #[must_use]
    pub fn with_ids(self, ids: Arc<dyn IdSource>) -> Self {
        Self { ids, ..self }
    }
}

impl Dialect for OllamaDialect {
    fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { image_input: true, ..Capabilities::TEXT }
    }

    fn settings(&self) -> &'static SettingsTable {
        &SettingsTable::OLLAMA
    }

    fn path(&self, _model_id: &str, _streaming: bool) -> String {
        "/api/chat".to_owned()
    }

    fn framing(&self) -> Framing {
        Framing::Lines
    }

    fn encode(&self, model_id: &str, request: &ModelRequest, streaming: bool) -> Result<Vec<u8>, UppError> {
        encode::body(model_id, request, streaming)
    }

    fn decode(
        &self,
        body: &str,
        request: &ModelRequest,
        sources: Sources<'_>,
    ) -> Result<ModelResponse, UppError> {
        decode::response(body, request, sources)
    }

    fn stream_decoder(&self, request: &ModelRequest) -> Box<dyn StreamDecoder> {
        Box::new(stream::OllamaStreamDecoder::new(Arc::clone(&self.ids), request.structure.is_some()))
    }

    fn error_of_body(&self, status: u16, body: &str) -> Option<(ErrorCode, String)> {
        Some(VendorError::of_status(status, body))
    }
}
