//! Chat Completions: the format of OpenAI, which most hosts support.
//!
//! | file | content |
//! |---|---|
//! | `options` | differences between hosts, as data |
//! | `encode`, `content` | writes requests |
//! | `completion` | the JSON of responses |
//! | `decode` | reads whole responses |
//! | `stream` | reads streamed responses |
//! | `code_execution` | code that the vendor ran |
//! | `metadata` | collects provider metadata |
//!
//! Hosts differ in data ([`ChatOptions`]), not in code.
//!
//! Spec: UPP-1.2 §19.3, §19.8

mod code_execution;
mod completion;
mod content;
mod decode;
mod encode;
mod metadata;
mod options;
mod stream;

use std::sync::Arc;

use crate::dialect::{Dialect, Sources, StreamDecoder};
use crate::dialects::common::{END_OF_STREAM, VendorError};
use crate::endpoint::Endpoint;
use crate::error::{ErrorCode, UppError};
use crate::provider::Capabilities;
use crate::request::{ModelRequest, ModelResponse};
use crate::settings::SettingsTable;
use crate::structured_output::SchemaRules;
use turntree_core::ids::{IdSource, RandomIds};

pub use options::{CallIds, ChatOptions, Documents, Member, Replay, StructureForm};

/// The Chat Completions dialect of one host.
#[derive(Debug, Clone)]
pub struct ChatDialect {
    options: Arc<ChatOptions>,
    ids: Arc<dyn IdSource>,
}

impl ChatDialect {
    /// Creates the dialect of a host.
    pub fn new(options: ChatOptions) -> Self {
        Self { options: Arc::new(options), ids: Arc::new(RandomIds) }
    }

    /// Sets the source of ids for tool calls without an id.
    #[must_use]
    pub fn with_ids(self, ids: Arc<dyn IdSource>) -> Self {
        Self { ids, ..self }
    }
}

impl Dialect for ChatDialect {
    fn endpoint(&self) -> &Endpoint {
        &self.options.endpoint
    }

    fn capabilities(&self) -> Capabilities {
        self.options.capabilities
    }

    fn settings(&self) -> &'static SettingsTable {
        SettingsTable::of_chat(self.provider())
    }

    fn path(&self, _model_id: &str, _streaming: bool) -> String {
        "/chat/completions".to_owned()
    }

    fn takes_native_tools(&self) -> bool {
        self.options.native_tools
    }

    fn schema_rules(&self, _model_id: &str) -> Option<&'static SchemaRules> {
        (self.options.structure == StructureForm::JsonSchema).then_some(self.options.schema_rules)
    }

    fn end_marker(&self) -> Option<&'static str> {
        self.options.ends_with_done.then_some(END_OF_STREAM)
    }

    fn encode(&self, model_id: &str, request: &ModelRequest, streaming: bool) -> Result<Vec<u8>, UppError> {
        encode::body(&self.options, model_id, request, streaming)
    }

    fn decode(
        &self,
        body: &str,
        request: &ModelRequest,
        sources: Sources<'_>,
    ) -> Result<ModelResponse, UppError> {
        decode::response(&self.options, body, request, sources)
    }

    fn stream_decoder(&self, request: &ModelRequest) -> Box<dyn StreamDecoder> {
        let is_structured = request.structure.is_some();
        Box::new(stream::ChatStreamDecoder::new(
            Arc::clone(&self.options),
            Arc::clone(&self.ids),
            is_structured,
        ))
    }

    fn error_of_body(&self, status: u16, body: &str) -> Option<(ErrorCode, String)> {
        Some(VendorError::of_status(status, body))
    }
}
