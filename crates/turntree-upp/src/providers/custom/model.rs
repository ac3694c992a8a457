//! A language model made of functions of the application.

use std::fmt;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use futures_util::{StreamExt as _, TryFutureExt as _, stream};

use super::event_queue::EventSender;
use super::stream::CustomStream;
use crate::dialects::common::{data_of, new_call_id};
use crate::error::{Modality, UppError};
use crate::provider::{Capabilities, Model, ModelEvent, ModelStream};
use crate::provider_tools;
use crate::providers::scripted::events_of;
use crate::request::{ModelRequest, ModelResponse, StopReason};
use crate::stop_reason;
use turntree_core::ids::{IdSource as _, RandomIds};
use turntree_core::json::{Extra, RawJson, RawObject};
use turntree_core::message::{Body, ContentBlock, Message, TokenUsage, ToolCall};
use turntree_core::time::{Clock as _, SystemClock};

/// Returns the response to a request. Called where the model's future is polled.
pub type GenerateFunction =
    Arc<dyn Fn(ModelRequest) -> BoxFuture<'static, Result<CustomResponse, UppError>> + Send + Sync>;

/// Sends the events of a response and returns the rest of it. Called where the model's stream is polled.
pub type StreamFunction = Arc<
    dyn Fn(ModelRequest, EventSender) -> BoxFuture<'static, Result<CustomResponse, UppError>> + Send + Sync,
>;

/// Blocks and tool calls.
pub(super) type Content = (Vec<ContentBlock>, Vec<ToolCall>);

/// What a function of the application returns.
#[derive(Debug, Clone, Default)]
pub struct CustomResponse {
    /// Blocks and tool calls; a call with an empty id gets one. Default: the streamed content.
    pub content: Option<(Vec<ContentBlock>, Vec<ToolCall>)>,
    /// The tokens of the call.
    pub usage: TokenUsage,
    /// Why the model stopped. Default: [`StopReason::ToolUse`] if there are tool calls, else [`StopReason::EndTurn`].
    pub stop_reason: Option<StopReason>,
    /// The structured output. Default: the text, parsed as JSON, if the request has a schema.
    pub data: Option<RawJson>,
    /// Metadata of the message by namespace. The model id is added to the namespace of the provider.
    pub metadata: RawObject,
    /// The id of the message. Default: a new UUIDv4.
    pub id: Option<String>,
}

/// A language model made of functions of the application. Clones share the functions.
///
/// If only one of the functions is set, the other is derived from it.
///
/// ```
/// use std::sync::Arc;
/// use turntree_core::message::ContentBlock;
/// use turntree_upp::Capabilities;
/// use turntree_upp::providers::custom::{CustomModel, CustomResponse};
///
/// let parrot = CustomModel::new("parrot", "grey", Capabilities::TEXT).with_generate(Arc::new(|_request| {
///     let content = Some((vec![ContentBlock::text("Polly wants a cracker.")], Vec::new()));
///     Box::pin(async { Ok(CustomResponse { content, ..CustomResponse::default() }) })
/// }));
/// assert!(parrot.is_llm());
/// ```
#[derive(Clone)]
pub struct CustomModel {
    pub(super) provider: Arc<str>,
    model_id: Arc<str>,
    capabilities: Capabilities,
    generate: Option<GenerateFunction>,
    stream: Option<StreamFunction>,
}

impl CustomModel {
    /// A model without functions.
    pub fn new(
        provider: impl Into<Arc<str>>,
        model_id: impl Into<Arc<str>>,
        capabilities: Capabilities,
    ) -> Self {
        Self {
            provider: provider.into(),
            model_id: model_id.into(),
            capabilities,
            generate: None,
            stream: None,
        }
    }

    /// Sets the function of complete responses.
    #[must_use]
    pub fn with_generate(self, function: GenerateFunction) -> Self {
        Self { generate: Some(function), ..self }
    }

    /// Sets the function of streamed responses.
    #[must_use]
    pub fn with_stream(self, function: StreamFunction) -> Self {
        Self { stream: Some(function), ..self }
    }

    /// True if the model has a function.
    pub const fn is_llm(&self) -> bool {
        self.generate.is_some() || self.stream.is_some()
    }

    /// The request as the functions receive it: provider tools are in the parameters.
    fn settle(&self, request: &ModelRequest) -> Result<ModelRequest, UppError> {
        provider_tools::settle(request, &self.provider, true).map(std::borrow::Cow::into_owned)
    }

    async fn generate(
        self,
        function: GenerateFunction,
        request: ModelRequest,
    ) -> Result<ModelResponse, UppError> {
        let request = self.settle(&request)?;
        let response = function(request.clone()).await?;
        Ok(self.response(&request, response, Content::default()))
    }

    fn open(self, function: &StreamFunction, request: &ModelRequest) -> Result<CustomStream, UppError> {
        let request = self.settle(request)?;
        Ok(CustomStream::new(self, request, function))
    }

    /// Completes a response. `streamed` is the content of the events.
    pub(super) fn response(
        &self,
        request: &ModelRequest,
        response: CustomResponse,
        streamed: Content,
    ) -> ModelResponse {
        let (content, mut tool_calls) = response.content.unwrap_or(streamed);
        for call in tool_calls.iter_mut().filter(|call| call.tool_call_id.is_empty()) {
            call.tool_call_id = new_call_id(&RandomIds);
        }
        let derived = if tool_calls.is_empty() { StopReason::EndTurn } else { StopReason::ToolUse };
        let data = response.data.or_else(|| {
            request.structure.as_ref()?;
            let text: String = content.iter().filter_map(ContentBlock::as_text).collect();
            data_of(&text)
        });
        let message = Message {
            id: response.id.unwrap_or_else(|| RandomIds.string()),
            timestamp: SystemClock.now(),
            metadata: Some(self.with_model_id(response.metadata)),
            body: Body::Assistant { content, tool_calls: (!tool_calls.is_empty()).then_some(tool_calls) },
            extra: Extra::new(),
        };
        let mut response = ModelResponse {
            message: Arc::new(message),
            usage: response.usage,
            stop_reason: response.stop_reason.unwrap_or(derived),
            data,
        };
        stop_reason::record(&mut response, "content_filter");
        response
    }

    /// Adds the model id to the metadata of the provider.
    fn with_model_id(&self, mut metadata: RawObject) -> RawObject {
        let mut fields = metadata.get(&self.provider).and_then(RawObject::from_raw).unwrap_or_default();
        if fields.get("model").is_none() {
            fields.insert("model", RawJson::from_str_value(&self.model_id));
            metadata.insert(&*self.provider, RawJson::from_value(&fields).unwrap_or_default());
        }
        metadata
    }
}

impl fmt::Debug for CustomModel {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("CustomModel")
            .field("provider", &self.provider)
            .field("model_id", &self.model_id)
            .finish_non_exhaustive()
    }
}

impl Model for CustomModel {
    fn model_id(&self) -> &str {
        &self.model_id
    }

    fn provider(&self) -> &str {
        &self.provider
    }

    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    fn complete(&self, request: ModelRequest) -> BoxFuture<'static, Result<ModelResponse, UppError>> {
        if let Some(function) = &self.generate {
            return Box::pin(self.clone().generate(Arc::clone(function), request));
        }
        let mut events = self.stream(request);
        let provider = Arc::clone(&self.provider);
        Box::pin(async move {
            while let Some(event) = events.next().await {
                if let ModelEvent::Done(response) = event? {
                    return Ok(response);
                }
            }
            Err(UppError::invalid_response(&*provider, "the stream ended without a response"))
        })
    }

    fn stream(&self, request: ModelRequest) -> ModelStream {
        let model = self.clone();
        if let Some(function) = self.stream.clone() {
            return Box::pin(async move { model.open(&function, &request) }.try_flatten_stream());
        }
        let Some(function) = self.generate.clone() else {
            return Box::pin(stream::iter([Err(UppError::unsupported(&self.provider, Modality::Llm))]));
        };
        let events = async move {
            let is_structured = request.structure.is_some();
            let response = model.generate(function, request).await?;
            let message = &response.message;
            let events = events_of(message.content(), message.tool_calls(), is_structured);
            let events = events.into_iter().map(ModelEvent::Event).chain([ModelEvent::Done(response)]);
            Ok(stream::iter(events.map(Ok)))
        };
        Box::pin(events.try_flatten_stream())
    }
}
